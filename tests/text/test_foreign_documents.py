"""What no schema knows: unknown, missing or wrong parts survive, or are refused with their place."""

import copy
import random
from typing import Any

import pytest
from tests.text.generate import Generator

from mooring.text import UnreadableSource, convert
from mooring.text.sidecar import Sidecar
from mooring.text.tree import Node, doc, equal, node, paragraph, text, walk

JUNK: list[Any] = [None, 0, -1, 1.5, True, "", [], {}, "x", ["y"], {"a": None}, 10**20]
# Fixed, so that a run today and a run tomorrow ask the same questions.
SEEDS = range(25)
NAMES = ["hologram", "width", "title", "text", "id", "layout", "a b", "localId"]
MARKS: list[list[Node]] = [
    [{"type": "hologram"}],
    [{"type": "link"}],
    [{"type": "link", "attrs": {"href": None}}],
    [{"type": "em"}, {"type": "em"}],
    [{"type": "alignment", "attrs": {"align": "up"}}],
    [{"type": "annotation", "attrs": {}}],
]


def spoiled(seed: int, profile: str) -> Node:
    """A document of the schema, with a few things in it that are not."""
    chance = random.Random(seed)
    document = copy.deepcopy(Generator(seed, profile).document())
    nodes = [item for path, item in walk(document) if path]
    for item in chance.choices(nodes, k=chance.randint(1, 3)):
        attrs = item.get("attrs") or {}
        match chance.randrange(6):
            case 0 if attrs:
                attrs[chance.choice(list(attrs))] = copy.deepcopy(chance.choice(JUNK))
            case 1 if attrs:
                del attrs[chance.choice(list(attrs))]
            case 2 if item["type"] != "text":
                item["type"] = chance.choice(["hologram", *(other["type"] for other in nodes)])
                item.setdefault("text", "was something else")
            case 3:
                item["marks"] = copy.deepcopy(chance.choice(MARKS))
            case 4 if item["type"] != "text":
                item["content"] = chance.choice([[], None])
            case _:
                item["attrs"] = {**attrs, chance.choice(NAMES): copy.deepcopy(chance.choice(JUNK))}
    return document


@pytest.mark.parametrize("target", ["markdown", "storage"])
@pytest.mark.parametrize("profile", ["core", "typical", "adversarial"])
@pytest.mark.parametrize("seed", SEEDS)
def test_what_the_schema_does_not_know_survives_unchanged(target: str, profile: str, seed: int) -> None:
    document = spoiled(seed, profile)
    written = convert(document, "adf", target).result
    assert equal(convert(written, target, "adf").result, document), written


@pytest.mark.parametrize("target", ["markdown", "storage"])
@pytest.mark.parametrize(
    ("profile", "seed"),
    [
        ("typical", 54),
        ("typical", 385378143),
        ("typical", 685902498),
        ("typical", 842323028),
        ("typical", 926988196),
        ("typical", 988516326),
        ("adversarial", 159504871),
        ("adversarial", 756434327),
    ],
)
def test_what_was_once_changed_survives_unchanged(target: str, profile: str, seed: int) -> None:
    document = spoiled(seed, profile)
    written = convert(document, "adf", target).result
    assert equal(convert(written, target, "adf").result, document), written


IMAGE = node(
    "mediaSingle", [node("media", type="external", url="https://example.com/a.png")], layout="center"
)


@pytest.mark.parametrize("before", [paragraph(text("a")), IMAGE])
@pytest.mark.parametrize("content", [[], [text("words")]])
def test_a_caption_written_as_adf_stays_where_it_is(before: Node, content: list[Node]) -> None:
    document = doc(before, {"type": "caption", "text": "was something else", "content": content})
    written = convert(document, "adf", "markdown").result
    assert equal(convert(written, "markdown", "adf").result, document), written


def test_a_node_in_the_wrong_place_survives_in_wiki_markup() -> None:
    document = doc({"type": "nestedExpand", "content": [paragraph(text("a"))], "hologram": 1})
    written = convert(document, "adf", "wiki").result
    assert equal(convert(written, "wiki", "adf").result, document)


def test_a_text_with_unknown_keys_survives_where_the_schema_admits_anything() -> None:
    caption = node("caption", [text("a "), text("words") | {"attrs": {"width": ["y"]}}, text(" b")])
    shown = IMAGE | {"content": [*IMAGE["content"], caption]}
    document = doc(node("bodiedSyncBlock", [shown], resourceId="a", localId="b"))
    written = convert(document, "adf", "markdown").result
    assert "\na :adf[words]{" in written
    assert equal(convert(written, "markdown", "adf").result, document), written


