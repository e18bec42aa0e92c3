"""Small pieces of ADF that the wiki reader builds: marks on text, paragraphs out of inline runs."""

from collections.abc import Iterable
from typing import Any, Final

from mooring.text.tree import INLINE_TYPES, Mark, Node, children, marks_of, walk

# The key under which a node carries what reading it could not keep; no JSON has such a key.
NOTES: Final[Any] = object()


class InlineNode(dict[str, Any]):
    """A node of a type nobody knows that its author called inline."""


class SealedNode(dict[str, Any]):
    """A node that was given whole, as JSON: it does not melt into its neighbours."""


def is_block(node: Node) -> bool:
    return node["type"] not in INLINE_TYPES and not isinstance(node, InlineNode)


def unsealed(node: Node) -> Node:
    """The node as plain dictionaries, without notes."""
    if node.__class__ is not dict:
        return dict(node)
    if NOTES in node:
        node = {key: value for key, value in node.items() if key is not NOTES}
    if "content" in node:
        return {**node, "content": [unsealed(child) for child in node["content"]]}
    return node


def text_node(value: str, *marks: Mark) -> Node:
    return {"type": "text", "text": value, "marks": list(marks)} if marks else {"type": "text", "text": value}


def has_mark(node: Node, *names: str) -> bool:
    return any(mark.get("type") in names for mark in marks_of(node))


def with_mark(node: Node, mark: Mark) -> Node:
    """The text with one mark more, unless it has it already or is code."""
    if node["type"] != "text" or has_mark(node, mark["type"], "code"):
        return node
    return {**node, "marks": [*marks_of(node), mark]}


def block(name: str, content: Iterable[Node] = (), /, **attributes: Any) -> Node:
    node: Node = {"type": name}
    if attributes:
        node["attrs"] = attributes
    held = list(content)
    if held:
        node["content"] = held
    return node


def bold_paragraph(value: str) -> Node:
    return block("paragraph", [text_node(value, {"type": "strong"})])


def as_blocks(nodes: list[Node]) -> list[Node]:
    """Neighbouring attachments become one group, inline runs become paragraphs; never empty."""
    output: list[Node] = []
    run: list[Node] = []
    for node in _with_merged_groups(nodes):
        if is_block(node):
            _close_run(run, output)
            output.append(node)
        else:
            run.append(node)
    _close_run(run, output)
    return output or [block("paragraph")]


def _close_run(run: list[Node], output: list[Node]) -> None:
    if any(node["type"] != "hardBreak" for node in run):
        output.append(block("paragraph", run))
    run.clear()


def _with_merged_groups(nodes: list[Node]) -> list[Node]:
    if not any(node["type"] == "mediaGroup" for node in nodes):
        return nodes
    output: list[Node] = []
    files: list[Node] = []
    between: list[Node] = []
    for node in nodes:
        if node["type"] == "mediaGroup" and len(children(node)) == 1 and not isinstance(node, SealedNode):
            files.append(children(node)[0])
            between = []
        elif not files:
            output.append(node)
        elif _separates(node, between):
            output += [block("mediaGroup", files), *between, node]
            files, between = [], []
        else:
            between.append(node)
    if files:
        output.append(block("mediaGroup", files))
    return output + between


def _separates(node: Node, between: list[Node]) -> bool:
    if node["type"] == "hardBreak":
        return any(other["type"] == "hardBreak" for other in between)
    return node["type"] == "mediaGroup" or bool(_text_below(node).strip())


def _text_below(node: Node) -> str:
    return "".join(current["text"] for _, current in walk(node) if current["type"] == "text")
