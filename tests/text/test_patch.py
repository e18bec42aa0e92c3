"""Changing one part of a stored document leaves every other byte alone."""

import json

import pytest

from mooring.text.errors import PatchRefused
from mooring.text.patch import Operation, Target, outline, patch
from mooring.text.tree import Node, doc, node, paragraph, plain_text, text

from .generate import Generator
from .hard_cases import media, p, panel, single


def heading(words: str, level: int = 1, local: str | None = None) -> Node:
    return node("heading", [text(words)], level=level, localId=local)


PAGE = doc(
    heading("Plan"),
    p("intro"),
    heading("Risks", 2, "h-risks"),
    p("risk one"),
    heading("Details", 3),
    p("detail"),
    heading("Next", 2),
    panel("info", heading("Risks", 2), p("inside"), localId="panel-1"),
    single(media(id="file-1")),
)
STYLES = [
    {"indent": 2},
    {"separators": (",", ":")},
    {"indent": None},
    {"indent": "\t", "ensure_ascii": False},
]


def as_text(document: Node, **style: object) -> str:
    return json.dumps(document, **style)  # pyright: ignore[reportArgumentType]


def headings(document: Node) -> list[str]:
    return [each.text for each in outline(document, "adf")]


def test_the_outline_lists_headings_in_containers_too() -> None:
    found = outline(PAGE, "adf")
    assert [(each.text, each.level, each.path, each.blocks) for each in found] == [
        ("Plan", 1, ("Plan",), 8),
        ("Risks", 2, ("Plan", "Risks"), 3),
        ("Details", 3, ("Plan", "Risks", "Details"), 1),
        ("Next", 2, ("Plan", "Next"), 2),
        ("Risks", 2, ("Plan", "Next", "Risks"), 1),
    ]
    assert found[1].ref == "h-risks"


@pytest.mark.parametrize("style", STYLES)
def test_replacing_a_body_keeps_every_other_byte(style: dict[str, object]) -> None:
    source = as_text(PAGE, **style)
    operation = Operation("replace", Target(heading=("Plan", "Risks")), "## Risks\n\nnew *risk*")
    result = patch(source, "adf", [operation]).result
    start = source.index('"risk one"')
    prefix = source[: source.rindex("{", 0, source.rindex('"paragraph"', 0, start))]
    assert result.startswith(prefix)
    assert result.endswith(source[source.index("Details") - 20 :])
    assert plain_text(json.loads(result)["content"][3]) == "new risk"
    assert headings(json.loads(result)) == headings(PAGE)


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("kind", ["replace", "append", "prepend", "insert_before", "insert_after", "delete"])
def test_a_patch_of_a_random_page_changes_only_its_section(seed: int, kind: str) -> None:
    page = Generator(seed, "typical").document()
    page["content"] += [heading("The target"), p("old"), heading("After")]
    page["content"].insert(0, heading("Before"))
    source = as_text(page, indent=2)
    content = None if kind == "delete" else "words *new*"
    operation = Operation(kind, Target(heading=("The target",)), content)  # pyright: ignore[reportArgumentType]
    result = patch(source, "adf", [operation]).result
    at = source.index('"The target"')
    before = source[: source.rindex('"heading"', 0, at) - 40]
    after = source[source.index('"After"') - 60 :]
    assert result.startswith(before)
    assert result.endswith(after.lstrip()[-200:])
    json.loads(result)


def test_a_subtree_is_only_replaced_when_asked_for() -> None:
    target = Target(heading=("Plan", "Risks"), scope="subtree")
    result = patch(PAGE, "adf", [Operation("replace", target, "gone")]).result
    assert "Details" not in headings(result)


def test_an_ambiguous_heading_is_refused_with_the_candidates() -> None:
    with pytest.raises(PatchRefused, match=r"2 places.*h-risks.*Next > Risks"):
        patch(PAGE, "adf", [Operation("delete", Target(heading=("Risks",)))])


def test_a_missing_heading_is_refused_with_the_candidates() -> None:
    with pytest.raises(PatchRefused, match=r"nothing matches.*Plan > Risks"):
        patch(PAGE, "adf", [Operation("delete", Target(heading=("Nope",)))])


def test_an_occurrence_chooses_among_equal_headings() -> None:
    target = Target(heading=("Risks",), occurrence=2)
    result = patch(PAGE, "adf", [Operation("replace", target, "changed")]).result
    assert plain_text(result["content"][7]) == "Riskschanged"


