"""A block of any format is changed by its id or its exact words, and every other byte stays."""

# ruff: noqa: E501  (a case is easier to check on one line)

import pytest

from mooring.text import PatchRefused, read
from mooring.text.patch import Operation, Target, patch
from mooring.text.tree import attributes, children, plain_text

MARKDOWN = """# A

first para {#p1}

- item one
- item two
  more

> quoted words

::: info {#pan}
in panel
:::

- [ ] a task {#t1}

![x](attachment:a1){collection=c}
"""
STORAGE = (
    '<h1>A</h1><p local-id="p1">first &amp; para</p>\n<ul><li>one</li><li><p>two</p></li></ul>'
    '<ac:structured-macro ac:name="info" ac:macro-id="m1"><ac:rich-text-body><p>in panel</p></ac:rich-text-body>'
    '</ac:structured-macro><p>é x</p><ac:image><ri:attachment ri:filename="a.png" /></ac:image>'
)
WIKI = "h1. A\n\nfirst para\nline two\n\n* one\n* two\n\n{panel}\nin panel\n{panel}\n\n{code}\nthree\n{code}\n\n!a.png!\n"


def changed(source: str, source_format: str, *operations: Operation, **options: bool) -> str:
    return patch(source, source_format, operations, **options).result


@pytest.mark.parametrize(
    ("source", "source_format", "target", "old", "new"),
    [
        (MARKDOWN, "markdown", Target(ref="p1"), "first para {#p1}", "NEW\n\nmore"),
        (MARKDOWN, "markdown", Target(text="first para"), "first para {#p1}", "NEW\n\nmore"),
        (MARKDOWN, "markdown", Target(text="item two more"), "item two\n  more", "NEW\n\n  more"),
        (MARKDOWN, "markdown", Target(text="quoted words"), "quoted words", "NEW\n>\n> more"),
        (MARKDOWN, "markdown", Target(text="in panel"), "in panel", "NEW\n\nmore"),
        (MARKDOWN, "markdown", Target(ref="pan"), "::: info {#pan}\nin panel\n:::", "NEW\n\nmore"),
        (STORAGE, "storage", Target(ref="p1"), '<p local-id="p1">first &amp; para</p>', "<p>NEW</p><p>more</p>"),
        (STORAGE, "storage", Target(text="first & para"), '<p local-id="p1">first &amp; para</p>', "<p>NEW</p><p>more</p>"),
        (STORAGE, "storage", Target(text="two"), "<p>two</p>", "<p>NEW</p><p>more</p>"),
        (STORAGE, "storage", Target(text="é x"), "<p>é x</p>", "<p>NEW</p><p>more</p>"),
        (WIKI, "wiki", Target(text="first para line two"), "first para\nline two", "NEW\n\nmore"),
        (WIKI, "wiki", Target(text="in panel"), "in panel", "NEW\n\nmore"),
    ],
)  # fmt: skip
def test_only_the_bytes_of_the_block_change(
    source: str, source_format: str, target: Target, old: str, new: str
) -> None:
    assert source.count(old) == 1
    done = changed(source, source_format, Operation("replace", target, "NEW\n\nmore"))
    assert done == source.replace(old, new)


def test_the_words_of_an_item_without_a_paragraph_stay_without_one() -> None:
    done = changed(STORAGE, "storage", Operation("replace", Target(text="one"), "NEW *x*"))
    assert done == STORAGE.replace("<li>one</li>", "<li>NEW <em>x</em></li>")
    assert changed(WIKI, "wiki", Operation("replace", Target(text="two"), "NEW")) == WIKI.replace(
        "* two", "* NEW"
    )


def test_words_in_code_are_not_taken_for_a_paragraph() -> None:
    done = changed(WIKI, "wiki", Operation("replace", Target(text="three"), "NEW"))
    assert done == WIKI.replace("{code}\nthree\n{code}", "NEW")


@pytest.mark.parametrize(
    ("source", "source_format", "target", "attrs"),
    [
        (MARKDOWN, "markdown", Target(ref="pan"), {"panelType": "warning"}),
        (MARKDOWN, "markdown", Target(heading=("A",)), {"level": 3}),
        (STORAGE, "storage", Target(ref="m1"), {"panelType": "warning"}),
        (STORAGE, "storage", Target(heading=("A",)), {"level": 3}),
        (WIKI, "wiki", Target(heading=("A",)), {"level": 3}),
    ],
)
def test_attributes_are_set_in_every_format(
    source: str, source_format: str, target: Target, attrs: dict[str, object]
) -> None:
    before = children(read(source, source_format))
    after = children(
        read(changed(source, source_format, Operation("set_attrs", target, attrs=attrs)), source_format)
    )
    different = [new for old, new in zip(before, after, strict=True) if old != new]
    assert len(different) == 1
    assert attrs.items() <= attributes(different[0]).items()


def test_a_block_is_inserted_moved_and_deleted() -> None:
    inserted = changed(STORAGE, "storage", Operation("insert_after", Target(text="in panel"), "NEW"))
    assert inserted == STORAGE.replace("<p>in panel</p>", "<p>in panel</p><p>NEW</p>")
    assert changed(STORAGE, "storage", Operation("delete", Target(text="é x"))) == STORAGE.replace(
        "<p>é x</p>", ""
    )
    moved = changed(MARKDOWN, "markdown", Operation("move", Target(ref="pan"), destination=Target(ref="p1")))
    assert moved.index("::: info") < moved.index("item one")


@pytest.mark.parametrize(
    ("source", "source_format"), [(MARKDOWN, "markdown"), (STORAGE, "storage"), (WIKI, "wiki")]
)
def test_a_patch_that_would_drop_media_is_refused_unless_asked_for(source: str, source_format: str) -> None:
    delete = Operation("replace", Target(heading=("A",)), "nothing left")
    with pytest.raises(PatchRefused, match="drops media"):
        changed(source, source_format, delete)
    done = changed(source, source_format, delete, allow_media_loss=True)
    assert plain_text(read(done, source_format)).endswith("nothing left")


def test_words_that_occur_twice_are_refused_with_the_places() -> None:
    with pytest.raises(PatchRefused, match="matches 2 places"):
        changed("same\n\nsame\n", "markdown", Operation("delete", Target(text="same")))
    assert (
        changed("same\n\nsame\n", "markdown", Operation("replace", Target(text="same", occurrence=2), "x"))
        == "same\n\nx\n"
    )