def test_a_caption_with_unknown_marks_belongs_to_its_image_inside_a_panel_too() -> None:
    caption = node("caption", [text("words")]) | {"marks": [{"type": "hologram"}]}
    shown = IMAGE | {"content": [*IMAGE["content"], caption]}
    document = doc(shown, node("panel", [shown], panelType="info"))
    written = convert(document, "adf", "markdown").result
    assert written.count("\nwords\n") == 2
    assert equal(convert(written, "markdown", "adf").result, document), written


@pytest.mark.parametrize("seed", SEEDS)
def test_what_the_schema_does_not_know_can_be_shown_and_edited(seed: int) -> None:
    document = spoiled(seed, "typical")
    for sidecar in (Sidecar(), Sidecar(dialect="extended")):
        shown = sidecar.render(document)
        edited = shown.markdown.replace("the", "Edited", 1)
        after = sidecar.restore(edited, document, shown.snapshot, allow_media_loss=True).document
        gone = [each for each in document["content"] if not any(each is other for other in after["content"])]
        assert len(gone) <= 1


def test_the_words_of_nodes_inside_unknown_nodes_stay_readable() -> None:
    frame = {"type": "frame", "content": [paragraph(text("one body"))]}
    document = doc({"type": "tabs", "attrs": {"active": 0}, "content": [frame, frame]})
    written = convert(document, "adf", "markdown").result
    assert written.count("\none body\n") == 2
    assert convert(written, "markdown", "adf").result == document


@pytest.mark.parametrize(
    ("broken", "path"),
    [
        (paragraph({"type": "text", "text": "x", "marks": ["em"]}), "content/0/content/0"),
        (paragraph({"type": "text", "text": "x", "marks": [{}]}), "content/0/content/0"),
        ({"type": "rule", "attrs": []}, "content/0"),
        ({"type": "rule", "marks": "em"}, "content/0"),
    ],
)
def test_what_is_no_tree_is_refused_with_its_place(broken: Node, path: str) -> None:
    with pytest.raises(UnreadableSource) as raised:
        convert(doc(broken), "adf", "markdown")
    assert raised.value.position.path == path


@pytest.mark.parametrize(
    "source",
    [
        "```adf\n" + '{"type":"panel","content":[{}]}' + "\n```\n",
        """::: adf {json='{"type":"panel","marks":["em"]}'}\nx\n:::\n""",
        """:text[x]{marks='[{"kind":"em"}]'}\n""",
        """:adf[x]{json='{"type":"emoji","attrs":[]}'}\n""",
        """x {marks='[1]'}\n""",
    ],
)
def test_json_that_is_no_node_is_never_taken_for_one(source: str) -> None:
    done = convert(source, "markdown", "adf")
    assert [entry.kind for entry in done.report.entries if entry.kind in ("changed", "lost")]
    assert convert(done.result, "adf", "markdown").result


def test_an_attribute_that_is_null_does_not_stop_a_table() -> None:
    cell = node("tableCell", [paragraph(text("a"))]) | {"attrs": {"colwidth": None, "background": None}}
    document = doc(node("table", [node("tableRow", [cell])]))
    for target in ("markdown", "storage", "wiki"):
        assert equal(convert(convert(document, "adf", target).result, target, "adf").result, document)


@pytest.mark.parametrize(
    "leaf",
    [
        {"type": "hardBreak"},
        {"type": "emoji", "attrs": {"shortName": ":tea:"}},
        {"type": "inlineCard", "attrs": {"url": "https://example.com"}},
        {"type": "date", "attrs": {"timestamp": "1782864000000"}},
    ],
)
def test_an_empty_content_does_not_change_how_a_leaf_is_stored(leaf: Node) -> None:
    document, plain = (doc(paragraph(text("a"), each)) for each in ({**leaf, "content": []}, leaf))
    written = convert(document, "adf", "storage").result
    assert written == convert(plain, "adf", "storage").result
    assert convert(written, "storage", "adf").result == plain


def test_how_a_block_is_stored_does_not_depend_on_its_neighbours() -> None:
    invalid = node("expand", [{"type": "blockCard", "attrs": {"url": "https://e.com", "hologram": 1}}])
    as_json = paragraph({"type": "text", "text": "x", "hologram": 1})
    alone = [convert(doc(each), "adf", "storage").result for each in (invalid, as_json)]
    together = convert(doc(invalid, as_json), "adf", "storage").result
    assert together == "".join(alone)
    assert equal(convert(together, "storage", "adf").result, doc(invalid, as_json))


def test_what_is_no_valid_node_is_kept_as_its_source_beside_our_json() -> None:
    foreign = '<ac:adf-extension><ac:adf-node type="panel" /></ac:adf-extension>'
    ours = convert(doc(paragraph({"type": "text", "text": "x", "hologram": 1})), "adf", "storage").result
    alone = convert(foreign, "storage", "adf").result
    beside = convert(foreign + ours, "storage", "adf").result
    assert alone["content"][0]["type"] == "extension"
    assert beside["content"][0] == alone["content"][0]
