"""What became of a node on its way out and back, said the way a report says it."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from mooring.text.report import Kind, Path, Report, format_path
from mooring.text.tree import INLINE_TYPES, Node, attributes, canonical, children, marks_of, plain_text, walk

Finding = tuple[Path, Kind, str]
_WORD = re.compile(r"\w+")


def report_differences(
    before: Node, after: list[Node], path: Path, report: Report, named: set[str] | None = None
) -> None:
    """Report how the node at `path` came back, except at places that are `named` already."""
    for where, kind, detail in _between(canonical(before), [canonical(each) for each in after], path):
        if not named or format_path(where) not in named:
            getattr(report, kind)(where, detail)


def _between(before: Node, after: list[Node], path: Path) -> Iterator[Finding]:
    if len(after) == 1 and after[0].get("type") == before["type"]:
        yield from _within(before, after[0], path)
        return
    found = ", ".join(f"`{each.get('type')}`" for each in after) or "nothing"
    yield path, _Shown(after).kind_of(before), f"`{before['type']}` comes back as {found}"


def _within(before: Node, after: Node, path: Path) -> Iterator[Finding]:
    """Two nodes of one type."""
    kind = before["type"]
    yield from _attributes(kind, attributes(before), attributes(after), path)
    yield from _marks(kind, marks_of(before), marks_of(after), path)
    if before.get("text") != after.get("text"):
        yield path, _Shown([after]).kind_of(before), f"the words of this `{kind}` come back differently"
    if kind != "text" and before.keys() - after.keys() - {"attrs", "marks", "content", "text"}:
        yield path, "lost", f"`{kind}` comes back without keys that nobody knows"
    held, back = children(before), children(after)
    if [child.get("type") for child in held] == [child.get("type") for child in back]:
        for at, (child, other) in enumerate(zip(held, back, strict=True)):
            yield from _within(child, other, (*path, "content", at))
    elif all(child.get("type") in INLINE_TYPES for child in held):
        yield path, _Shown([after]).kind_of(before), f"the content of this `{kind}` comes back differently"
    else:
        yield from _aligned(kind, held, back, path)


def _aligned(kind: str, held: list[Node], back: list[Node], path: Path) -> Iterator[Finding]:
    """Children that are not one to one: those that did not come back are named."""
    left, shown = Counter(map(_frozen, back)), _Shown(back)
    if left == Counter(map(_frozen, held)):
        yield path, "changed", f"the content of `{kind}` comes back in another order"
        return
    for at, child in enumerate(held):
        if left[_frozen(child)]:
            left[_frozen(child)] -= 1
        else:
            yield (
                (*path, "content", at),
                shown.kind_of(child),
                f"`{child.get('type')}` in `{kind}` comes back differently",
            )
    if left.total():
        yield path, "changed", f"`{kind}` comes back with other content"


def _attributes(kind: str, before: dict[str, Any], after: dict[str, Any], path: Path) -> Iterator[Finding]:
    gone = [name for name in before if name not in after or before[name] != after[name]]
    if gone:
        yield path, "lost", f"{_names(gone)} of `{kind}` cannot be said"
    added = [name for name in after if name not in before]
    if added:
        yield path, "changed", f"`{kind}` comes back with {_names(added)}, which it did not have"


def _marks(kind: str, before: list[Node], after: list[Node], path: Path) -> Iterator[Finding]:
    gone = [str(mark.get("type")) for mark in before if mark not in after]
    if gone:
        yield path, "lost", f"{_names(gone)} of this `{kind}` cannot be said"
    added = [str(mark.get("type")) for mark in after if mark not in before]
    if added and not gone:
        yield path, "changed", f"`{kind}` comes back with {_names(added)}, which it did not have"


class _Shown:
    """The words and marks that came back."""

    def __init__(self, nodes: list[Node]) -> None:
        self._words = Counter(word for item in nodes for word in _words(item))
        self._marks = {mark for item in nodes for mark in _mark_types(item)}

    def kind_of(self, before: Node) -> Kind:
        """Lost when words or marks are missing, changed when they only stand otherwise."""
        missing = Counter(_words(before)) - self._words
        return "lost" if missing or _mark_types(before) - self._marks else "changed"


def _words(item: Node) -> list[str]:
    return _WORD.findall(plain_text(item))


def _mark_types(item: Node) -> set[str]:
    return {str(mark.get("type")) for _, each in walk(item) for mark in marks_of(each)}


def _names(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _frozen(item: Node) -> str:
    return repr(sorted(item.items(), key=lambda pair: pair[0]))
