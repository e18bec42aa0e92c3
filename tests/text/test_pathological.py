"""Hostile input costs time in proportion to its size, in both directions."""

import sys
from collections.abc import Callable

import pytest

from mooring.text import TextError, convert
from mooring.text.tree import Node, doc, mark, node, paragraph, plain_text, text

SMALL = 1200
# Twice the input may cost this many times the steps; the square would be 4.
FACTOR = 2.9

SOURCES: dict[str, Callable[[int], str]] = {
    "opening brackets": lambda count: "[" * count,
    "openers of links": lambda count: "[a](" * count,
    "openers of images": lambda count: "![" * count,
    "brackets with one end": lambda count: "[" * count + "]",
    "images with one end": lambda count: "![" * count + "](x)",
    "openers of directives": lambda count: ":u[" * count,
    "emphasis that never closes": lambda count: "*a " * count,
    "emphasis that never opens": lambda count: "a* " * count,
    "mixed emphasis": lambda count: "*a_ " * count,
    "long delimiter runs": lambda count: "*" * count + "a" + "*" * count,
    "growing backticks": lambda count: " ".join("`" * each for each in range(1, int((2 * count) ** 0.5))),
    "unclosed containers": lambda count: "::: info\n" * 40 + ":::: x\n" * count,
    "stray ends": lambda count: ":::\n" * count,
    "braces": lambda count: "a " + "{a=1 " * count + "}",
    "entities": lambda count: "&amp;&lt;&#65;" * count,
    "tags": lambda count: "<u>" * count + "</u>" * count,
    "comments": lambda count: "a <!-- " * count,
    "addresses": lambda count: "www." * count + ")" * count,
    "table rows": lambda count: "|a|b|\n|-|-|\n" + "|x|y|\n" * (count // 4),
    "definitions": lambda count: "".join(f"[a{each}]: b\n" for each in range(count // 4)),
    "backslashes": lambda count: "\\" * count,
    "paragraphs": lambda count: "word *word*\n\n" * (count // 4),
    "dashes": lambda count: "a\n" + "-" * count + "x\n",
    "attribute lines": lambda count: "{#a}\n" * count,
    "details": lambda count: "<details><summary>t</summary>\n\nx\n\n</details>\n\n" * (count // 8),
    "details that never end": lambda count: "<details>\n\n" * (count // 4),
    "ends of details": lambda count: "</details>\n\n" * (count // 4),
    "summaries that never end": lambda count: "<details><summary>" * count,
    "tables of HTML": lambda count: "<table><tr><td>x</td></tr></table>\n\n" * (count // 8),
    "foreign tags": lambda count: "a <kbd>b</kbd> " * (count // 4),
}


def steps(work: Callable[[], object]) -> int:
    """How many Python calls and lines the work takes: unlike time, the same on every machine."""
    count = 0

    def trace(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(trace)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


# The same for the other formats; storage format is repeated inside one paragraph.
OTHERS: dict[str, tuple[str, str]] = {
    "wiki bold": ("wiki", "*a "),
    "wiki panels": ("wiki", "{panel}"),
    "wiki cells": ("wiki", "||a"),
    "wiki links": ("wiki", "[a|"),
    "wiki colours": ("wiki", "{color:red}"),
    "wiki quotes": ("wiki", "{quote}"),
    "wiki marks": ("wiki", "*_-+^~"),
    "storage marks": ("storage", "<strong>x</strong>"),
    "storage entities": ("storage", "&amp;&lt;"),
    "storage macros": ("storage", '<ac:structured-macro ac:name="x" />'),
    "storage unknown elements": ("storage", "<foo>x</foo>"),
}


def there_and_back(source: str) -> None:
    document = convert(source, "markdown", "adf").result
    convert(document, "adf", "markdown")


@pytest.mark.parametrize("name", SOURCES)
def test_twice_the_input_takes_about_twice_the_steps(name: str) -> None:
    make = SOURCES[name]
    there_and_back("warm *up* `now`")
    once, twice = (steps(lambda size=size: there_and_back(make(size))) for size in (SMALL, 2 * SMALL))
    assert twice <= FACTOR * once + 20_000, f"{once} steps became {twice}"


@pytest.mark.parametrize("name", OTHERS)
def test_twice_the_input_takes_about_twice_the_steps_in_other_formats(name: str) -> None:
    source, unit = OTHERS[name]

    def through_all(count: int) -> None:
        body = unit * count
        document = convert(f"<p>{body}</p>" if source == "storage" else body, source, "adf").result
        convert(document, "adf", source)
        convert(document, "adf", "markdown")

    through_all(3)
    once, twice = (steps(lambda size=size: through_all(size)) for size in (SMALL // 8, SMALL // 4))
    assert twice <= FACTOR * once + 20_000, f"{once} steps became {twice}"


@pytest.mark.parametrize("source", [">" * 50_000, "- " * 50_000, "::: info\n" * 50_000, "1. " * 20_000])
def test_deep_nesting_is_refused_at_once(source: str) -> None:
    with pytest.raises(TextError, match="deeper than"):
        convert(source + "x", "markdown", "adf")


def nested(depth: int) -> Node:
    block: Node = paragraph(text("deep"))
    for _ in range(depth):
        block = node("panel", [block], panelType="info")
    return doc(block)


def test_deep_trees_are_written_or_refused_but_never_crash() -> None:
    assert "deep" in convert(nested(40), "adf", "markdown").result
    with pytest.raises(TextError, match="deeper than"):
        convert(nested(5000), "adf", "markdown")


def test_ten_megabytes_of_text_go_through() -> None:
    words = "all work and no play " * 500_000
    assert len(words) > 10_000_000
    markdown = convert(doc(paragraph(text(words.strip()))), "adf", "markdown").result
    assert plain_text(convert(markdown, "markdown", "adf").result) == words.strip()


def test_many_marks_on_one_text_survive() -> None:
    marks = [mark("annotation", id=str(each), annotationType="inlineComment") for each in range(30)]
    document = doc(paragraph(text("x", *marks)))
    markdown = convert(document, "adf", "markdown").result
    assert convert(markdown, "markdown", "adf").result == document
