"""Plain Markdown with a sidecar: an edit comes back without losing what the reader never saw."""

import json
import random
import re

import pytest

from mooring.text import schema
from mooring.text.errors import PatchRefused
from mooring.text.sidecar import Sidecar
from mooring.text.tree import Node, doc, mark, node, paragraph, plain_text, raw_block, text, walk

from .generate import Generator
from .hard_cases import CASES, bullets, cell, head, item, media, p, panel, rows, single

SIDECAR = Sidecar(users={"5": "Ann Lee"})
RED = mark("textColor", color="#ff0000")


def edited(document: Node, old: str, new: str, **options: bool) -> Node:
    rendering = SIDECAR.render(document)
    assert rendering.markdown.count(old) == 1, rendering.markdown
    return SIDECAR.restore(
        rendering.markdown.replace(old, new), document, rendering.snapshot, **options
    ).document


@pytest.mark.parametrize("dialect", ["plain", "extended"])
@pytest.mark.parametrize(("name", "document"), CASES, ids=[name for name, _ in CASES])
def test_without_an_edit_the_very_same_document_comes_back(name: str, document: Node, dialect: str) -> None:
    sidecar = Sidecar(dialect)
    rendering = sidecar.render(document)
    assert sidecar.restore(rendering.markdown, document, rendering.snapshot).document is document


@pytest.mark.parametrize("dialect", ["plain", "extended"])
@pytest.mark.parametrize("profile", ["core", "typical", "adversarial"])
def test_a_one_word_edit_leaves_every_other_block_identical(profile: str, dialect: str) -> None:
    sidecar = Sidecar(dialect)
    tried = 0
    for seed in range(80):
        document = Generator(seed, profile).document()
        rendering = sidecar.render(document)
        found = _some_word(document, rendering.markdown, seed)
        if found is None:
            continue
        tried += 1
        changed = rendering.markdown[: found[0]] + "Edited" + rendering.markdown[found[1] :]
        after = sidecar.restore(changed, document, rendering.snapshot, allow_media_loss=True).document
        pairs = zip(document["content"], after["content"], strict=True)
        assert sum(old is not new for old, new in pairs) == 1, f"seed {seed}"
        assert "Edited" in str(after), f"seed {seed}"
        assert schema.is_valid(after) or not schema.is_valid(document), f"seed {seed}"
    assert tried > 30


def _some_word(document: Node, markdown: str, seed: int) -> tuple[int, int] | None:
    """A word of the text that is not part of any syntax."""
    words = {
        word
        for _, each in walk(document)
        if each.get("type") == "text"
        for word in re.findall(r"[a-z]{5,}", each["text"])
    }
    words -= {"table", "expand", "macro", "decisions", "column", "header", "layout", "caption", "files"}
    visible = re.sub(r"\{[^\n]*\}", lambda found: " " * len(found[0]), markdown)
    places = [
        (found.start(), found.end())
        for found in re.finditer(r"(?<![\w:={#\"'\\./-])[a-z]{5,}(?![=\w:\"'./])", visible)
        if found[0] in words
    ]
    return random.Random(seed).choice(places) if places else None


def test_a_changed_paragraph_keeps_its_id_its_colours_and_its_mention() -> None:
    document = doc(
        node(
            "paragraph",
            [text("ask "), node("mention", id="5"), text(" about the "), text("red", RED), text(" thing")],
            localId="p1",
        )
    )
    after = edited(document, "thing", "door")
    assert after["content"][0]["attrs"] == {"localId": "p1"}
    assert after["content"][0]["content"] == [
        text("ask "), node("mention", id="5"), text(" about the "), text("red", RED), text(" door"),
    ]  # fmt: skip


def test_an_edited_mention_becomes_text_and_is_reported() -> None:
    document = doc(p("ask ", node("mention", id="5"), " now"))
    rendering = SIDECAR.render(document)
    restored = SIDECAR.restore(rendering.markdown.replace("Ann Lee", "Ann"), document)
    assert plain_text(restored.document) == "ask @Ann now"
    assert [entry.detail for entry in restored.report.of_kind("lost")] == [
        "`mention` was changed by the edit and is only text now"
    ]