def test_a_block_is_found_by_its_id_and_by_its_text() -> None:
    by_id = patch(PAGE, "adf", [Operation("append", Target(ref="panel-1"), "last")]).result
    assert plain_text(by_id["content"][7]["content"][-1]) == "last"
    by_text = patch(PAGE, "adf", [Operation("replace", Target(text="risk one"), "two\n\nthree")]).result
    assert [plain_text(each) for each in by_text["content"][3:5]] == ["two", "three"]


def test_a_section_moves_with_everything_in_it() -> None:
    move = Operation(
        "move", Target(heading=("Plan", "Next")), destination=Target(ref="h-risks"), side="before"
    )
    result = patch(PAGE, "adf", [move]).result
    assert [plain_text(each) for each in result["content"][2:5]] == ["Next", "Risksinside", ""]
    assert len(result["content"]) == len(PAGE["content"])


def test_a_section_cannot_be_moved_into_itself() -> None:
    move = Operation("move", Target(ref="h-risks"), destination=Target(heading=("Plan", "Risks", "Details")))
    with pytest.raises(PatchRefused, match="into itself"):
        patch(PAGE, "adf", [move])


def test_attributes_are_set_in_place() -> None:
    source = as_text(PAGE, indent=1)
    operation = Operation("set_attrs", Target(ref="panel-1"), attrs={"panelType": "warning"})
    result = patch(source, "adf", [operation]).result
    assert json.loads(result)["content"][7]["attrs"] == {"panelType": "warning", "localId": "panel-1"}
    assert result.count("\n") == source.count("\n") - 3


def test_words_are_replaced_only_when_their_number_is_right() -> None:
    good = Operation("find_replace", Target(), find="risk one", replacement='"two"')
    assert plain_text(patch(PAGE, "adf", [good]).result["content"][3]) == '"two"'
    with pytest.raises(PatchRefused, match="occurs 1 times, not 2"):
        patch(PAGE, "adf", [Operation("find_replace", Target(), find="risk one", count=2)])


def test_a_patch_that_drops_media_is_refused_unless_allowed() -> None:
    operation = Operation("delete", Target(heading=("Plan", "Next")))
    with pytest.raises(PatchRefused, match="file-1"):
        patch(PAGE, "adf", [operation])
    assert patch(PAGE, "adf", [operation], allow_media_loss=True).result["content"][-1]["type"] == "paragraph"


def test_a_part_changed_by_somebody_else_is_refused() -> None:
    sha = outline(PAGE, "adf")[1].sha
    target = Target(ref="h-risks", expected_sha=sha)
    assert patch(PAGE, "adf", [Operation("append", target, "more")]).result
    other = patch(PAGE, "adf", [Operation("append", Target(ref="h-risks"), "theirs")]).result
    with pytest.raises(PatchRefused, match="changed by somebody else"):
        patch(other, "adf", [Operation("append", target, "more")])


@pytest.mark.parametrize(
    "words", ["... existing content unchanged ...", "… rest of the section …", "[unchanged]"]
)
def test_a_truncated_text_is_refused(words: str) -> None:
    with pytest.raises(PatchRefused, match="send all of it"):
        patch(PAGE, "adf", [Operation("replace", Target(ref="h-risks"), f"new\n\n{words}\n")])


def test_new_blocks_are_made_to_fit_their_container() -> None:
    result = patch(PAGE, "adf", [Operation("append", Target(ref="panel-1"), "> quoted")])
    assert result.result["content"][7]["content"][-1]["type"] == "paragraph"
    assert result.report.of_kind("changed")


MARKDOWN = (
    "# A\n\nbody *a*\n\n## B\r\n\r\ntext  \nmore\n\n```\n# not a heading\n```\n\n"
    "::: info\n## C\n\nx\n:::\n\n## D\nend\n"
)


def test_markdown_is_patched_in_place() -> None:
    assert [each.path for each in outline(MARKDOWN, "markdown")] == [
        ("A",),
        ("A", "B"),
        ("A", "B", "C"),
        ("A", "D"),
    ]
    result = patch(MARKDOWN, "markdown", [Operation("replace", Target(heading=("D",)), "fin")]).result
    assert result == MARKDOWN.removesuffix("end\n") + "fin\n"
    result = patch(MARKDOWN, "markdown", [Operation("replace", Target(heading=("C",)), "y")]).result
    assert result == MARKDOWN.replace("\n\nx\n", "\n\ny\n")


def test_the_diff_shows_the_change() -> None:
    diff = patch(PAGE, "adf", [Operation("replace", Target(text="detail"), "changed")]).diff
    assert "-detail" in diff
    assert "+changed" in diff


def test_a_document_with_one_block_can_be_emptied_and_filled() -> None:
    empty = patch(doc(paragraph(text("x"))), "adf", [Operation("delete", Target(text="x"))]).result
    assert empty["content"] == []
