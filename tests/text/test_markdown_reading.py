"""Markdown as people and models write it: CommonMark, GFM, liberal forms, and always a valid tree."""

import random

import pytest

from mooring.text import TextError, convert, schema
from mooring.text.markdown import grammar, inline_reader
from mooring.text.tree import Node, canonical, doc, mark, node, paragraph, plain_text, text

from .hard_cases import bullets, item, p, panel

TOKENS = [
    *(
        "*",
        "**",
        "_",
        "`",
        "``",
        "[",
        "](u)",
        "a",
        "b ",
        " ",
        " c",
        ".",
        "(",
        ")",
        ":status[x]{color=red}",
        "\\",
    ),
    *(
        "\\*",
        ":",
        "!",
        "{",
        "}",
        "x_y",
        "~~",
        "a*b",
        "***",
        "]",
        "<b>",
        "&amp;",
        "# ",
        "- ",
        "\n",
        "\n\n",
        "1. ",
    ),
    *(
        "> ",
        "| a |",
        "é",
        "“",
        "\n- ",
        "\n  ",
        "\n    ",
        ":::",
        "::: info\n",
        "{#x}",
        "::p\n",
        "- [ ] ",
        "![a](b)",
    ),
    *(
        "<div>\n",
        "|-|\n",
        "`" * 3,
        "\t",
        ":u[",
        "]{a=1}",
        "www.a.b",
        "  \n",
        "===\n",
        "[a]: b\n",
        "<!--",
        "* * *\n",
    ),
]


def read(markdown: str) -> Node:
    return convert(markdown, "markdown", "adf").result


def soup(seed: int) -> str:
    choose = random.Random(seed)
    return "".join(choose.choice(TOKENS) for _ in range(choose.randint(1, 25)))


@pytest.mark.parametrize("start", range(0, 2000, 200))
def test_any_text_gives_a_valid_tree_that_reads_back_the_same(start: int) -> None:
    for seed in range(start, start + 200):
        tree = read(soup(seed))
        assert schema.is_valid(tree), repr(soup(seed))
        again = read(convert(tree, "adf", "markdown").result)
        assert canonical(again) == canonical(tree), repr(soup(seed))


def test_the_quick_ways_give_the_same_trees_as_the_full_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    sources = [soup(seed) for seed in range(5000, 7000)]
    quick = [canonical(read(source)) for source in sources]
    monkeypatch.setattr(inline_reader, "read_quickly", lambda *_: None)
    assert [canonical(read(source)) for source in sources] == quick
    monkeypatch.setattr(grammar, "_WORD", grammar.re.compile(r"(?!)"))
    monkeypatch.setattr(grammar, "_ITEM", grammar.re.compile(r"(?!)"))
    assert [canonical(read(source)) for source in sources] == quick


def test_words_of_a_document_are_never_dropped() -> None:
    for seed in range(8000, 8400):
        choose = random.Random(seed)
        words = [f"word{index}" for index in range(6)]
        source = "".join(word + choose.choice(TOKENS) for word in words)
        shown = str(read(source))
        missing = [word for word in words if word not in shown]
        assert not missing or "[a]: b" in source or "[" in source, repr(source)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("> [!NOTE]\n> x", panel("note", p("x"))),
        ("> [INFO] x", panel("info", p("x"))),
        (":::info\nx\n:::", panel("info", p("x"))),
        ("::: panel {type=warning}\nx\n:::", panel("warning", p("x"))),
        ("::: info\n::: warning\nx\n:::\n:::", panel("info", p("x"))),
        ("* a\n* b", bullets(item(p("a")), item(p("b")))),
        ("a<br>b", p("a", {"type": "hardBreak"}, "b")),
        ("H<sub>2</sub>O", p("H", text("2", mark("subsup", type="sub")), "O")),
        ("see https://a.b/c.", p("see ", text("https://a.b/c", mark("link", href="https://a.b/c")), ".")),
        (":mention[@Ann]{id=5}", p(node("mention", text="@Ann", id="5"))),
        ("10:30 a:b c", p("10:30 a:b c")),
        ("{name} and {}", p("{name} and {}")),
    ],
)
def test_liberal_forms_are_understood(source: str, expected: Node) -> None:
    found = read(source)
    assert canonical(found) == canonical(doc(expected)), found


def test_a_heading_in_a_list_becomes_a_strong_paragraph_and_is_reported() -> None:
    done = convert("- # big", "markdown", "adf")
    assert canonical(done.result) == canonical(doc(bullets(item(paragraph(text("big", mark("strong")))))))
    assert [entry.kind for entry in done.report.entries] == ["changed"]


def test_html_is_kept_as_its_source() -> None:
    tree = read("<div class='x'>\nhi\n</div>\n\na <kbd>b</kbd>")
    assert schema.is_valid(tree)
    assert convert(tree, "adf", "markdown").result == "<div class='x'>\nhi\n</div>\n\na <kbd>b</kbd>\n"


def test_an_unknown_attribute_is_reported_as_lost() -> None:
    done = convert("text {colour=red}", "markdown", "adf")
    assert plain_text(done.result) == "text"
    assert [entry.kind for entry in done.report.entries] == ["lost"]
    with pytest.raises(TextError, match="colour"):
        convert("text {colour=red}", "markdown", "adf", strict=True)


@pytest.mark.parametrize(
    "source",
    [
        ":status[x]{color=pink}",
        "text {align=left}",
        "text {indent=9}",
        "![a](https://e.com/x.png){layout=sideways width=-3}",
        "[a](b){#x}",
        "::: files {#x}\n![a](attachment:1)\n:::",
        "::embed[https://e.com]{width=300}",
        "::: info\ntext {align=center}\n:::",
        ":color[x]{color=red}",
        "::: layout\n::: column {width=300}\na\n:::\n::: column\nb\n:::\n:::",
    ],
)
def test_impossible_attributes_are_dropped_and_reported(source: str) -> None:
    done = convert(source, "markdown", "adf")
    assert schema.is_valid(done.result), done.result
    assert done.report.of_kind("lost") or done.report.of_kind("changed")


def test_an_image_wider_than_everything_is_measured_in_pixels() -> None:
    attrs = read("![a](attachment:1){width=600}")["content"][0]["attrs"]
    assert attrs == {"layout": "center", "width": 600, "widthType": "pixel"}


def test_tasks_without_ids_get_the_same_ids_every_time() -> None:
    tree = read("- [ ] a\n- [x] b")
    assert schema.is_valid(tree)
    assert tree == read("- [ ] a\n- [x] b")
    assert len({each["attrs"]["localId"] for each in tree["content"][0]["content"]}) == 2


def test_nesting_that_is_too_deep_is_an_error_with_its_line() -> None:
    source = "x\n\n" + ">" * 3000 + " deep"
    with pytest.raises(TextError, match=r"line 3: .*deeper than 100"):
        read(source)
    lenient = convert(source, "markdown", "adf", lenient=True)
    assert "deep" in plain_text(lenient.result)
    assert lenient.report.of_kind("escaped")


def test_bytes_that_are_no_text_are_an_error_with_their_line() -> None:
    with pytest.raises(TextError, match="line 2: not UTF-8"):
        read(b"ok\n\xff")  # pyright: ignore[reportArgumentType]
