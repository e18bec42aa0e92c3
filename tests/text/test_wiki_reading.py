"""Wiki markup reads as Atlassian's own transformer reads it.

Inputs are ours; each expected tree was compared with what that transformer makes of the same input, and the
only one that differs on purpose is the account id of a mention, which loses its prefix.
"""

# ruff: noqa: E501  (a case is easier to check on one line)

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.text import ConversionLost, convert, wiki
from mooring.text.errors import UnreadableSource
from mooring.text.report import Report
from mooring.text.schema import is_valid
from mooring.text.tree import Mark, Node, attributes, children, marks_of


def shown(item: Node | Mark) -> str:
    """`type(attributes)/marks[children]`, text as a JSON string."""
    given_attributes = ", ".join(f"{key}={value}" for key, value in attributes(item).items())
    made = json.dumps(item["text"], ensure_ascii=False) if item["type"] == "text" else item["type"]
    made += f"({given_attributes})" if given_attributes else ""
    made += "".join(f"/{shown(mark)}" for mark in marks_of(item))
    inner = " ".join(shown(child) for child in children(item))
    return f"{made}[{inner}]" if inner else made


CASES = [
    ("plain words", 'paragraph["plain words"]'),
    ("two\nlines", 'paragraph["two" hardBreak "lines"]'),
    ("two\n\nparagraphs", 'paragraph["two"] paragraph["paragraphs"]'),
    ("three\n\n\nbreaks", 'paragraph["three"] paragraph["breaks"]'),
    ("  indented", 'paragraph["indented"]'),
    ("a \\\\ b", 'paragraph["a " hardBreak " b"]'),
    ("a\\\\b\\c", 'paragraph["a\\\\\\\\b\\\\c"]'),
    (
        "*strong* _em_ -gone- +under+ ^up^ ~down~ ??who??",
        'paragraph["strong"/strong " " "em"/em " " "gone"/strike " " "under"/underline " " "up"/subsup(type=sup) " " "down"/subsup(type=sub) " " "— who"/em]',
    ),
    ("*_both_* and _*both*_", 'paragraph["both"/em/strong " and " "both"/em/strong]'),
    ("snake_case_name 2*3*4 a-b-c", 'paragraph["snake_case_name 2*3*4 a-b-c"]'),
    ("* not strong*", 'bulletList[listItem[paragraph["not strong*"]]]'),
    ("*open", 'paragraph["*open"]'),
    ("*a *b* c*", 'paragraph["a *b"/strong " c*"]'),
    ("{*}in{*}side", 'paragraph["in"/strong "side"]'),
    ("word{_}em{_}word", 'paragraph["word" "em"/em "word"]'),
    ("(*a*) *a*, *a*.", 'paragraph["(" "a"/strong ") " "a"/strong ", " "a"/strong "."]'),
    ("*a\nb*", 'paragraph["*a" hardBreak "b*"]'),
    ("{{mono *x* [y]}}", 'paragraph["mono *x* [y]"/code]'),
    ("{{a}} b {{c}}", 'paragraph["a"/code " b " "c"/code]'),
    ("*{{code}} in strong*", 'paragraph["code"/code " in strong"/strong]'),
    ("\\*plain\\* \\_text\\_", 'paragraph["*plain* _text_"]'),
    ("*a \\* b*", 'paragraph["a * b"/strong]'),
    ("\\[not a link]", 'paragraph["[not a link]"]'),
    ("\\{code}", 'paragraph["{code}"]'),
    ("\\\\", ""),
    ("a -- b --- c ---- d", 'paragraph["a – b — c ---- d"]'),
    ("--- start", 'paragraph["— start"]'),
    ("----\nafter", 'rule paragraph["after"]'),
    ("-----", "rule"),
    ("text\n----\ntext", 'paragraph["text"] rule paragraph["text"]'),
    ("h1. Title", 'heading(level=1)["Title"]'),
    ("h3.No blank", 'heading(level=3)["No blank"]'),
    ("h6. *b* and [l|http://e.com]", 'heading(level=6)["b"/strong " and " "l"/link(href=http://e.com)]'),
    (
        "h2. !image.png!",
        "mediaSingle(layout=center)[media(type=file, id=image.png, collection=, width=200, height=183)]",
    ),
    ("h7. no", 'paragraph["h7. no"]'),
    ("bq. quoted", 'blockquote[paragraph["quoted"]]'),
    ("bq. h1. shouted", 'blockquote[paragraph["SHOUTED"/strong]]'),
    ("[http://e.com]", 'paragraph["http://e.com"/link(href=http://e.com)]'),
    ("[text|http://e.com]", 'paragraph["text"/link(href=http://e.com)]'),
    ("[text|http://e.com|tip]", 'paragraph["text"/link(href=http://e.com)]'),
    ("[mailto:a@e.com]", 'paragraph["a@e.com"/link(href=mailto:a@e.com)]'),
    ("[*b*|http://e.com]", 'paragraph["b"/link(href=http://e.com)/strong]'),
    ("[#anchor]", 'paragraph["#anchor"/link(href=#anchor)]'),
    ("[no link]", 'paragraph["[no link]"]'),
    ("[a|b|c]", 'paragraph["[a|b|c]"]'),
    ("[ ]", 'paragraph["[ ]"]'),
    ("[^file.txt]", "mediaGroup[media(type=file, id=file.txt, collection=)]"),
    (
        "[^a.txt] [^b.txt]",
        "mediaGroup[media(type=file, id=a.txt, collection=) media(type=file, id=b.txt, collection=)]",
    ),
    (
        "[^a.txt]\n\n[^b.txt]",
        "mediaGroup[media(type=file, id=a.txt, collection=)] mediaGroup[media(type=file, id=b.txt, collection=)]",
    ),
    ("[~ann]", "paragraph[mention(id=ann, text=, accessLevel=)]"),
    (
        "[~accountid:5b10a2844c20165700ede21a]",
        "paragraph[mention(id=5b10a2844c20165700ede21a, text=, accessLevel=)]",
    ),
    ("[~accountid:]", 'paragraph["[~accountid:]"]'),
    ("[http://e.com|http://e.com|smart-link]", "paragraph[inlineCard(url=http://e.com)]"),
    ("[http://e.com|http://e.com|smart-card]", "blockCard(url=http://e.com)"),
    ("[http://e.com|http://e.com|smart-embed]", "embedCard(url=http://e.com, layout=center, width=100)"),
    (
        "[!i.png!|http://e.com]",
        'mediaSingle(layout=center)[media(type=file, id=i.png, collection=, width=200, height=183)] paragraph["!i.png!"/link(href=http://e.com)]',
    ),
    ("see http://e.com/a_b_c.", 'paragraph["see " "http://e.com/a_b_c"/link(href=http://e.com/a_b_c) "."]'),
    (
        "HTTP://E.com http://E.com/%20x",
        'paragraph["HTTP://E.com " "http://E.com/%20x"/link(href=http://e.com/%20x)]',
    ),
    ("(http://e.com)", 'paragraph["(" "http://e.com"/link(href=http://e.com/) ")"]'),
    ("mailto:a@e.com", 'paragraph["a@e.com"/link(href=mailto:a@e.com)]'),
    ("irc://e.com/x", 'paragraph["irc://e.com/x"/link(href=irc://e.com/x)]'),
    ("http://", 'paragraph["http://"]'),
    ("ftp://e.com/x?y=1#z", 'paragraph["ftp://e.com/x?y=1#z"/link(href=ftp://e.com/x?y=1#z)]'),
    ("!a.png!", "mediaSingle(layout=center)[media(type=file, id=a.png, collection=, width=200, height=183)]"),
    (
        "!a.png|width=30,height=40!",
        "mediaSingle(layout=center)[media(type=file, id=a.png, collection=, width=30, height=40)]",
    ),
    ("!a.png|width=50%!", "mediaSingle(layout=center, width=50)[media(type=file, id=a.png, collection=)]"),
    (
        '!http://e.com/a.png|alt="an image"!',
        "mediaSingle(layout=center)[media(type=external, url=http://e.com/a.png, width=200, height=183, alt=an image)]",
    ),
    (
        "!a.png|thumbnail! text",
        'mediaSingle(layout=center)[media(type=file, id=a.png, collection=, width=200, height=183)] paragraph[" text"]',
    ),
    ("no! really!", 'paragraph["no! really!"]'),
    ("!a b!", "mediaSingle(layout=center)[media(type=file, id=a b, collection=, width=200, height=183)]"),
    (
        ":) ;) (/) (x) (!) (on) :D",
        'paragraph[emoji(shortName=:slight_smile:, id=1f642, text=🙂) " " emoji(shortName=:wink:, id=1f609, text=😉) " " emoji(shortName=:check_mark:, id=atlassian-check_mark, text=:check_mark:) " " emoji(shortName=:cross_mark:, id=atlassian-cross_mark, text=:cross_mark:) " " emoji(shortName=:warning:, id=atlassian-warning, text=:warning:) " " emoji(shortName=:light_bulb_on:, id=atlassian-light_bulb_on, text=:light_bulb_on:) " " emoji(shortName=:smiley:, id=1f603, text=😃)]',
    ),
    ("a:)b :)", 'paragraph["a:)b " emoji(shortName=:slight_smile:, id=1f642, text=🙂)]'),
    (
        ":-P (flagoff)",
        'paragraph[emoji(shortName=:stuck_out_tongue:, id=1f61b, text=😛) " " emoji(shortName=:flag_off:, id=atlassian-flag_off, text=:flag_off:)]',
    ),
    ("(*r)*x*", 'paragraph[emoji(shortName=:red_star:, id=atlassian-red_star, text=:red_star:) "x"/strong]'),
    (
        "* a\n* b\n** c\n*# d\n* e",
        'bulletList[listItem[paragraph["a"]] listItem[paragraph["b"] bulletList[listItem[paragraph["c"]]] orderedList(order=1)[listItem[paragraph["d"]]]] listItem[paragraph["e"]]]',
    ),
    (
        "# a\n# b\n* c",
        'orderedList(order=1)[listItem[paragraph["a"]] listItem[paragraph["b"]]] bulletList[listItem[paragraph["c"]]]',
    ),
    ("- a\n- b", 'bulletList[listItem[paragraph["a"]] listItem[paragraph["b"]]]'),
    (
        "* a\nmore of a\n* b",
        'bulletList[listItem[paragraph["a" hardBreak "more of a"]] listItem[paragraph["b"]]]',
    ),
    ("* a\n\n* b", 'bulletList[listItem[paragraph["a"]]] bulletList[listItem[paragraph["b"]]]'),
    ("*** deep", 'bulletList[listItem[bulletList[listItem[bulletList[listItem[paragraph["deep"]]]]]]]'),
    (
        "# a\n#* b\n## c",
        'orderedList(order=1)[listItem[paragraph["a"] bulletList[listItem[paragraph["b"]]] orderedList(order=1)[listItem[paragraph["c"]]]]]',
    ),
    (
        "* {code}x{code}\n* b",
        'bulletList[listItem[paragraph codeBlock(language=java)["x"]] listItem[paragraph["b"]]]',
    ),
    ("* h1. x", 'bulletList[listItem[paragraph["X"/strong]]]'),
    ("* a\n----\n* b", 'bulletList[listItem[paragraph["a"]]] rule bulletList[listItem[paragraph["b"]]]'),
    (
        "* a\n{panel}x{panel}\n* b",
        'bulletList[listItem[paragraph["a"]]] panel(panelType=info)[paragraph["x"]] bulletList[listItem[paragraph["b"]]]',
    ),
    ("*# a", 'orderedList(order=1)[listItem[orderedList(order=1)[listItem[paragraph["a"]]]]]'),
    (
        "||h1||h2||\n|a|b|",
        'table(isNumberColumnEnabled=False, layout=default)[tableRow[tableHeader[paragraph["h1"/strong]] tableHeader[paragraph["h2"/strong]]] tableRow[tableCell[paragraph["a"]] tableCell[paragraph["b"]]]]',
    ),
    (
        "|a|b|\n|c|",
        'table(isNumberColumnEnabled=False, layout=default)[tableRow[tableCell[paragraph["a"]] tableCell[paragraph["b"]]] tableRow[tableCell[paragraph["c"]]]]',
    ),
    (
        "|a\nb|c|",
        'table(isNumberColumnEnabled=False, layout=default)[tableRow[tableCell[paragraph["a" hardBreak "b"]] tableCell[paragraph["c"]]]]',
    ),
    (
        "|a|\n\nafter",
        'table(isNumberColumnEnabled=False, layout=default)[tableRow[tableCell[paragraph["a"]]]] paragraph["after"]',
    ),
    (
        "|* x\n* y|z|",
        'table(isNumberColumnEnabled=False, layout=default)[tableRow[tableCell[bulletList[listItem[paragraph["x"]] listItem[paragraph["y"]]]] tableCell[paragraph["z"]]]]',
    ),
    (
        "|{code}a|b{code}|c|",
        'table(isNumberColumnEnabled=False, layout=default)[tableRow[tableCell[codeBlock(language=java)["a|b"]] tableCell[paragraph["c"]]]]',
    ),
    (
        "|[t|http://e.com]|!a.png|width=1!|",
        'table(isNumberColumnEnabled=False, layout=default)[tableRow[tableCell[paragraph["t"/link(href=http://e.com)]] tableCell[mediaSingle(layout=center)[media(type=file, id=a.png, collection=, width=1, height=183)]]]]',
    ),
    (
        "||h|c|",
        'table(isNumberColumnEnabled=False, layout=default)[tableRow[tableHeader[paragraph["h"/strong]] tableCell[paragraph["c"]]]]',
    ),
    ("|a", 'table(isNumberColumnEnabled=False, layout=default)[tableRow[tableCell[paragraph["a"]]]]'),
    (
        "| |b|",
        'table(isNumberColumnEnabled=False, layout=default)[tableRow[tableCell[paragraph] tableCell[paragraph["b"]]]]',
    ),
    (
        "|a|b|\ntext",
        'table(isNumberColumnEnabled=False, layout=default)[tableRow[tableCell[paragraph["a"]] tableCell[paragraph["b"]]]] paragraph["text"]',
    ),
    ("{code}x{code}", 'codeBlock(language=java)["x"]'),
    ("{code:python}\ndef f():\n  pass\n{code}", 'codeBlock(language=python)["def f():\\n  pass"]'),
    (
        "{code:title=A.java|borderStyle=solid}x{code}",
        'paragraph["A.java"/strong] codeBlock(language=java)["x"]',
    ),
    ("{code:xml}<a/>{code} after", 'codeBlock(language=xml)["<a/>"] paragraph[" after"]'),
    ("{code}open", 'codeBlock(language=java) paragraph["open"]'),
    ("{noformat}*x*{noformat}", 'codeBlock["*x*"]'),
    ("{noformat:title=T}\nx\n{noformat}", 'paragraph["T"/strong] codeBlock["x"]'),
    ("{quote}a\nb{quote}", 'blockquote[paragraph["a" hardBreak "b"]]'),
    ("{quote}\na\n\nb\n{quote}", 'blockquote[paragraph["a"] paragraph["b"]]'),
    ("{quote}h2. x{quote}", 'blockquote[paragraph["x"/em/strong]]'),
    (
        "{quote}|a|{quote}",
        'table(isNumberColumnEnabled=False, layout=default)[tableRow[tableCell[paragraph["a"]]]]',
    ),
    ("{quote}", "blockquote[paragraph]"),
    ("{panel}x{panel}", 'panel(panelType=info)[paragraph["x"]]'),
    (
        "{panel:title=T|bgColor=#ffebe6}\nx\n* y\n{panel}",
        'panel(panelType=error)[paragraph["T"/strong] paragraph["x"] bulletList[listItem[paragraph["y"]]]]',
    ),
    ("{panel:bgColor=lightyellow}x{panel}", 'panel(panelType=warning)[paragraph["x"]]'),
    (
        "{panel}a{code}b{code}c{panel}",
        'panel(panelType=info)[paragraph["a"]] codeBlock(language=java)["b"] panel(panelType=info)[paragraph["c"]]',
    ),
    ("{panel}{panel}", "panel(panelType=info)[paragraph]"),
    (
        "{color:red}r{color} {color:#00F}b{color}",
        'paragraph["r"/textColor(color=#ff0000) " " "b"/textColor(color=#0000ff)]',
    ),
    ("{color:rgb(1,2,3)}x{color}", 'paragraph["x"/textColor(color=#010203)]'),
    ("{color:nope}x{color}", 'paragraph["x"/textColor(color=#000000)]'),
    ("*{color:red}x{color}*", 'paragraph["x"/strong/textColor(color=#ff0000)]'),
    (
        "{color:red}*x*\ny{color}",
        'paragraph["x"/strong/textColor(color=#ff0000) hardBreak "y"/textColor(color=#ff0000)]',
    ),
    ("{color}x", 'paragraph["x"]'),
    ("{anchor:here}text", 'paragraph["text"]'),
    ("a{anchor:x}b", 'paragraph["ab"]'),
    ('{adf}{"type":"rule"}{adf}', "rule"),
    ('{adf:display=inline}{"type":"text","text":"x"}{adf} y', 'paragraph["x y"]'),
    ("{adf}broken{adf}", 'codeBlock["Invalid ADF Macro: broken"]'),
    ("{status:colour=Green} {toc} {expand}", 'paragraph["{status:colour=Green} {toc} {expand}"]'),
    ("{CODE}x{CODE}", 'codeBlock(language=java)["x"]'),
    ("{Quote}x{quote}", 'blockquote[paragraph] paragraph["x"] blockquote[paragraph]'),
    (
        "h1. T\nIntro with *strong* and [link|http://e.com].\n\n* one\n* two\n\n|a|b|\n\n{panel}p{panel}\nend",
        'heading(level=1)["T"] paragraph["Intro with " "strong"/strong " and " "link"/link(href=http://e.com) "."] bulletList[listItem[paragraph["one"]] listItem[paragraph["two"]]] table(isNumberColumnEnabled=False, layout=default)[tableRow[tableCell[paragraph["a"]] tableCell[paragraph["b"]]]] panel(panelType=info)[paragraph["p"]] paragraph["end"]',
    ),
    ("a\r\nb\r\rc", 'paragraph["a" hardBreak "b"] paragraph["c"]'),
    ("\tx\n y", 'paragraph["x" hardBreak "y"]'),
    ("é*a*é *a*\xa0b", 'paragraph["é*a*é " "a"/strong "\xa0b"]'),
    ("", ""),
    ("\n\n", ""),
    (" ", ""),
]


