"""Puts an edit of the simplified form of a node back into the rich node it came from.

Three versions meet: the original, `before` (what the plain reader was shown of it) and `after` (what came
back). Where before and after agree the original stays untouched; where they differ the change is carried
over, word by word in texts and child by child in lists and tables, so that ids, colours, comments and
mentions survive.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, NamedTuple

from mooring.text.merge_cells import merge_cell, merge_row
from mooring.text.merge_shown import AsShown, comparable, merge_other, renewed, with_changes
from mooring.text.report import Path, Report
from mooring.text.simplify import PLAIN_MARKS, Simplifier
from mooring.text.tree import Mark, Node, attributes, children, marks_of, sort_marks

TEXT_BLOCKS = frozenset({"paragraph", "heading", "taskItem", "decisionItem", "caption"})
_CONTAINERS = frozenset(
    {"bulletList", "orderedList", "listItem", "taskList", "blockquote", "panel"}
    | {"table", "tableRow", "tableCell", "tableHeader"}
)
_CELLS = frozenset({"tableCell", "tableHeader"})
_TOKEN = re.compile(r"\w+|\s|[^\w\s]")
_BESIDE_CODE = frozenset({"code", "link", "annotation"})


@dataclass(frozen=True, slots=True)
class Merger:
    simplifier: Simplifier
    report: Report
    edit: AsShown

    def merge(self, original: Node, before: Node, after: Node, path: Path) -> Node:
        if comparable(before) == comparable(after):
            return original
        if original["type"] in TEXT_BLOCKS and after["type"] in TEXT_BLOCKS:
            return self.text_block(original, before, after, path)
        if original["type"] == after["type"] == "codeBlock":
            return _code_block(original, after)
        if original["type"] == "tableRow" == after["type"]:
            made = merge_row(self, original, before, after, path)
        elif original["type"] in _CELLS and after["type"] in _CELLS:
            made = merge_cell(self, original, before, after, path)
        else:
            made = merge_other(self, original, before, after, path)
        if made is not None:
            return made
        same = original["type"] == after["type"] and original["type"] in _CONTAINERS
        if same and len(children(original)) == len(children(before)):
            return self._children(original, before, after, path)
        return self._replaced(original, after, path)

    def _replaced(self, original: Node, after: Node, path: Path) -> Node:
        after = self.edit.as_read(after)
        gone = sorted(_rich(original) - _rich(after))
        for kind in gone:
            self.report.lost(path, f"{kind} could not be put back into the edited `{original['type']}`")
        if not gone:
            self.report.changed(path, f"`{original['type']}` was replaced by the edit")
        return {**after, "type": original["type"]} if original["type"] in _CELLS else after

    def _children(self, original: Node, before: Node, after: Node, path: Path) -> Node:
        """Same kind of container: children that did not change stay, the others are merged in pairs."""
        olds, news = children(before), children(after)
        sources = children(original)
        matcher = SequenceMatcher(
            None, [comparable(each) for each in olds], [comparable(each) for each in news], False
        )
        made: list[Node] = []
        for operation, i1, i2, j1, j2 in matcher.get_opcodes():
            if operation == "equal":
                made += sources[i1:i2]
                continue
            for offset in range(max(i2 - i1, j2 - j1)):
                old, new = i1 + offset, j1 + offset
                if old < i2 and new < j2:
                    made.append(self.merge(sources[old], olds[old], news[new], (*path, "content", old)))
                elif new < j2:
                    made.append(self.edit.as_read(news[new]))
                else:
                    self._gone(sources[old], (*path, "content", old))
        return with_changes({**original, "content": made}, before, after)

    def _gone(self, item: Node, path: Path) -> None:
        self.report.changed(path, f"`{item['type']}` was deleted by the edit")

    # ------------------------------------------------------------ text

    def text_block(self, original: Node, before: Node, after: Node, path: Path) -> Node:
        """The edited text in the original block; what it is changes only if the edit changed it."""
        cells = list(self._cells(children(original), path))
        edited = list(_edited(children(after)))
        content = self._interleave(cells, edited, path)
        made = dict(original)
        made.pop("content", None)
        if content:
            made["content"] = content
        if after["type"] != before["type"] and original["type"] in ("paragraph", "heading"):
            made = _retyped(made, after)
        state = attributes(after).get("state")
        if state and original["type"] == "taskItem":
            made["attrs"] = {**attributes(original), "state": state}
        if after["type"] == original["type"] == "heading":
            made["attrs"] = {**attributes(original), "level": attributes(after)["level"]}
        return made

    def _cells(self, content: list[Node], path: Path) -> "Iterator[_Cell]":
        """Every character the plain reader saw, with the node it stands for."""
        quiet = Simplifier(Report(), self.simplifier.users, self.simplifier.resolve_media)
        for index, item in enumerate(content):
            shown = quiet.atom(item, path)
            words = "".join("\n" if each["type"] == "hardBreak" else each["text"] for each in shown)
            own = item["text"] if item["type"] == "text" else words
            for character, seen in zip(own, words, strict=True):
                yield _Cell(character, item, index, seen)

    def _interleave(self, cells: "list[_Cell]", edited: "list[_Edit]", path: Path) -> list[Node]:
        start, end = _trim(cells)
        olds = _tokens([cell.seen for cell in cells[start:end]])
        news = _tokens([edit.character for edit in edited])
        made = _Pieces(cells)
        for cell in cells[:start]:
            made.keep(cell)
        base, at = start, 0
        for operation, i1, i2, j1, j2 in SequenceMatcher(None, olds, news, False).get_opcodes():
            old_width = sum(len(token) for token in olds[i1:i2])
            new_width = sum(len(token) for token in news[j1:j2])
            shared = _shared_marks(cells[base : base + old_width])
            for offset in range(new_width):
                edit = edited[at + offset]
                if operation == "equal":
                    made.restore(cells[base + offset], edit)
                else:
                    made.insert(edit, shared)
            base, at = base + old_width, at + new_width
        for cell in cells[end:]:
            made.keep(cell)
        for item in made.broken():
            self.report.lost(path, f"`{item['type']}` was changed by the edit and is only text now")
        content = made.nodes()
        for name in sorted(_hidden_marks(cell.item for cell in cells) - _hidden_marks(content)):
            self.report.changed(path, f"mark `{name}` went with the words it was on")
        return content


class _Cell(NamedTuple):
    """A character of the original, and what the reader saw in its place."""

    character: str
    item: Node
    place: int
    seen: str


class _Edit(NamedTuple):
    character: str
    marks: list[Mark]
    node: Node | None


class _Piece(NamedTuple):
    character: str
    marks: list[Mark]
    atom: tuple[int, Node] | None


class _Pieces:
    """The merged line, character by character; atoms count only when all their characters came through."""

    def __init__(self, cells: list[_Cell]) -> None:
        self._pieces: list[_Piece] = []
        self._broken: list[Node] = []
        self._shown: dict[int, str] = {}
        for cell in cells:
            self._shown[cell.place] = self._shown.get(cell.place, "") + cell.character

    def keep(self, cell: _Cell) -> None:
        if cell.item["type"] != "text":
            # The marks of an atom are its own: should only its words be left, they must not get them.
            self._pieces.append(_Piece(cell.character, [], (cell.place, cell.item)))
            return
        self._pieces.append(_Piece(cell.character, marks_of(cell.item), None))

    def restore(self, cell: _Cell, edit: _Edit) -> None:
        if cell.item["type"] != "text":
            self._pieces.append(_Piece(cell.character, edit.marks, (cell.place, cell.item)))
            return
        self._pieces.append(_Piece(cell.character, _merged_marks(marks_of(cell.item), edit.marks), None))

    def insert(self, edit: _Edit, shared: list[Mark]) -> None:
        """A character of the edit; in place of words, it gets what all of them shared."""
        if edit.node is not None:
            self._pieces.append(_Piece(edit.character, edit.marks, (-1 - len(self._pieces), edit.node)))
        else:
            self._pieces.append(_Piece(edit.character, _merged_marks(shared, edit.marks), None))

    def broken(self) -> list[Node]:
        self.nodes()
        return self._broken

    def nodes(self) -> list[Node]:
        made: list[Node] = []
        self._broken = []
        at = 0
        while at < len(self._pieces):
            piece = self._pieces[at]
            if piece.atom is None:
                _append(made, piece.character, piece.marks)
                at += 1
                continue
            end = self._end_of(at)
            self._atom(made, self._pieces[at:end])
            at = end
        return made

    def _end_of(self, at: int) -> int:
        """Where the atom ends that begins here; words put into the middle of one belong to it."""
        atom, last = self._pieces[at].atom, at
        for index in range(at, len(self._pieces)):
            if self._pieces[index].atom == atom:
                last = index
            elif self._pieces[index].atom is not None:
                break
        return last + 1

    def _atom(self, made: list[Node], pieces: list[_Piece]) -> None:
        index, item = pieces[0].atom or (0, {})
        shown = "".join(piece.character for piece in pieces)
        if index < 0 or item["type"] == "hardBreak" or shown == self._shown[index]:
            made.append(item)
            return
        if (new := renewed(item, shown)) is not None:
            made.append(new)
            return
        if not any(each is item for each in self._broken):
            self._broken.append(item)
        for piece in pieces:
            _append(made, piece.character, piece.marks)


def _append(made: list[Node], character: str, marks: list[Mark]) -> None:
    last = made[-1] if made else None
    if last and last["type"] == "text" and marks_of(last) == marks:
        last["text"] += character
    elif marks:
        made.append({"type": "text", "text": character, "marks": marks})
    else:
        made.append({"type": "text", "text": character})


def _shared_marks(cells: list[_Cell]) -> list[Mark]:
    """The marks that all these words have."""
    words = {id(cell.item): cell.item for cell in cells if not cell.seen.isspace()}
    first, *others = [marks_of(item) if item["type"] == "text" else [] for item in words.values()] or [[]]
    return [mark for mark in first if all(mark in marks for marks in others)]


def _hidden_marks(items: Iterable[Node]) -> set[str]:
    """The marks of texts that plain Markdown does not show."""
    return {
        str(mark.get("type"))
        for item in items
        if item["type"] == "text"
        for mark in marks_of(item)
        if mark.get("type") not in PLAIN_MARKS
    }


def _merged_marks(old: list[Mark], new: list[Mark]) -> list[Mark]:
    """The marks plain Markdown can say come from the edit, the others from the original."""
    made = [_richer(mark, old) for mark in new]
    made += [mark for mark in old if mark.get("type") not in PLAIN_MARKS]
    if any(mark["type"] == "code" for mark in made):
        made = [mark for mark in made if mark["type"] in _BESIDE_CODE]
    return sort_marks(made)


def _richer(mark: Mark, old: list[Mark]) -> Mark:
    """A link to the same place keeps the attributes Markdown does not show; its title is shown."""
    for other in old:
        if other.get("type") != mark["type"]:
            continue
        if mark["type"] != "link":
            return other
        if attributes(other).get("href") == attributes(mark).get("href"):
            return with_changes(other, _titled(other), _titled(mark))
    return mark


def _titled(link: Mark) -> Mark:
    title = " ".join(str(attributes(link).get("title") or "").split())
    return {"attrs": {"title": title}} if title else {}


def _edited(content: list[Node]) -> Iterator[_Edit]:
    for item in content:
        if item["type"] == "text":
            for character in item["text"]:
                yield _Edit(character, marks_of(item), None)
        elif item["type"] == "hardBreak":
            yield _Edit("\n", [], item)
        else:
            yield _Edit("\ufffc", [], item)


def _tokens(characters: list[str]) -> list[str]:
    return _TOKEN.findall("".join(characters))


def _trim(cells: list[_Cell]) -> tuple[int, int]:
    """Where the words begin and end: the plain form has no blanks at its ends."""
    start, end = 0, len(cells)
    while start < end and cells[start].character.isspace() and not _is_code(cells[start]):
        start += 1
    while end > start and cells[end - 1].character.isspace() and not _is_code(cells[end - 1]):
        end -= 1
    return start, end


def _is_code(cell: _Cell) -> bool:
    return any(mark.get("type") == "code" for mark in marks_of(cell.item))


def _code_block(original: Node, after: Node) -> Node:
    attrs = {name: value for name, value in attributes(original).items() if name != "language"}
    attrs.update(attributes(after))
    made = {key: value for key, value in original.items() if key not in ("attrs", "content")}
    content = {"content": after["content"]} if "content" in after else {}
    return {**made, **({"attrs": attrs} if attrs else {}), **content}


def _retyped(made: Node, after: Node) -> Node:
    """A paragraph that became a heading, or the other way round, keeps its id."""
    attrs: dict[str, Any] = {name: value for name, value in attributes(made).items() if name == "localId"}
    attrs.update(attributes(after))
    made = {key: value for key, value in made.items() if key not in ("attrs", "type")}
    return {"type": after["type"], **({"attrs": attrs} if attrs else {}), **made}


_SHOWN_IN_CELLS = frozenset(
    {"paragraph", "text", "hardBreak", "tableRow", "tableCell", "tableHeader", "table"}
)
_SHOWN = _SHOWN_IN_CELLS | {
    "heading", "listItem", "bulletList", "orderedList", "codeBlock", "rule", "blockquote", "taskList",
    "taskItem",
}  # fmt: skip


def _rich(item: Node) -> set[str]:
    """The kinds of nodes and marks in here that plain Markdown has no form for; in a cell those are many."""
    plain = _SHOWN_IN_CELLS if item["type"] in ("table", "tableRow", *_CELLS) else _SHOWN
    found: set[str] = set()
    pending = [item]
    while pending:
        current = pending.pop()
        if current["type"] not in plain:
            found.add(f"`{current['type']}`")
        found |= {f"mark `{mark.get('type')}`" for mark in marks_of(current)} - {
            f"mark `{each}`" for each in PLAIN_MARKS
        }
        pending += children(current)
    return found
