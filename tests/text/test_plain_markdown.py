"""Plain Markdown for readers who know no directives."""

import re

import pytest

from mooring.text import ConversionLost, convert
from mooring.text.tree import Node, doc, mark, node, text, walk

from .generate import Generator
from .hard_cases import BREAK, bullets, cell, code_block, head, item, marked, media, p, panel, rows, single

STRONG = mark("strong")


def plain(*blocks: Node, users: dict[str, str] | None = None) -> str:
    return convert(doc(*blocks), "adf", "markdown", dialect="plain", users=users).result.rstrip("\n")


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (panel("info", p("a"), p("b")), "> [INFO] a\n>\n> b"),
        (p(node("status", text="DONE", color="green"), " x"), "[DONE] x"),
        (p("due ", node("date", timestamp="1782864000000")), "due [2026-07-01]"),
        (p(node("emoji", shortName=":smile:", text="😄")), "😄"),
        (p(node("mention", id="9", text="@Bob")), "@Bob"),
        (p("a", BREAK, "b"), "a\\\nb"),
        (node("expand", [p("in")], title="More"), "**More**\n\nin"),
        (node("blockCard", url="https://e.com/1"), "<https://e.com/1>"),
        (single(media(alt="photo", id="f1")), "![photo](attachment:f1)"),
        (rows(head("a"), [cell(p("x"), bullets(item(p("y"))))]), "| a |\n| --- |\n| x<br>• y |"),
        (p(marked("bold ", STRONG), "next"), "<strong>bold </strong>next"),
        (node("extension", extensionType="x", extensionKey="toc"), "[toc]"),
        (code_block("a\n```\nb", language="md"), "````md\na\n```\nb\n````"),
    ],
)
def test_a_rich_block_has_a_plain_form(block: Node, expected: str) -> None:
    assert plain(block) == expected


def test_layouts_are_read_one_column_after_the_other() -> None:
    columns = [node("layoutColumn", [p(each)], width=50) for each in ("left", "right")]
    assert plain(node("layoutSection", columns)) == "left\n\nright"


def test_names_come_from_the_users_given() -> None:
    assert plain(p(node("mention", id="5", text="@old")), users={"5": "Ann Lee"}) == "@Ann Lee"


def test_media_addresses_come_from_the_resolver() -> None:
    document = doc(single(media(id="f1")))
    done = convert(
        document,
        "adf",
        "markdown",
        dialect="plain",
        resolve_media=lambda each: f"https://x/{each['attrs']['id']}",
    )
    assert done.result == "![](https://x/f1)\n"


def test_loss_is_reported_with_its_path_and_refused_when_strict() -> None:
    document = doc(p("a"), p(text("red", mark("textColor", color="#ff0000"))))
    report = convert(document, "adf", "markdown", dialect="plain").report
    assert [(entry.path, entry.kind) for entry in report.entries] == [("content/1/content/0", "lost")]
    with pytest.raises(ConversionLost, match="textColor"):
        convert(document, "adf", "markdown", dialect="plain", strict=True)


@pytest.mark.parametrize("seed", range(60))
def test_plain_markdown_has_no_directives_and_keeps_the_words(seed: int) -> None:
    document = Generator(seed, "typical").document()
    shown = convert(document, "adf", "markdown", dialect="plain").result
    assert not re.search(r"^:::|^::\w+[\[{]|:\w+\[[^\]]*\]\{", shown, re.MULTILINE)
    visible = " ".join(re.findall(r"\w+", shown))
    texts = [each["text"] for _, each in walk(document) if each.get("type") == "text"]
    for word in re.findall(r"\w+", " ".join(texts)):
        assert word in visible


def test_relative_addresses_become_absolute_where_it_is_known_to_what() -> None:
    here, there = mark("link", href="/wiki/b"), mark("link", href="https://other.example/c")
    image = node("mediaSingle", [node("media", type="external", url="d.png")], layout="center")
    document = doc(
        p(text("a", here), " ", text("b", there), " ", text("c", mark("link", href="#top"))),
        node("blockCard", url="/browse/X-1"),
        image,
    )
    done = convert(document, "adf", "markdown", dialect="plain", base_url="https://site.example/wiki/a")
    assert done.result == (
        "[a](https://site.example/wiki/b) [b](https://other.example/c) [c](#top)\n\n"
        "<https://site.example/browse/X-1>\n\n"
        "![](https://site.example/wiki/d.png)\n"
    )
    assert {entry.path.split("/content/")[0] for entry in done.report.entries} == {
        "content/0",
        "content/1",
        "content/2",
    }
    assert "](/wiki/b)" in convert(document, "adf", "markdown", dialect="plain").result
