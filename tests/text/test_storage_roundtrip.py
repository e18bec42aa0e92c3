"""ADF survives storage format: every node and mark, whatever it holds."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.text.generate import Generator

from mooring.text import storage
from mooring.text.errors import UnreadableSource
from mooring.text.report import Report
from mooring.text.schema import is_valid
from mooring.text.tree import Node, doc, equal, paragraph, text


def there_and_back(document: Node) -> Node:
    return storage.read(storage.write(document, Report()), Report())


@pytest.mark.parametrize("profile", ["core", "typical", "adversarial"])
@given(seed=st.integers(0, 10**9))
@settings(max_examples=60, deadline=None)
def test_a_random_document_comes_back_from_storage_format(profile: str, seed: int) -> None:
    document = Generator(seed, profile).document()
    assert equal(there_and_back(document), document)


@given(value=st.text(min_size=1, max_size=40), marks=st.sets(st.sampled_from(["strong", "em", "strike"])))
@settings(max_examples=150, deadline=None)
def test_any_text_comes_back_even_with_characters_that_xml_cannot_hold(value: str, marks: set[str]) -> None:
    document = doc(paragraph(text("a "), text(value, *({"type": name} for name in marks)), text(" z")))
    assert equal(there_and_back(document), document)


def written(node: Node) -> str:
    return storage.write(doc(node), Report())


def panel(kind: str) -> Node:
    return {"type": "panel", "attrs": {"panelType": kind}, "content": [paragraph(text("x"))]}


@pytest.mark.parametrize(
    ("kind", "macro"), [("info", "info"), ("note", "note"), ("warning", "warning"), ("success", "tip")]
)
def test_a_panel_is_the_macro_confluence_keeps_it_as(kind: str, macro: str) -> None:
    assert f'<ac:structured-macro ac:name="{macro}"' in written(panel(kind))


@pytest.mark.parametrize("kind", ["error", "custom"])
def test_a_panel_without_a_macro_is_an_adf_extension(kind: str) -> None:
    source = written(panel(kind))
    assert f'<ac:adf-node type="panel"><ac:adf-attribute key="panel-type">{kind}' in source
    assert "<p>x</p>" in source


def test_the_colour_of_a_status_is_spelled_as_confluence_does() -> None:
    source = written(paragraph({"type": "status", "attrs": {"text": "DONE", "color": "green"}}))
    assert '<ac:parameter ac:name="colour">Green</ac:parameter>' in source


def test_an_end_mark_in_code_is_split_over_two_sections() -> None:
    node: Node = {"type": "codeBlock", "content": [text("a]]>b")]}
    assert "<![CDATA[a]]]]><![CDATA[>b]]>" in written(node)
    assert equal(there_and_back(doc(node)), doc(node))


def test_a_node_nobody_knows_comes_back_untouched() -> None:
    unknown: Node = {
        "type": "hologram",
        "attrs": {"depth": 3, "tags": [None, True, {"a": "]]>"}]},
        "content": [],
    }
    assert there_and_back(doc(unknown)) == doc(unknown)


def test_the_report_names_what_only_a_machine_reads() -> None:
    report = Report()
    storage.write(doc(paragraph(text("x")), panel("custom")), report)
    assert [(entry.path, entry.kind) for entry in report.entries] == [("content/1", "escaped")]


def test_text_added_beside_bare_text_does_not_run_into_it() -> None:
    tree = storage.read("first<hr />", Report())
    tree["content"].insert(1, {**tree["content"][0], "content": [text("second")]})
    again = storage.read(storage.write(tree, Report()), Report())
    assert [block["type"] for block in again["content"]] == ["paragraph", "paragraph", "rule"]


@pytest.mark.parametrize(
    ("source", "line", "column", "reason"),
    [
        ("<p>a</p>\n<p>b</q>", 2, 7, "mismatched tag"),
        ("<p>", 1, 4, "not closed"),
        ("<p>a &unheard; b</p>", 1, 6, "undefined entity"),
        ("ok\n\n<p a></p>", 3, 5, "not well-formed"),
        ("a\n\x07", 2, 1, "U+0007"),
        ('<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><p>&b;</p>', 1, 3, "not well-formed"),
        ("<p>" * 300, 1, 769, "nested deeper than 256"),
    ],
)
def test_what_is_not_well_formed_is_an_error_with_its_place(
    source: str, line: int, column: int, reason: str
) -> None:
    with pytest.raises(UnreadableSource, match="line") as raised:
        storage.read(source, Report())
    assert (raised.value.position.line, raised.value.position.column) == (line, column)
    assert reason in raised.value.reason


def test_lenient_reading_shows_what_could_not_be_read() -> None:
    report = Report()
    tree = storage.read("<p>a", report, lenient=True)
    assert json.dumps(tree).count("<p>a") == 1
    assert report.of_kind("escaped")
    assert is_valid(tree)


def test_bytes_that_are_no_utf8_are_an_error_with_their_place() -> None:
    with pytest.raises(UnreadableSource, match="byte 3"):
        storage.read(b"<p>\xff</p>", Report())
    assert "�" in json.dumps(storage.read(b"<p>\xff</p>", Report(), lenient=True), ensure_ascii=False)


@pytest.mark.parametrize(
    "source",
    [
        "<blockquote>" * 250 + "x" + "</blockquote>" * 250,
        "<ul><li>" * 120 + "x" + "</li></ul>" * 120,
        "<p>" + "<strong><em>" * 120 + "x" + "</em></strong>" * 120 + "</p>",
        "<table><tbody>" + '<tr><td colspan="1000" rowspan="1000">a</td></tr>' * 300 + "</tbody></table>",
    ],
)
def test_deep_and_wide_pages_are_read_and_come_back(source: str) -> None:
    tree = storage.read(source, Report())
    assert is_valid(tree)
    assert storage.write(tree, Report()) == source


def test_the_report_of_reading_names_what_rides_along_as_it_is() -> None:
    report = Report()
    source = '<p>a</p><ul><li><p>b <foo:bar x="1" /></p></li></ul><blockquote><h1>c</h1></blockquote>'
    storage.read(source, report)
    assert {(entry.path, entry.kind) for entry in report.entries} == {
        ("content/1/content/0/content/0/content/1", "kept"),
        ("content/2/content/0", "kept"),
    }
