"""The cases naive converters break on, by group. Each is a small document that must survive a round trip."""

from mooring.text.tree import Mark, Node, doc, mark, node, paragraph, text

STRONG, EM, CODE, STRIKE, UNDERLINE = (mark(kind) for kind in ("strong", "em", "code", "strike", "underline"))
RED = mark("textColor", color="#ff0000")
YELLOW = mark("backgroundColor", color="#fffae6")
LINK = mark("link", href="https://example.com/a?b=1&c=2#d")
BREAK: Node = {"type": "hardBreak"}


def p(*content: Node | str) -> Node:
    return paragraph(*(text(each) if isinstance(each, str) else each for each in content))


def one(*content: Node | str) -> Node:
    return doc(p(*content))


def marked(value: str, *marks: Mark) -> Node:
    return text(value, *marks)


def item(*content: Node) -> Node:
    return node("listItem", list(content))


def bullets(*items: Node) -> Node:
    return node("bulletList", list(items))


def cell(*content: Node, header: bool = False, **attrs: object) -> Node:
    return node("tableHeader" if header else "tableCell", list(content), **attrs)


def rows(*lines: list[Node], **attrs: object) -> Node:
    return node("table", [node("tableRow", line) for line in lines], **attrs)


def head(*words: str) -> list[Node]:
    return [cell(p(word), header=True) for word in words]


def code_block(value: str, **attrs: object) -> Node:
    return node("codeBlock", [text(value)], **attrs)


def panel(kind: str, *content: Node, **attrs: object) -> Node:
    return node("panel", list(content), panelType=kind, **attrs)


def media(**attrs: object) -> Node:
    return node("media", **{"type": "file", "id": "a1b2", "collection": "MediaServices", **attrs})


def single(*content: Node, layout: str = "center", **attrs: object) -> Node:
    return node("mediaSingle", list(content), layout=layout, **attrs)


def task(words: str, state: str = "TODO", local: str = "t1") -> Node:
    return node("taskItem", [text(words)], localId=local, state=state)