@pytest.mark.parametrize(("source", "expected"), CASES)
def test_markup_reads_as_atlassian_reads_it(source: str, expected: str) -> None:
    tree = wiki.read(source, Report())
    assert " ".join(shown(block) for block in children(tree)) == expected


SIGNS = [
    *"*_-+^~?{}[]|!\\ab:()#; \n",
    "{{",
    "}}",
    "http://a.b",
    "{color:red}",
    "{color}",
    "{quote}",
    "{panel}",
    "{code}",
    "\n* ",
    "\n|",
    "h1. ",
    "(/)",
    "{*}",
    "[~x]",
    "----\n",
]


@given(pieces=st.lists(st.sampled_from(SIGNS), max_size=40))
@settings(max_examples=200, deadline=None)
def test_any_markup_gives_a_valid_tree(pieces: list[str]) -> None:
    assert is_valid(wiki.read("".join(pieces), Report()))


def test_bytes_that_are_no_utf8_are_an_error_with_their_place() -> None:
    with pytest.raises(UnreadableSource, match="byte 2"):
        wiki.read(b"ab\xff", Report())
    report = Report()
    assert shown(wiki.read(b"ab\xff", report, lenient=True)["content"][0]) == 'paragraph["ab�"]'
    assert report.of_kind("changed")


