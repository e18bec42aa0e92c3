"""What people and models write in Markdown out of habit is understood; what only looks like it stays text."""

import pytest

from mooring.text import ConversionLost, convert
from mooring.text.schema import is_valid
from mooring.text.tree import Node, children, doc, equal, mark, paragraph, text


def read(source: str) -> Node:
    tree = convert(source, "markdown", "adf").result
    assert is_valid(tree)
    again = convert(convert(tree, "adf", "markdown").result, "markdown", "adf").result
    assert equal(again, tree)
    return tree


def blocks(source: str) -> list[Node]:
    return children(read(source))


def inline(source: str) -> list[Node]:
    return children(blocks(source)[0])


def test_details_are_an_expand_with_markdown_inside() -> None:
    expand, after = blocks(
        "<details>\n<summary>More <b>info</b></summary>\n\nBody *md*\n\n- a\n\n</details>\n\nafter"
    )
    assert expand["type"] == "expand"
    assert expand["attrs"] == {"title": "More info"}
    assert [each["type"] for each in children(expand)] == ["paragraph", "bulletList"]
    assert after["type"] == "paragraph"


def test_details_without_blank_lines_and_nested_ones_are_expands() -> None:
    (expand,) = blocks("<details><summary>T</summary>\nSome **text**\n</details>")
    assert children(children(expand)[0])[1]["marks"] == [{"type": "strong"}]
    (outer,) = blocks(
        "<details><summary>A</summary>\n\n<details><summary>B</summary>\n\nx\n\n</details>\n\n</details>"
    )
    assert children(outer)[0]["type"] == "nestedExpand"


def test_details_that_never_end_stay_html() -> None:
    report = convert("<details>\nno end", "markdown", "adf").report
    assert [entry.kind for entry in report.entries] == ["kept"]
    (raw,) = blocks("<details>\nno end")
    assert raw["attrs"]["parameters"]["source"] == "<details>\nno end"


def test_an_html_table_is_a_table_with_spans_lists_and_marks() -> None:
    (table,) = blocks(
        "<table>\n<thead><tr><th>A</th><th>B</th></tr></thead>\n"
        '<tr><td colspan="2">x <b>y</b><br>z</td></tr>\n'
        "<tr><td><ul><li>one</li><li>two</li></ul></td>"
        '<td><p>p1</p><p><a href="http://x.y">l</a></p></td>'
        "</tr></table>"
    )
    head, spanned, last = children(table)
    assert [cell["type"] for cell in children(head)] == ["tableHeader", "tableHeader"]
    assert children(spanned)[0]["attrs"] == {"colspan": 2}
    assert [each["type"] for each in children(children(children(spanned)[0])[0])] == [
        "text",
        "text",
        "hardBreak",
        "text",
    ]
    assert [each["type"] for each in children(children(last)[0])] == ["bulletList"]
    assert [each["type"] for each in children(children(last)[1])] == ["paragraph", "paragraph"]


@pytest.mark.parametrize(
    "source",
    [
        "<table><tr><td><img src=x></td></tr></table>",
        "<table><tr><td>a<!-- b --></td></tr></table>",
        "<table><tr><td><table></table></td></tr></table>",
        "<table><tr><td><b>a</td></tr></table>",
    ],
)
def test_an_html_table_with_anything_else_is_kept_as_its_source(source: str) -> None:
    (raw,) = blocks(source)
    assert raw["attrs"]["parameters"]["source"] == source


def test_emoji_by_their_short_names() -> None:
    found = inline("Hi :smile: at 10:30:20, :no_such_name: **:tada:**")
    assert [each["attrs"]["shortName"] for each in found if each["type"] == "emoji"] == [":smile:", ":tada:"]
    assert found[0] == {"type": "text", "text": "Hi "}
    assert found[2]["text"] == " at 10:30:20, :no_such_name: "


def test_mentions_by_account_id() -> None:
    found = inline("ask @[Ann Lee](accountid:5b10), [@Bo](accountid:6) or [~accountid:77]")
    assert [each["attrs"] for each in found if each["type"] == "mention"] == [
        {"id": "5b10", "text": "@Ann Lee"},
        {"id": "6", "text": "@Bo"},
        {"id": "77"},
    ]


def test_e_mail_addresses_are_links() -> None:
    found = inline("mail ann@example.com, or <bob@x.org>.")
    links = [each for each in found if each.get("marks")]
    assert [each["marks"][0]["attrs"]["href"] for each in links] == [
        "mailto:ann@example.com",
        "mailto:bob@x.org",
    ]
    assert convert(read("mail ann@example.com"), "adf", "markdown").result == "mail <ann@example.com>\n"


@pytest.mark.parametrize(
    "tree",
    [
        doc(paragraph(text(":smile: a@b.co [~accountid:5] x@y @z :tada:"))),
        doc(paragraph(text("@"), text("Ann", mark("link", href="accountid:4")))),
        doc(paragraph(text("@Ann", mark("link", href="accountid:4")))),
        doc(paragraph(text("see "), text("a@b.co", mark("link", href="http://x.y")))),
    ],
)
def test_text_that_only_looks_like_them_stays_text(tree: Node) -> None:
    assert equal(convert(convert(tree, "adf", "markdown").result, "markdown", "adf").result, tree)


def test_an_unknown_mark_on_a_block_survives() -> None:
    code = {
        "type": "codeBlock",
        "content": [text("x")],
        "marks": [{"type": "breakin", "attrs": {"mode": "wide"}}],
    }
    assert equal(convert(convert(doc(code), "adf", "markdown").result, "markdown", "adf").result, doc(code))


def test_a_finding_of_the_reader_says_where_it_is() -> None:
    source = (
        "ok\n\n- a {nothing=1}\n\n<div>\n\n::: layout\nx\n:::\n\n"
        "::: info\n> *word* <kbd>key</kbd> :emoji[x]\n\n- one\n- two **`b`** [c](d){e=f}\n:::\n\n"
        "> text\n>\n> # heading\n"
    )
    found = [(entry.path, entry.kind) for entry in convert(source, "markdown", "adf").report.entries]
    assert found == [
        ("content/1/content/0/content/0", "lost"),
        ("content/2", "kept"),
        ("content/3", "changed"),
        ("content/4/content/0/content/2", "kept"),
        ("content/4/content/0/content/4", "kept"),
        ("content/4/content/0/content/5", "changed"),
        ("content/4/content/0", "changed"),
        ("content/4/content/1/content/1/content/0/content/1", "changed"),
        ("content/4/content/1/content/1/content/0/content/3", "lost"),
        ("content/5/content/1", "changed"),
    ]


def test_a_loss_in_reading_is_an_error_that_says_where() -> None:
    with pytest.raises(ConversionLost, match="content/1/content/1/content/0") as raised:
        convert("a\n\n- b\n- c {nothing=1}\n", "markdown", "adf", strict=True)
    assert raised.value.position.path == "content/1/content/1/content/0"


def test_a_node_that_is_no_json_is_kept_as_text_and_reported() -> None:
    done = convert(':adf[x]{json="{bad"}\n\n```adf\n{bad\n```\n', "markdown", "adf")
    assert [(entry.path, entry.kind) for entry in done.report.entries] == [
        ("content/0/content/0", "changed"),
        ("content/1", "changed"),
    ]