def test_a_block_inside_a_layout_changes_in_place() -> None:
    column = node("layoutColumn", [p("left"), panel("info", p("note"))], width=50)
    other = node("layoutColumn", [p("right")], width=50)
    document = doc(node("layoutSection", [column, other]), p("end"))
    after = edited(document, "note", "a new note")
    section = after["content"][0]
    assert plain_text(section["content"][0]["content"][1]) == "a new note"
    assert section["content"][0]["content"][1]["attrs"] == {"panelType": "info"}
    assert section["content"][1] is other


def test_a_new_paragraph_lands_after_the_one_before_it() -> None:
    document = doc(node("expand", [p("one"), p("two")], title="More"), p("end"))
    after = edited(document, "one\n", "one\n\nnew\n")
    assert [plain_text(each) for each in after["content"][0]["content"]] == ["one", "new", "two"]


@pytest.mark.parametrize("dialect", ["plain", "extended"])
def test_a_moved_block_is_the_original_in_another_place(dialect: str) -> None:
    table = rows(head("a", "b"), [cell(p("one"), background="#deebff"), cell(p("x"))])
    blocks = [p("first"), panel("info", p("note")) | {"localId": 1}, table, p("last")]
    document = doc(*blocks)
    sidecar = Sidecar(dialect)
    shown = sidecar.render(document)
    first, second, third, last = shown.markdown.rstrip("\n").split("\n\n")
    restored = sidecar.restore("\n\n".join([third, first, last, second]), document, shown.snapshot)
    assert restored.document["content"] == [table, blocks[0], blocks[3], blocks[1]]
    assert {entry.detail.partition(" was ")[2] for entry in restored.report.entries} == {"moved by the edit"}


def test_an_edited_title_goes_back_into_the_expand() -> None:
    document = doc(node("expand", [p("one")], title="More"))
    assert edited(document, "More", "Much more")["content"][0]["attrs"] == {"title": "Much more"}


def test_an_edited_title_stays_when_everything_below_it_goes() -> None:
    document = doc(node("expand", [p("one")], title="More of it"), p("end"))
    after = edited(document, "of it**\n\none\n", "of that**\n")
    assert after["content"][0] == node("expand", [{"type": "paragraph"}], title="More of that")


def test_a_changed_item_keeps_the_ids_of_its_list() -> None:
    document = doc(
        node(
            "taskList",
            [
                node("taskItem", [text("a")], localId="1", state="TODO"),
                node("taskItem", [text("b")], localId="2", state="TODO"),
            ],
            localId="l",
        ),
        node("bulletList", [node("listItem", [p("x")], localId="3"), item(p("y"))], localId="m"),
    )
    after = edited(document, "[ ] b", "[x] b")
    assert after["content"][0]["attrs"] == {"localId": "l"}
    assert [each["attrs"] for each in after["content"][0]["content"]] == [
        {"localId": "1", "state": "TODO"},
        {"localId": "2", "state": "DONE"},
    ]
    assert edited(document, "* x", "* x\n* new")["content"][1]["content"][0]["attrs"] == {"localId": "3"}


def test_a_changed_cell_keeps_widths_and_colours_of_its_table() -> None:
    document = doc(
        rows(head("a", "b"), [cell(p("one"), background="#deebff"), cell(p("x"), bullets(item(p("y"))))])
    )
    after = edited(document, "one", "two")
    row = after["content"][0]["content"][1]
    assert row["content"][0]["attrs"] == {"background": "#deebff"}
    assert plain_text(row["content"][0]) == "two"
    assert row["content"][1] is document["content"][0]["content"][1]["content"][1]


PHOTO = node(
    "mediaSingle", [node("media", type="file", id="f1", collection="c", alt="photo")], layout="wide", width=50
)
CAPTIONED = PHOTO | {"content": [*PHOTO["content"], node("caption", [text("by "), text("hand", RED)])]}


