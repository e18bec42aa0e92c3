"""Patching the JSON text of an ADF document: only the bytes of the target change."""

from dataclasses import dataclass
from typing import Any, Literal

from mooring.text import fit
from mooring.text.errors import PatchRefused
from mooring.text.json_spans import Located, locate_nodes
from mooring.text.outline import AdfSection, Target, adf_sections, by_heading, choose, require_unchanged
from mooring.text.report import Report
from mooring.text.tree import TEXT_BLOCKS, Node, attributes, compact_json, marks_of, plain_text


@dataclass(frozen=True, slots=True)
class _Place:
    """A run of siblings: it begins at `head`, `replace` replaces `start:stop`, `end` is its end.

    For a block head, start and stop are around the block itself; for a section the heading is not replaced.
    """

    parent: Located
    head: int
    start: int
    stop: int
    end: int
    section: AdfSection | None = None

    @property
    def block(self) -> Located:
        return self.parent.content[self.head]


class AdfPatch:
    def __init__(self, text: str, report: Report) -> None:
        self._text = text
        self._report = report
        self._document = locate_nodes(text)

    def replace(self, target: Target, nodes: list[Node]) -> str:
        place = self._place(target)
        if place.section and nodes and _same_heading(nodes[0], place.block.node):
            nodes = nodes[1:]
        return self._splice(place.parent, place.start, place.stop, nodes)

    def append(self, target: Target, nodes: list[Node]) -> str:
        place = self._place(target)
        if place.section is None:
            inside = self._container(place)
            return self._splice(inside, len(inside.content), len(inside.content), nodes)
        return self._splice(place.parent, place.stop, place.stop, nodes)

    def prepend(self, target: Target, nodes: list[Node]) -> str:
        place = self._place(target)
        if place.section is None:
            return self._splice(self._container(place), 0, 0, nodes)
        return self._splice(place.parent, place.start, place.start, nodes)

    def insert_before(self, target: Target, nodes: list[Node]) -> str:
        place = self._place(target)
        return self._splice(place.parent, place.head, place.head, nodes)

    def insert_after(self, target: Target, nodes: list[Node]) -> str:
        place = self._place(target)
        return self._splice(place.parent, place.end, place.end, nodes)

    def delete(self, target: Target) -> str:
        place = self._place(target)
        if place.stop - place.head == len(place.parent.content) and place.parent.node.get("type") != "doc":
            return self._splice(place.parent, place.head, place.stop, [{"type": "paragraph"}])
        return self._splice(place.parent, place.head, place.stop, [])

    def move(self, target: Target, destination: Target, side: Literal["before", "after"]) -> str:
        place = self._place(target)
        end = place.end if place.section else place.stop
        moved = self._text[place.parent.content[place.head].start : place.parent.content[end - 1].end]
        goal = self._place(destination)
        if goal.parent is place.parent and place.head <= goal.head < end:
            raise PatchRefused(f"{target} cannot be moved into itself")
        if goal.parent.start >= place.block.start and goal.parent.end <= place.parent.content[end - 1].end:
            raise PatchRefused(f"{target} cannot be moved into itself")
        where = goal.head if side == "before" else goal.end
        removed = self._edit(place.parent, place.head, end, "")
        added = self._edit(goal.parent, where, where, moved)
        return _applied(self._text, [removed, added])

    def set_attrs(self, target: Target, attrs: dict[str, Any]) -> str:
        block = self._place(target).block
        merged = {
            name: value for name, value in {**attributes(block.node), **attrs}.items() if value is not None
        }
        if block.attrs:
            start, end = block.attrs
            return self._text[:start] + compact_json(merged) + self._text[end:]
        at = block.end - 1
        return f'{self._text[:at]},"attrs":{compact_json(merged)}{self._text[at:]}'

    def find_replace(self, target: Target, find: str, replacement: str, count: int) -> str:
        """Words inside the texts of the target (the whole document when the target is empty)."""
        if not find:
            raise PatchRefused("`find_replace` needs the words to `find`")
        nodes = self._texts(target)
        found = sum(str(each.node["text"]).count(find) for each in nodes)
        if found != count:
            raise PatchRefused(
                f"`{find}` occurs {found} times, not {count}; give the right `count` or a smaller target"
            )
        edits = [
            (*each.text, compact_json(str(each.node["text"]).replace(find, replacement)))
            for each in nodes
            if each.text and find in each.node["text"]
        ]
        if not replacement and any(each.node["text"] == find for each in nodes):
            raise PatchRefused(f"a text cannot be empty; delete the block that says `{find}` instead")
        return _applied(self._text, edits)

    # ------------------------------------------------------------ finding

    def _place(self, target: Target) -> _Place:
        place = self._found(target)
        require_unchanged(self._text[place.block.start : place.parent.content[place.end - 1].end], target)
        return place

    def _found(self, target: Target) -> _Place:
        sections = adf_sections(self._document)
        if target.text is not None:
            return choose_block(_blocks(self._document, text=target.text), target)
        if target.ref is not None:
            matching = [each for each in sections if each.ref == target.ref]
            if not matching:
                blocks = _blocks(self._document, ref=target.ref)
                if blocks:
                    return choose_block(blocks, target)
            return _section_place(choose(matching, sections, target), target)
        return _section_place(choose(by_heading(sections, target.heading), sections, target), target)

    def _texts(self, target: Target) -> list[Located]:
        if not target.heading and target.ref is None and target.text is None:
            roots = [self._document]
        else:
            place = self._place(target)
            roots = place.parent.content[place.head : place.stop]
        made: list[Located] = []
        while roots:
            current = roots.pop(0)
            if current.node.get("type") == "text":
                made.append(current)
            roots = current.content + roots
        return made

    def _container(self, place: _Place) -> Located:
        block = place.block
        if block.content_start is None or block.node.get("type") in TEXT_BLOCKS:
            raise PatchRefused(f"`{block.node.get('type')}` holds no blocks; use `insert_after` or `replace`")
        return block

    # ------------------------------------------------------------ cutting

    def _splice(self, parent: Located, start: int, stop: int, nodes: list[Node]) -> str:
        kind = str(parent.node.get("type"))
        fitting = [each for node in nodes for each in fit.fit(node, kind, self._report)]
        written = self._separator(parent).join(compact_json(node) for node in fitting)
        return _applied(self._text, [self._edit(parent, start, stop, written)])

    def _edit(self, parent: Located, start: int, stop: int, written: str) -> tuple[int, int, str]:
        """The stretch of text to replace so that `written` stands for the siblings `start:stop`."""
        content = parent.content
        if stop > start and written:
            return content[start].start, content[stop - 1].end, written
        if stop > start:
            if stop < len(content):
                return content[start].start, content[stop].start, ""
            first = content[start - 1].end if start else content[start].start
            return first, content[stop - 1].end, ""
        if not written:
            return parent.start, parent.start, ""
        if start < len(content):
            at = content[start].start
            return at, at, written + self._separator(parent)
        if content:
            return content[-1].end, content[-1].end, self._separator(parent) + written
        if parent.content_start is None:
            raise PatchRefused(f"`{parent.node.get('type')}` has no content to put something into")
        return parent.content_start, parent.content_start, written

    def _separator(self, parent: Located) -> str:
        """What stands between siblings here, so that an indented document stays indented."""
        content = parent.content
        return self._text[content[0].end : content[1].start] if len(content) > 1 else ","


