"""Sections of storage and wiki texts, and replacing one without touching the rest."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.text.test_storage_forms import READABLE

from mooring.text import storage, wiki
from mooring.text.errors import PatchRefused
from mooring.text.storage_sections import Section

CODE = (
    '<ac:structured-macro ac:name="code"><ac:plain-text-body><![CDATA[<h2>Two</h2>]]></ac:plain-text-body>'
    "</ac:structured-macro>"
)
PAGE = (
    f"<h1>Öne</h1><p>a&nbsp;b</p>{CODE}<!-- <h2>Two</h2> --><h2 local-id='x1'>Two</h2><p>c</p>"
    "<h3>Three</h3><p>d</p>"
    "<h2>Four</h2><ac:structured-macro ac:name='info'><ac:rich-text-body><h3>In <em>it</em></h3><p>e</p>"
    "</ac:rich-text-body></ac:structured-macro><p>f</p><h1>Last</h1>tail"
)


def by_path(sections: list[Section]) -> dict[tuple[str, ...], Section]:
    return {section.path: section for section in sections}


def test_the_outline_knows_levels_paths_ids_and_containers() -> None:
    found = [(section.level, section.path) for section in storage.outline(PAGE)]
    assert found == [
        (1, ("Öne",)),
        (2, ("Öne", "Two")),
        (3, ("Öne", "Two", "Three")),
        (2, ("Öne", "Four")),
        (3, ("Öne", "Four", "In it")),
        (1, ("Last",)),
    ]
    assert storage.outline(PAGE)[1].ref == "x1"
    assert len({section.ref for section in storage.outline(PAGE)}) == 6


def test_a_heading_in_code_or_a_comment_is_no_section() -> None:
    assert [section.text for section in storage.outline(CODE + "<!-- <h1>x</h1> -->")] == []


def test_a_section_has_a_body_and_a_subtree() -> None:
    two = by_path(storage.outline(PAGE))["Öne", "Two"]
    assert PAGE[two.start : two.content_start] == "<h2 local-id='x1'>Two</h2>"
    assert PAGE[two.content_start : two.body_end] == "<p>c</p>"
    assert PAGE[two.start : two.end].endswith("<h3>Three</h3><p>d</p>")


def test_a_section_ends_with_its_container() -> None:
    inner = by_path(storage.outline(PAGE))["Öne", "Four", "In it"]
    assert PAGE[inner.start : inner.end] == "<h3>In <em>it</em></h3><p>e</p>"


@pytest.mark.parametrize("name", READABLE)
def test_replacing_one_section_leaves_every_other_byte(name: str) -> None:
    around = READABLE[name] if "<ac:layout>" not in READABLE[name] else "<p>x</p>"
    page = f"{around}<h2>Täget</h2><p>old</p>{CODE}<h2>Next</h2>{around}"
    target = storage.locate(storage.outline(page), ["Täget"])
    changed = storage.splice(page, target.content_start, target.body_end, "<p>new</p>")
    assert changed == f"{around}<h2>Täget</h2><p>new</p><h2>Next</h2>{around}"


def test_an_ambiguous_target_is_refused_with_its_candidates() -> None:
    sections = storage.outline("<h1>A</h1><h2>X</h2><h1>B</h1><h2>X</h2>")
    with pytest.raises(PatchRefused, match=r"names 2 sections: `A > X` \(ref `s[0-9a-f]+`\), `B > X`"):
        storage.locate(sections, ["X"])
    assert storage.locate(sections, ["X"], occurrence=2).path == ("B", "X")
    assert storage.locate(sections, ["A", "X"]).start < storage.locate(sections, ["B", "X"]).start
    assert storage.locate(sections, sections[3].ref) == sections[3]


def test_a_missing_target_is_refused_with_what_there_is() -> None:
    with pytest.raises(PatchRefused, match="no section is called `Z`; there are `A`"):
        storage.locate(storage.outline("<h1>A</h1>"), ["Z"])


def test_a_stretch_outside_the_text_is_refused() -> None:
    with pytest.raises(PatchRefused, match="no stretch"):
        storage.splice("abc", 2, 9, "")


WIKI = (
    "h1. One\ntext é\n{code}\nh1. no\n{code}\n* item\nh2. still the item\n\n h2. Two\r\nb\n{panel}\n"
    "h3. In\nc\n{panel}\n{noformat}h1. no{noformat}\nh1. Last"
)


def test_wiki_sections_are_the_lines_the_reader_takes_for_headings() -> None:
    found = by_path(wiki.outline(WIKI))
    assert set(found) == {("One",), ("One", "Two"), ("One", "Two", "In"), ("Last",)}
    two = found["One", "Two"]
    assert WIKI[two.start : two.content_start] == " h2. Two\r\n"
    assert WIKI[two.start : two.end].endswith("{noformat}h1. no{noformat}\n")
    assert WIKI[found["One", "Two", "In"].start : found["One", "Two", "In"].end] == "h3. In\nc\n"


@given(before=st.text("ab*_{}[]|!\\ \n#-", max_size=30), after=st.text("ab*_[]|!\\ \n#-", max_size=30))
@settings(max_examples=100, deadline=None)
def test_replacing_a_wiki_section_leaves_every_other_character(before: str, after: str) -> None:
    page = f"{before}\n\nh2. Target\nold\n\nh2. Next\n{after}"
    found = [section for section in wiki.outline(page) if section.text == "Target"]
    for target in found:
        changed = wiki.splice(page, target.content_start, target.body_end, "new\n")
        assert changed == f"{before}\n\nh2. Target\nnew\nh2. Next\n{after}"