@pytest.mark.parametrize(
    ("block", "old", "new", "within"),
    [
        (panel("info", p("careful")) | {"marks": []}, "[INFO]", "[WARNING]", ('"info"', '"warning"')),
        (node("orderedList", [item(p("a"))], order=3, localId="l"), "3. ", "7. ", ('": 3', '": 7')),
        (p(text("x", mark("link", href="/a", title="old", id="i"))), '"old"', '"new"', ('"old"', '"new"')),
        (PHOTO, "photo", "picture", ("photo", "picture")),
        (panel("info", PHOTO, p("x")), "photo", "picture", ("photo", "picture")),
        (CAPTIONED, "photo by", "photo made by", ('"by "', '"made by "')),
        (
            node("mediaGroup", [media(id="f1", alt="a"), media(id="f2", alt="b")]),
            "[b]",
            "[c]",
            ('"b"', '"c"'),
        ),
        (node("blockCard", url="/a"), "[/a](/a)", "[/b](/b)", ('"/a"', '"/b"')),
        (
            node(
                "decisionList",
                [node("decisionItem", [text("go")], state="DECIDED", localId="d")],
                localId="l",
            ),
            "go",
            "stay",
            ('"go"', '"stay"'),
        ),
        (
            node(
                "decisionList",
                [node("decisionItem", [text("go")], state="DECIDED", localId="d")],
                localId="l",
            ),
            "DECIDED",
            "UNDECIDED",
            ("DECIDED", "UNDECIDED"),
        ),
        (p(node("status", text="DONE", color="green", localId="s")), "DONE", "OPEN", ("DONE", "OPEN")),
        (p("by ", node("date", timestamp="86400000")), "01-02", "01-03", ("86400000", "172800000")),
    ],
)
def test_an_edit_of_what_is_shown_of_a_node_changes_just_that(
    block: Node, old: str, new: str, within: tuple[str, str]
) -> None:
    document = doc(p("before"), block, p("after"))
    rendering = SIDECAR.render(document)
    assert rendering.markdown.count(old) == 1, rendering.markdown
    restored = SIDECAR.restore(rendering.markdown.replace(old, new), document, rendering.snapshot)
    assert restored.document == json.loads(json.dumps(document).replace(*within, 1))
    assert restored.report.entries == []


def test_a_link_without_its_title_keeps_the_rest() -> None:
    linked = text("x", mark("link", href="/a", title="old", id="i"))
    after = edited(doc(p("see ", linked)), ' "old"', "")
    assert after["content"][0]["content"][1]["marks"] == [mark("link", href="/a", id="i")]


def test_an_edited_item_leaves_the_images_of_other_items_alone() -> None:
    document = doc(bullets(item(p("one"), CAPTIONED), item(p("two"))))
    rendering = SIDECAR.render(document)
    restored = SIDECAR.restore(rendering.markdown.replace("two", "2"), document, rendering.snapshot)
    assert restored.document["content"][0]["content"][0] is document["content"][0]["content"][0]
    assert restored.report.entries == []


def test_an_edit_that_drops_media_is_refused_unless_allowed() -> None:
    document = doc(p("a"), single(media(id="f1", alt="photo")), p("b"))
    with pytest.raises(PatchRefused, match="f1"):
        edited(document, "![photo](attachment:f1)\n\n", "")
    assert len(edited(document, "![photo](attachment:f1)\n\n", "", allow_media_loss=True)["content"]) == 2


def test_an_edit_of_another_version_is_refused() -> None:
    rendering = SIDECAR.render(doc(p("a")))
    with pytest.raises(PatchRefused, match="another version"):
        SIDECAR.restore("b\n", doc(p("c")), rendering.snapshot)


def test_a_deleted_block_is_reported() -> None:
    document = doc(p("one"), panel("info", p("two")), p("three"))
    rendering = SIDECAR.render(document)
    restored = SIDECAR.restore(rendering.markdown.replace("> [INFO] two\n\n", ""), document)
    assert [plain_text(each) for each in restored.document["content"]] == ["one", "three"]
    assert [entry.path for entry in restored.report.of_kind("changed")] == ["content/1"]


