"""Every pair of formats, both dialects: what does not come back the same is named in a report."""

import difflib
import itertools
import json
import re
from collections.abc import Iterator
from contextlib import nullcontext

import pytest
from tests.text.generate import Generator

from mooring.text import Conversion, ConversionLost, convert, read, write
from mooring.text.tree import Node, canonical, doc, equal, node, paragraph, text

FORMATS = ("adf", "markdown", "storage", "wiki")
PAIRS = list(itertools.permutations(FORMATS, 2))
SEEDS = range(4100, 4112)


def missing(before: Node, after: Node) -> Iterator[int | None]:
    """The numbers of the top-level blocks that did not come back; None for a block nobody wrote."""
    left, right = (
        [json.dumps(block, sort_keys=True) for block in canonical(tree)["content"]]
        for tree in (before, after)
    )
    for tag, start, end, _, _ in difflib.SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        if tag == "insert":
            yield None
        elif tag != "equal":
            yield from range(start, end)


def is_named(block: int | None, *conversions: Conversion) -> bool:
    return any(
        entry.kind in ("changed", "lost") and f"{entry.path}/".startswith(f"content/{block}/")
        for conversion in conversions
        for entry in conversion.report.entries
    )


@pytest.mark.parametrize("profile", ["core", "typical", "adversarial"])
@pytest.mark.parametrize("dialect", ["extended", "plain"])
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_what_does_not_come_back_is_named(source: str, target: str, dialect: str, profile: str) -> None:
    for seed in SEEDS:
        document = Generator(seed, profile).document()
        value = document if source == "adf" else write(document, source)
        there = convert(value, source, target, dialect=dialect)
        back = convert(there.result, target, source)
        silent = [
            block
            for block in missing(read(value, source), read(back.result, source))
            if not is_named(block, there, back)
        ]
        assert not silent, f"seed {seed}: {there.result}"


@pytest.mark.parametrize("profile", ["core", "typical", "adversarial"])
@pytest.mark.parametrize("dialect", ["extended", "plain"])
@pytest.mark.parametrize("target", FORMATS[1:])
def test_strict_refuses_exactly_what_the_report_calls_lost(target: str, dialect: str, profile: str) -> None:
    for seed in SEEDS:
        document = Generator(seed, profile).document()
        lost = convert(document, "adf", target, dialect=dialect).report.of_kind("lost")
        refusal = pytest.raises(ConversionLost, match=re.escape(lost[0].detail)) if lost else nullcontext()
        with refusal:
            convert(document, "adf", target, dialect=dialect, strict=True)


def test_another_order_is_named() -> None:
    code = node("codeBlock", [text("x")])
    document = doc(node("bulletList", [node("listItem", [code, paragraph(text("a")), paragraph()])]))
    there = convert(document, "adf", "wiki", dialect="plain")
    assert not equal(convert(there.result, "wiki", "adf").result, document)
    assert is_named(0, there)


@pytest.mark.parametrize("dialect", ["extended", "plain"])
@pytest.mark.parametrize("target", FORMATS[1:])
@pytest.mark.parametrize("levels", [20, 45, 52, 70])
def test_lists_in_lists_in_lists_come_back_or_are_named(target: str, dialect: str, levels: int) -> None:
    inner = paragraph(text("inside"))
    for _ in range(levels):
        inner = node("bulletList", [node("listItem", [paragraph(text("x")), inner])])
    document = doc(paragraph(text("first")), inner["content"][0]["content"][1])
    there = convert(document, "adf", target, dialect=dialect)
    if dialect == "extended":
        assert equal(convert(there.result, target, "adf").result, document)
    else:
        assert "inside" in there.result
        assert levels < 50 or target == "storage" or is_named(1, there)