@pytest.mark.parametrize(
    "unit",
    [
        "*a ",
        "*a *",
        "{color:red}*a ",
        "[",
        "[a|http://x.y] ",
        "{code}",
        "{quote:a}",
        "{panel}",
        "\\",
        "!a ",
        "b\n",
        "|a|b|\n",
        "* a\n",
        "{{a ",
        "{*}a ",
        "http",
        "{anchor:a}*",
        "\\*a *",
        "[^a] ",
        "{quote}{Quote}*_",
    ],
)
def test_reading_time_grows_with_the_length_and_not_faster(unit: str) -> None:
    def seconds(count: int) -> float:
        source = ("|" if unit == "b\n" else "") + unit * count
        start = time.process_time()
        wiki.read(source, Report())
        return time.process_time() - start

    seconds(500)
    short = min(seconds(1500) for _ in range(3))
    # Eight times the input; anything quadratic would take sixty-four times as long, every time.
    assert min(seconds(12000) for _ in range(3)) < max(short, 0.004) * 30


def test_a_node_that_is_no_json_is_shown_and_reported() -> None:
    report = Report()
    wiki.read("x\n\n{adf:display=block}\n{bad json\n{adf}\n", report)
    assert [(entry.path, entry.kind) for entry in report.entries] == [("content/1", "changed")]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x\n\n* a {toc} b", [("content/1/content/0/content/0", "kept", "`{toc}`")]),
        ("{info:title=T}body{info}", [("content/0", "kept", "title=T"), ("content/0", "kept", "`{info}`")]),
        ("a \\{toc\\} b", []),
        ("{noformat}{toc}{noformat}", []),
        ("x\n\n{anchor:here}text", [("content/1", "lost", "`{anchor:here}`")]),
        ("*a {anchor:here}b*", [("content/0", "lost", "`{anchor:here}`")]),
        ("{code:java|borderStyle=solid}x{code}", [("content/0", "lost", "`borderStyle`")]),
        ("{code}x{code}", [("content/0", "changed", "`java`")]),
        ("x\n\n{panel:title=T}x{panel}", [("content/1", "changed", "title")]),
        ("{panel:bgColor=pink}x{panel}", [("content/0", "changed", "`pink`")]),
        ("{quote}h1. x{quote}", [("content/0", "changed", "heading")]),
        ("{quote}a\n|b|\nc{quote}", [("content/0", "changed", "follows")]),
        ("* {color:nope}x{color}", [("content/0/content/0/content/0", "changed", "`nope`")]),
        ("!a.png|align=right,width=20!", [("content/0", "lost", "`align`")]),
        ("[a|http://e.com|tip]", [("content/0", "lost", "`tip`")]),
        ("[a|http://e.com|smart-link] !a.png|thumbnail! {code:java}x{code}", []),
    ],
)
def test_the_report_names_what_wiki_markup_says_and_adf_cannot(
    source: str, expected: list[tuple[str, str, str]]
) -> None:
    found = sorted(
        (each.path, each.kind, each.detail) for each in convert(source, "wiki", "adf").report.entries
    )
    assert [entry[:2] for entry in found] == [entry[:2] for entry in expected]
    for entry, (_, _, words) in zip(found, expected, strict=True):
        assert words in entry[2]


def test_strict_reading_refuses_what_adf_cannot_hold() -> None:
    with pytest.raises(ConversionLost, match="anchor:here"):
        convert("{anchor:here}text", "wiki", "markdown", strict=True)