def _applied(text: str, edits: list[tuple[int, int, str]]) -> str:
    for start, end, written in sorted(edits, key=lambda edit: (edit[0], edit[1]), reverse=True):
        text = text[:start] + written + text[end:]
    return text


def _section_place(section: AdfSection, target: Target) -> _Place:
    stop = section.end if target.scope == "subtree" else section.body_end
    return _Place(section.parent, section.heading, section.heading + 1, stop, section.end, section)


def _blocks(
    document: Located, *, ref: str | None = None, text: str | None = None
) -> list[tuple[Located, int]]:
    """The blocks with this id, or the innermost ones with exactly these words."""
    made: list[tuple[Located, int]] = []
    pending = [document]
    while pending:
        parent = pending.pop()
        for index, child in enumerate(parent.content):
            if child.node.get("type") == "text":
                continue
            if ref is not None and attributes(child.node).get("localId") == ref:
                made.append((parent, index))
            if text is not None and child.node.get("type") in TEXT_BLOCKS and plain_text(child.node) == text:
                made.append((parent, index))
            pending.append(child)
    return sorted(made, key=lambda each: each[0].content[each[1]].start)


def choose_block(blocks: list[tuple[Located, int]], target: Target) -> _Place:
    if target.occurrence is not None and 1 <= target.occurrence <= len(blocks):
        blocks = [blocks[target.occurrence - 1]]
    if len(blocks) != 1:
        found = "nothing matches" if not blocks else f"{len(blocks)} blocks match"
        raise PatchRefused(
            f"{found} {target}; read the document again and give a `ref` or an `occurrence` from 1"
        )
    parent, index = blocks[0]
    return _Place(parent, index, index, index + 1, index + 1)


def _same_heading(new: Node, old: Node) -> bool:
    """Writers often repeat the heading whose body they replace."""
    return (
        new.get("type") == "heading"
        and plain_text(new).split() == plain_text(old).split()
        and attributes(new).get("level") == attributes(old).get("level")
        and not marks_of(new)
    )