def test_a_paragraph_may_become_a_heading_and_keep_its_id() -> None:
    document = doc({**paragraph(text("title")), "attrs": {"localId": "p"}}, p("x"))
    assert edited(document, "title", "## title")["content"][0] == {
        "type": "heading",
        "attrs": {"localId": "p", "level": 2},
        "content": [text("title")],
    }


def test_a_word_in_a_cell_of_several_blocks_changes_only_its_own_block() -> None:
    heading = node("heading", [text("Results")], level=3)
    items = node("bulletList", [node("listItem", [paragraph(text(each))]) for each in ("first", "second")])
    rich = node("tableCell", [heading, items, panel("info", paragraph(text("mind this")))], colspan=2)
    wide = node("tableRow", [rich, node("tableCell", [paragraph(text("side"))], background="#deebff")])
    table = node("table", [wide, node("tableRow", [node("tableCell", [paragraph(text(x))]) for x in "abc"])])
    document = doc(table)
    shown = Sidecar().render(document)
    for old, new in (("second", "2nd"), ("Results", "Outcome"), ("mind this", "mind that"), ("side", "edge")):
        done = Sidecar().restore(shown.markdown.replace(old, new), document, shown.snapshot)
        assert done.document == json.loads(json.dumps(document).replace(old, new))
        assert not done.report.entries


def test_a_cell_that_lost_its_blocks_to_an_edit_is_reported() -> None:
    items = node("bulletList", [node("listItem", [paragraph(text(each))]) for each in ("first", "second")])
    document = doc(node("table", [node("tableRow", [node("tableCell", [items])])]))
    shown = Sidecar().render(document)
    done = Sidecar().restore(shown.markdown.replace("<br>", " "), document, shown.snapshot)
    assert [(entry.kind, entry.path) for entry in done.report.entries] == [
        ("lost", "content/0/content/0/content/0")
    ] * 2


def test_unchanged_blocks_add_nothing_to_the_report() -> None:
    document = doc(raw_block("html", "<div>\nx\n</div>"), paragraph(text("old words")))
    shown = Sidecar(dialect="extended").render(document)
    edited = shown.markdown.replace("old", "new {nothing=1}")
    done = Sidecar(dialect="extended").restore(edited, document, shown.snapshot)
    assert [(entry.kind, entry.path) for entry in done.report.entries] == []
    assert done.document["content"][0] is document["content"][0]


def test_the_words_of_an_atom_that_an_edit_broke_do_not_get_its_marks() -> None:
    sources = mark("dataConsumer", sources=["a"])
    atom = node("inlineExtension", extensionKey="k", extensionType="t", text=" review this") | {
        "marks": [sources]
    }
    document = doc(paragraph(atom, text(" and that")))
    shown = Sidecar().render(document)
    done = Sidecar().restore(shown.markdown.replace("review", "read"), document, shown.snapshot)
    assert schema.is_valid(done.document)
    assert [entry.kind for entry in done.report.entries] == ["lost"]


LINK = mark("link", href="/a", collection="c")


@pytest.mark.parametrize("marked", [text("red", RED), text("red word", RED), text("red", LINK)])
def test_words_in_place_of_others_get_what_those_had_in_secret(marked: Node) -> None:
    after = edited(doc(paragraph(text("a "), marked, text(" b"))), "red", "blue")
    expected = marked | {"text": marked["text"].replace("red", "blue")}
    assert after["content"][0]["content"] == [text("a "), expected, text(" b")]


def test_words_in_place_of_words_of_two_colours_get_neither_and_the_report_says_so() -> None:
    document = doc(paragraph(text("one", RED), text("two", mark("underline")), text(" end")))
    rendering = SIDECAR.render(document)
    restored = SIDECAR.restore(rendering.markdown.replace("onetwo", "three"), document, rendering.snapshot)
    assert restored.document["content"] == [paragraph(text("three end"))]
    assert [(each.path, each.kind) for each in restored.report.entries] == [("content/0", "changed")] * 2
