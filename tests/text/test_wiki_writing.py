"""ADF as wiki markup: readable where markup can say it, `{adf}` where it cannot, and never lost."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.text.generate import Generator
from tests.text.hard_cases import CASES

from mooring.text import wiki
from mooring.text.errors import ConversionLost
from mooring.text.report import Report
from mooring.text.tree import Node, doc, mark, node, paragraph, text
from mooring.text.wiki_write_inline import settled


def there_and_back(document: Node) -> Node:
    return wiki.read(wiki.write(document, Report()), Report())


@pytest.mark.parametrize(("name", "document"), CASES)
def test_a_hard_case_comes_back(name: str, document: Node) -> None:
    assert settled(there_and_back(document)) == settled(document)


@pytest.mark.parametrize("profile", ["core", "typical", "adversarial"])
@given(seed=st.integers(0, 10**9))
@settings(max_examples=60, deadline=None)
def test_a_random_document_comes_back_from_wiki_markup(profile: str, seed: int) -> None:
    document = Generator(seed, profile).document()
    assert settled(there_and_back(document)) == settled(document)


@given(value=st.text(st.sampled_from("ab1 *_-+^~?{}[]|!\\\\:()#;./hpt\n\té"), min_size=1, max_size=25))
@settings(max_examples=300, deadline=None)
def test_any_words_come_back_as_words(value: str) -> None:
    document = doc(paragraph(text(value)))
    assert settled(there_and_back(document)) == settled(document)


STRONG = mark("strong")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ([text("a*b*c 2 * 3")], "a*b*c 2 * 3"),
        ([text("*a*")], "\\*a*"),
        ([text("# x")], "\\# x"),
        ([text("h1. x")], "{anchor:-}h1. x"),
        ([text("[x] {code} {toc}")], "\\[x] \\{code} {toc}"),
        ([text("so :) and :D")], "so :\\) and :{anchor:-}D"),
        ([text("b", STRONG), text(" c")], "*b* c"),
        ([text("a"), text("b", STRONG), text("c")], "a{*}b{*}c"),
        ([text("x", mark("link", href="http://e.com"))], "[x|http://e.com]"),
        ([text("http://e.com/", mark("link", href="http://e.com/"))], "http://e.com/"),
        ([text("x", mark("textColor", color="#ff0000"))], "{color:#ff0000}x{color}"),
        ([text("a"), {"type": "hardBreak"}, text("b")], "a\nb"),
        (
            [{"type": "mention", "attrs": {"id": "5b10a2844c20165700ede21a"}}],
            "[~accountid:5b10a2844c20165700ede21a]",
        ),
        ([{"type": "mention", "attrs": {"id": "ann"}}], "[~ann]"),
        (
            [{"type": "date", "attrs": {"timestamp": "0"}}],
            '{adf:display=inline}{"type":"date","attrs":{"timestamp":"0"}}{adf}',
        ),
    ],
)
def test_text_is_written_as_a_person_would_write_it(content: list[Node], expected: str) -> None:
    assert wiki.write(doc(paragraph(*content)), Report()) == expected


def cell(kind: str, value: str, *marks: Node) -> Node:
    return node(kind, [paragraph(text(value, *marks))])


def test_blocks_are_written_as_a_person_would_write_them() -> None:
    item = node(
        "listItem", [paragraph(text("a")), node("orderedList", [node("listItem", [paragraph(text("b"))])])]
    )
    table = node(
        "table",
        [
            node("tableRow", [cell("tableHeader", "h", STRONG), cell("tableHeader", "i", STRONG)]),
            node("tableRow", [cell("tableCell", "1"), cell("tableCell", "2")]),
        ],
    )
    document = doc(
        node("heading", [text("T")], level=2),
        node("bulletList", [item]),
        node("panel", [paragraph(text("p"))], panelType="warning"),
        node("codeBlock", [text("x = 1")], language="python"),
        node("blockquote", [paragraph(text("q"))]),
        node("rule"),
        table,
    )
    assert wiki.write(document, Report()) == (
        "h2. T\n\n* a\n*# b\n\n{panel:bgColor=#fffae6}\np\n{panel}\n\n{code:python}\nx = 1\n{code}\n\n"
        "{quote}\nq\n{quote}\n\n----\n\n||h||i||\n|1|2|"
    )


def test_an_adf_macro_is_not_ended_by_its_own_content() -> None:
    document = doc(node("expand", [paragraph(text("a {adf} b \u2028 \x00"))], title="{adf}"))
    assert there_and_back(document) == document


def test_the_plain_dialect_has_no_macros_and_says_what_it_lost() -> None:
    report = Report()
    document = doc(node("expand", [paragraph(text("inside"))], title="More"), paragraph(text("x")))
    assert wiki.write(document, report, dialect="plain") == "*More*\n\ninside\n\nx"
    assert [(entry.path, entry.kind) for entry in report.entries] == [("content/0", "lost")]
    with pytest.raises(ConversionLost):
        wiki.write(document, Report(strict=True), dialect="plain")


def test_the_report_names_what_only_a_machine_reads() -> None:
    report = Report()
    wiki.write(doc(paragraph(text("x")), node("expand", [paragraph()], title="t")), report)
    assert [(entry.path, entry.kind) for entry in report.entries] == [("content/1", "escaped")]


def test_what_wiki_markup_adds_on_the_way_back_is_named() -> None:
    items = [node("listItem", [paragraph(text("a"))])]
    row = node("tableRow", [node("tableCell", [paragraph(node("mention", id="ann"))])])
    document = doc(node("orderedList", items), node("table", [row]), node("bulletList", items))
    report = Report()
    back = wiki.read(wiki.write(document, report), Report())
    assert back["content"][0]["attrs"] == {"order": 1}
    cell = "content/1/content/0/content/0/content/0/content/0"
    assert [(entry.path, entry.kind) for entry in report.entries] == [
        ("content/0", "changed"),
        ("content/1", "changed"),
        (cell, "changed"),
    ]