MARKS = {
    "strong in em": one(marked("a ", EM), marked("b", EM, STRONG), marked(" c", EM)),
    "em in strong with blanks at its edges": one(
        marked("a ", STRONG), marked("b", EM, STRONG), marked(" c", STRONG)
    ),
    "strong, em and link on one text": one(marked("x", LINK, EM, STRONG)),
    "link that is strong only in part": one(marked("a", LINK), marked("b", LINK, STRONG), marked("c", LINK)),
    "strong that ends in a blank": one(marked("Note: ", STRONG), "read this"),
    "strong next to punctuation": one("a", marked("(b)", STRONG), "c"),
    "strong inside a word": one("un", marked("believ", STRONG), "able"),
    "em inside a word": one("un", marked("believ", EM), "able"),
    "strong then em without a gap": one(marked("a", STRONG), marked("b", EM)),
    "strike": one("a ", marked("gone", STRIKE), " b"),
    "underline": one("a ", marked("under", UNDERLINE), " b"),
    "sub and sup": one(
        "H", marked("2", mark("subsup", type="sub")), "O x", marked("2", mark("subsup", type="sup"))
    ),
    "text colour": one("a ", marked("red", RED), " b"),
    "background colour and strong": one(marked("warm", YELLOW, STRONG)),
    "overlapping comments": one(
        marked("a", mark("annotation", id="1", annotationType="inlineComment")),
        marked(
            "b",
            mark("annotation", id="1", annotationType="inlineComment"),
            mark("annotation", id="2", annotationType="inlineComment"),
        ),
    ),
    "link title with quotes": one(marked("x", mark("link", href="https://e.com", title='say "hi" \\ now'))),
    "link target with a blank and brackets": one(marked("x", mark("link", href="https://e.com/a b(c)[d]"))),
    "link whose text is its address": one(
        marked("https://e.com/a_b", mark("link", href="https://e.com/a_b"))
    ),
}
CODE_CASES = {
    "inline code with a backtick": one(marked("a`b", CODE)),
    "inline code with runs of backticks": one(marked("``a```", CODE)),
    "inline code with blanks at its edges": one(marked(" a ", CODE), " and ", marked("  ", CODE)),
    "inline code in a link": one(marked("f()", LINK, CODE)),
    "code block with fences inside": doc(code_block("```\nx\n````\n", language="markdown")),
    "code block that ends in blank lines": doc(code_block("a\n\n\n")),
    "code block with indents and tabs in a list": doc(bullets(item(p("x"), code_block("\ta\n    b\n\n  c")))),
    "empty code block": doc(node("codeBlock", language="sql")),
}
ESCAPES = {
    "heading": one("# not a heading"),
    "bullet": one("- not a list"),
    "plus and number": doc(p("+ x"), p("1. x"), p("12) y")),
    "quote": one("> not a quote"),
    "rule": doc(p("---"), p("***"), p("_ _ _")),
    "setext underline": one("a", BREAK, "===", BREAK, "---"),
    "asterisks and underscores": one("2*3*4 _x_ snake_case __init__"),
    "brackets": one("[a](b) [x] [y]: z ![i](j)"),
    "task box": doc(bullets(item(p("[ ] no task")), item(p("[x] none")))),
    "html and entities": one("<b>x</b> &amp; &lt; <!-- c --> a < b"),
    "backslashes": one("C:\\temp\\* \\\\server \\"),
    "pipes in a table": doc(rows(head("a|b"), [cell(p("c|d \\| e"))])),
    "directives": doc(p(":u[x] ::p :::info"), p("::: info"), p("::card[x]"), p("{#id}"), p("text {#id}")),
    "addresses that are no links": one("see http://x.y/z and www.x.y."),
}
WHITESPACE = {
    "blanks at both ends": one("  a  "),
    "runs of blanks": one("a   b\tc"),
    "no-break and wide blanks": one("\u00a0a\u2003b\u00a0"),
    "newline in a text": one("a\nb"),
    "only a blank": one(" "),
}
BREAKS = {
    "between words": one("a", BREAK, "b"),
    "at both ends": one(BREAK, "a", BREAK),
    "twice, with blanks": one("a ", BREAK, BREAK, " b"),
    "in strong": one(marked("a", STRONG), BREAK, marked("b", STRONG)),
    "in a heading and in a cell": doc(
        node("heading", [text("a"), BREAK, text("b")], level=2), rows(head("h"), [cell(p("a", BREAK, "b"))])
    ),
}
LISTS = {
    "nested in both kinds": doc(
        bullets(item(p("a"), node("orderedList", [item(p("b"), bullets(item(p("c"))))]))),
    ),
    "numbers from seven": doc(node("orderedList", [item(p("a")), item(p("b"))], order=7)),
    "neighbouring lists": doc(
        bullets(item(p("a"))), bullets(item(p("b"))), node("orderedList", [item(p("c"))])
    ),
    "several blocks in an item": doc(bullets(item(p("a"), p("b"), code_block("c")), item(p("d")))),
    "empty items and an item that starts with a list": doc(
        bullets(item(p()), item(bullets(item(p("x")))), item(p()))
    ),
}
TASKS = {
    "open and done": doc(node("taskList", [task("a"), task("b", "DONE", "t2")], localId="l1")),
    "nested": doc(
        node(
            "taskList",
            [task("a"), node("taskList", [task("b", "DONE", "t2")], localId="l2"), task("c", local="t3")],
            localId="l1",
        )
    ),
    "with a mention and a date": doc(
        node(
            "taskList",
            [
                node(
                    "taskItem",
                    [
                        node("mention", id="5", text="@Ann"),
                        text(" by "),
                        node("date", timestamp="1782864000000"),
                    ],
                    localId="t1",
                    state="TODO",
                )
            ],
            localId="l1",
        )
    ),
    "decisions": doc(
        node(
            "decisionList",
            [
                node("decisionItem", [text("yes")], localId="d1", state="DECIDED"),
                node("decisionItem", [text("open")], localId="d2", state="UNDECIDED"),
            ],
            localId="l1",
        )
    ),
}
PANELS = {
    **{kind: doc(panel(kind, p("x"))) for kind in ("info", "note", "warning", "error", "success")},
    "custom with icon and colour": doc(
        panel(
            "custom",
            p("x"),
            panelIcon=":tada:",
            panelIconId="1f389",
            panelIconText="🎉",
            panelColor="#deebff",
        )
    ),
    "blocks in a panel": doc(
        panel("info", node("heading", [text("h")], level=3), bullets(item(p("a"))), code_block("::: x\n:::"))
    ),
}
ATOMS = {
    "mention": one(
        "ask ", node("mention", id="abc:1-2", text="@Ann Lee", accessLevel="CONTAINER", userType="DEFAULT")
    ),
    "mention without a name": one(node("mention", id="5")),
    "status": one(node("status", text="IN [REVIEW]", color="yellow", localId="s1", style="bold")),
    "date": one(node("date", timestamp="1782864000000")),
    "date with a time": one(node("date", timestamp="1782864000123")),
    "emoji": one(node("emoji", shortName=":smile:", id="1f604", text="😄")),
    "custom emoji": one(node("emoji", shortName=":acme:", id="0d3f-77", text=":acme:")),
    "placeholder": one(node("placeholder", text="write [here]")),
    "inline card": one("see ", node("inlineCard", url="https://e.com/x?y=[1]"), " now"),
}
CARDS = {
    "block card": doc(node("blockCard", url="https://e.com/issue/1")),
    "embed card": doc(
        node("embedCard", url="https://e.com/v", layout="wide", width=80.5, originalHeight=300)
    ),
}
MEDIA = {
    "image with size": doc(single(media(alt="a [b] *c*", width=640, height=480), width=50)),
    "external image": doc(
        single(node("media", type="external", url="https://e.com/a b.png"), layout="wrap-left")
    ),
    "caption": doc(single(media(), node("caption", [text("see "), marked("this", STRONG)]))),
    "linked image with a border": doc(
        single(
            {**media(), "marks": [LINK, mark("border", size=2, color="#aabbcc")]},
            width=200,
            widthType="pixel",
        )
    ),
    "group of files": doc(node("mediaGroup", [media(id="1"), media(id="2", alt="x.pdf")])),
    "inline file": one("see ", node("mediaInline", id="9", collection="c", type="file", alt="report.pdf")),
}
TABLES = {
    "header row": doc(rows(head("a", "b"), [cell(p("1")), cell(p("2"))])),
    "header column": doc(
        rows([cell(p("a"), header=True), cell(p("1"))], [cell(p("b"), header=True), cell(p("2"))])
    ),
    "no header": doc(rows([cell(p("1"))], [cell(p("2"))])),
    "blocks in cells": doc(rows(head("a"), [cell(p("x"), bullets(item(p("y"))), code_block("z|\n```"))])),
    "spans": doc(
        rows([cell(p("a"), header=True, colspan=2)], [cell(p("1"), rowspan=2), cell(p("2"))], [cell(p("3"))])
    ),
    "widths and colours": doc(rows(head("a"), [cell(p("x"), colwidth=[120], background="#deebff")])),
    "number column and layout": doc(
        rows(head("a"), [cell(p("x"))], isNumberColumnEnabled=True, layout="wide", width=900)
    ),
    "code with a pipe and a backtick": doc(rows(head("a"), [cell(p(marked("x|y`z\\|", CODE)))])),
    "empty cells": doc(rows(head("a", "b"), [cell(p()), cell(p(" "))])),
}
LAYOUTS = {
    "two columns": doc(
        node(
            "layoutSection",
            [
                node("layoutColumn", [p("a")], width=33.33),
                node("layoutColumn", [panel("info", p("b"))], width=66.66),
            ],
        )
    ),
    "three, wide": doc(
        {
            **node("layoutSection", [node("layoutColumn", [p(each)], width=33.3) for each in "abc"]),
            "marks": [mark("breakout", mode="wide", width=1200)],
        }
    ),
}
EXPANDS = {
    "expand": doc(node("expand", [p("x"), rows(head("a"), [cell(p("1"))])], title='More "info" [here]')),
    "nested expand": doc(node("expand", [node("nestedExpand", [p("x")], title="in")], title="out")),
}
EXTENSIONS = {
    "extension": doc(
        node(
            "extension",
            extensionType="com.x",
            extensionKey="toc",
            parameters={"macroParams": {"max": {"value": "3'"}}},
            layout="wide",
        )
    ),
    "bodied extension": doc(
        node(
            "bodiedExtension",
            [p("body"), bullets(item(p("x")))],
            extensionType="com.x",
            extensionKey="excerpt",
        )
    ),
    "inline extension": one(
        "a ", node("inlineExtension", extensionType="com.x", extensionKey="k", text="shown"), " b"
    ),
    "sync blocks": doc(
        node("syncBlock", resourceId="ari:cloud:1/2", localId="s1"),
        node("bodiedSyncBlock", [p("x")], resourceId="ari:2", localId="s2"),
    ),
    "unknown nodes and marks": doc(
        {"type": "futureBlock", "attrs": {"x": [1]}, "content": [p("words stay")]},
        {"type": "futureLeaf", "data": {"y": None}},
        p(
            {"type": "futureInline", "attrs": {"z": "q"}},
            {"type": "text", "text": "t", "marks": [{"type": "futureMark", "attrs": {"a": 1}}]},
        ),
    ),
}
ATTRIBUTES = {
    "localId on every block": doc(
        node("paragraph", [text("a")], localId="1"),
        node("heading", [text("b")], level=1, localId="2-b"),
        node(
            "bulletList",
            [node("listItem", [node("paragraph", [text("c")], localId="5")], localId="4")],
            localId="3",
        ),
        node("rule", localId="6"),
        node("blockquote", [p("d")], localId="7"),
        node(
            "table", [node("tableRow", [cell(p("e"), header=True, localId="10")], localId="9")], localId="8"
        ),
    ),
    "alignment, indentation, small text": doc(
        {**p("a"), "marks": [mark("alignment", align="center")]},
        {**p("b"), "marks": [mark("indentation", level=3)]},
        {**p("c"), "marks": [mark("fontSize", fontSize="small")]},
        {**node("heading", [text("d")], level=2), "marks": [mark("alignment", align="end")]},
    ),
    "code block that wraps, wide": doc(
        {**code_block("x", language="c++", wrap=True), "marks": [mark("breakout", mode="full-width")]}
    ),
}
GROUPS: dict[str, dict[str, Node]] = {
    "marks": MARKS, "code": CODE_CASES, "escape": ESCAPES, "whitespace": WHITESPACE, "hardBreak": BREAKS,
    "list": LISTS, "task": TASKS, "panel": PANELS, "atom": ATOMS, "card": CARDS, "media": MEDIA,
    "table": TABLES, "layout": LAYOUTS, "expand": EXPANDS, "extension": EXTENSIONS, "attribute": ATTRIBUTES,
}  # fmt: skip
CASES = [(f"{group}: {name}", found) for group, cases in GROUPS.items() for name, found in cases.items()]
