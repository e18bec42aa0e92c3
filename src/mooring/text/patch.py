"""Patch: change one part of a stored document and leave every other byte as it is.

A part is a section (by heading path or ref), a block (by id or by its exact text) or words. A target that is
missing or ambiguous is refused with the candidates, never guessed; a section ends where its container ends;
subsections stay unless the scope says `subtree`.
"""

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from mooring.text import formats
from mooring.text.errors import PatchRefused
from mooring.text.markdown import write as write_markdown
from mooring.text.outline import Entry, Target, outline
from mooring.text.patch_adf import AdfPatch
from mooring.text.patch_text import TextPatch
from mooring.text.report import Report
from mooring.text.sidecar import media_ids
from mooring.text.tree import Node, children, compact_json

__all__ = ["Entry", "Operation", "Patched", "Target", "outline", "patch"]

Kind = Literal[
    "replace", "append", "prepend", "insert_before", "insert_after", "delete", "move", "set_attrs",
    "find_replace",
]  # fmt: skip
_NEEDS_CONTENT = frozenset({"replace", "append", "prepend", "insert_before", "insert_after"})
# What models write instead of the text they did not want to repeat.
_TRUNCATION = re.compile(
    r"^\W*(?:\.\.\.|…|\[)\s*(?:\w+\s+){0,4}"
    r"(?:unchanged|existing content|same as before|rest of (?:the )?\w+|truncated|omitted)\b.*$",
    re.IGNORECASE | re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Operation:
    """One change. `content` is text in `content_format`, or nodes."""

    kind: Kind
    target: Target
    content: str | list[Node] | None = None
    content_format: str = "markdown"
    # For `move`: where to, and on which side of it.
    destination: Target | None = None
    side: Literal["before", "after"] = "after"
    # For `set_attrs`.
    attrs: dict[str, Any] | None = None
    # For `find_replace`: the words, what to write instead, and how often they must occur.
    find: str = ""
    replacement: str = ""
    count: int = 1


@dataclass(frozen=True, slots=True)
class Patched:
    """The new text (or document), what happened, and the change as a diff of Markdown."""

    result: Any
    report: Report
    before: Node
    after: Node

    @property
    def diff(self) -> str:
        old, new = (
            write_markdown(each, Report()).splitlines(keepends=True) for each in (self.before, self.after)
        )
        return "".join(difflib.unified_diff(old, new, "before", "after"))


def patch(
    source: Any,
    source_format: str,
    operations: Sequence[Operation],
    *,
    strict: bool = False,
    allow_media_loss: bool = False,
) -> Patched:
    """Apply the operations in order. `source` is text, or for ADF also the parsed document."""
    report = Report(strict=strict)
    parsed = source_format == "adf" and not isinstance(source, str | bytes)
    text = compact_json(source) if parsed else source.decode() if isinstance(source, bytes) else str(source)
    read = formats.reader(source_format)
    before = read(text, Report())
    for operation in operations:
        text = _apply(text, source_format, operation, report)
    after = read(text, Report())
    if not allow_media_loss:
        _require_media(before, after)
    return Patched(after if parsed else text, report, before, after)


def _apply(text: str, source_format: str, operation: Operation, report: Report) -> str:
    nodes = _content(operation, report)
    patcher = AdfPatch(text, report) if source_format == "adf" else TextPatch(text, source_format, report)
    target = operation.target
    match operation.kind:
        case "replace":
            return patcher.replace(target, nodes)
        case "append":
            return patcher.append(target, nodes)
        case "prepend":
            return patcher.prepend(target, nodes)
        case "insert_before":
            return patcher.insert_before(target, nodes)
        case "insert_after":
            return patcher.insert_after(target, nodes)
        case "delete":
            return patcher.delete(target)
        case "move":
            return patcher.move(target, _destination(operation), operation.side)
        case "set_attrs":
            return patcher.set_attrs(target, operation.attrs or {})
        case _:
            return patcher.find_replace(target, operation.find, operation.replacement, operation.count)


def _destination(operation: Operation) -> Target:
    if operation.destination is None:
        raise PatchRefused("`move` needs a `destination`")
    return replace(operation.destination, expected_sha=operation.destination.expected_sha)


def _content(operation: Operation, report: Report) -> list[Node]:
    if operation.kind not in _NEEDS_CONTENT:
        return []
    content = operation.content
    if content is None:
        raise PatchRefused(f"`{operation.kind}` needs `content`; to remove something use `delete`")
    if not isinstance(content, str):
        return content
    found = _TRUNCATION.search(content)
    if found:
        raise PatchRefused(
            f"the content says `{found[0].strip()}` instead of the text; "
            "send all of it, or patch a smaller part"
        )
    return children(formats.reader(operation.content_format)(content, report))


def _require_media(before: Node, after: Node) -> None:
    left = media_ids(after)
    gone = [each for each in dict.fromkeys(media_ids(before)) if each not in left]
    if gone:
        names = ", ".join(f"`{each}`" for each in gone)
        raise PatchRefused(f"the patch drops media {names}; keep them, or pass `allow_media_loss`")
