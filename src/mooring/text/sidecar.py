"""Preserve and restore: show a document as Markdown, take the edited Markdown back, lose nothing in silence.

Rendering is deterministic, so the sidecar is the document it was made from: the reader only carries a small
snapshot that proves which one. On the way back, blocks whose Markdown did not change get their original
nodes; changed blocks are merged into them; what could not be put back is reported, and an edit that would
drop an attachment is refused.
"""

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from difflib import SequenceMatcher
from typing import Any

from mooring.text import fit
from mooring.text.errors import PatchRefused
from mooring.text.markdown.checked import write_blocks
from mooring.text.markdown.plain import PlainWriter
from mooring.text.markdown.reader import SourceBlock, read_blocks
from mooring.text.merge import Merger
from mooring.text.merge_shown import AsShown
from mooring.text.report import Path, Report
from mooring.text.simplify import Simplifier, Unit
from mooring.text.tree import Node, attributes, canonical, children, compact_json, plain_text, walk

_MEDIA = frozenset({"media", "mediaInline"})
# Less alike than this and two blocks are not versions of each other.
_LIKENESS = 0.3
# How many blocks further on a version of an edited block is looked for.
_LOOKED_AT = 20


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Which document, shown how: enough to refuse an edit of something else."""

    adf_sha256: str
    markdown_sha256: str
    dialect: str
    version: str | None = None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Rendering:
    markdown: str
    snapshot: Snapshot
    report: Report


@dataclass(frozen=True, slots=True)
class Restored:
    document: Node
    report: Report


@dataclass(frozen=True, slots=True)
class Sidecar:
    """How documents are shown; the same values must be used on both ways."""

    dialect: str = "plain"
    users: Mapping[str, str] = field(default_factory=dict[str, str])
    resolve_media: Callable[[Node], str | None] | None = None

    def render(self, document: Node, *, version: str | None = None) -> Rendering:
        report = Report()
        markdown = _joined(shown for _, shown in self._shown(document, report))
        snapshot = Snapshot(digest(compact_json(document)), digest(markdown), self.dialect, version)
        return Rendering(markdown, snapshot, report)

    def restore(
        self,
        markdown: str,
        document: Node,
        snapshot: Snapshot | None = None,
        *,
        strict: bool = False,
        allow_media_loss: bool = False,
    ) -> Restored:
        """The document with the edit in it; `document` is the version the Markdown was rendered from."""
        report = Report(strict=strict)
        shown = self._shown(document, Report())
        base = _joined(text for _, text in shown)
        if snapshot is not None and snapshot.adf_sha256 != digest(compact_json(document)):
            raise PatchRefused(
                "this Markdown was made from another version; read the document again and redo the edit"
            )
        if markdown == base:
            return Restored(document, report)
        found = Report()
        made = _Restoring(self, document, shown, report).run(read_blocks(markdown, found), markdown, found)
        report.settle(walk(made))
        if not allow_media_loss:
            _require_media(document, made)
        return Restored(made, report)

    def simplifier(self, report: Report) -> Simplifier:
        return Simplifier(report, self.users, self.resolve_media)

    def _shown(self, document: Node, report: Report) -> list[tuple[Unit, str]]:
        """Every unit of the document with its Markdown."""
        if self.dialect == "extended":
            units = [Unit(("content", index), item, item) for index, item in enumerate(children(document))]
            blocks = children(canonical(document))
            return list(zip(units, write_blocks(blocks, report, self.users), strict=True))
        units = self.simplifier(report).units(document)
        return list(zip(units, PlainWriter().parts([unit.node for unit in units], "doc"), strict=True))


def digest(value: str) -> str:
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()


def _joined(blocks: Iterator[str]) -> str:
    made = "\n\n".join(blocks)
    return made + "\n" if made else ""


def media_ids(document: Node) -> list[str]:
    """What each media node points to; two nodes of one file count twice."""
    return [
        str(attributes(item).get("id") or attributes(item).get("url"))
        for _, item in walk(document)
        if item.get("type") in _MEDIA
    ]


def _require_media(before: Node, after: Node) -> None:
    left = media_ids(after)
    gone = [each for each in dict.fromkeys(media_ids(before)) if each not in left]
    if gone:
        names = ", ".join(f"`{each}`" for each in gone)
        raise PatchRefused(
            f"the edit drops media {names}, and products delete files nobody refers to; "
            "put the image back, or pass `allow_media_loss` to drop it"
        )


class _Restoring:
    """One edit on its way back into one document."""

    def __init__(
        self, sidecar: Sidecar, document: Node, shown: list[tuple[Unit, str]], report: Report
    ) -> None:
        self._document = document
        self._units = [unit for unit, _ in shown]
        self._texts = [text for _, text in shown]
        self._report = report
        self._sidecar = sidecar
        # Path of a unit -> what stands there now; path -> what follows it.
        self._replaced: dict[Path, list[Node]] = {}
        self._following: dict[Path, list[Node]] = {}
        self._titles: dict[Path, str] = {}
        self._leading: list[Node] = []
        # Number of an edited block -> number of the unit that it is, in another place; and those units.
        self._moved: dict[int, int] = {}
        self._elsewhere: set[int] = set()

    def run(self, blocks: list[SourceBlock], markdown: str, found: Report) -> Node:
        """The document with the changed ones of these blocks; `found` is what reading all of them found."""
        lines = markdown.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        sources = ["\n".join(lines[block.start_line : block.end_line]).strip("\n") for block in blocks]
        changes = [each for each in _opcodes(self._texts, sources) if each[0] != "equal"]
        self._find_moved(changes, sources)
        for _, i1, i2, j1, j2 in changes:
            near = self._units[min(i1, len(self._units) - 1)].path if self._units else ()
            self._report.take(found, [each for block in blocks[j1:j2] for each in block.findings], near)
            self._changed(range(i1, i2), range(j1, j2), blocks, sources)
        return self._rebuilt(self._document, (), self._leading)

    def _find_moved(self, changes: list[tuple[str, int, int, int, int]], sources: list[str]) -> None:
        """A block that is gone here and stands there, word by word, was moved."""
        gone: dict[str, list[int]] = {}
        for _, i1, i2, _, _ in changes:
            for index in range(i1, i2):
                if not self._units[index].title:
                    gone.setdefault(self._texts[index], []).append(index)
        for _, _, _, j1, j2 in changes:
            for number in range(j1, j2):
                if gone.get(sources[number]):
                    self._moved[number] = gone[sources[number]].pop(0)
        self._elsewhere = set(self._moved.values())

    def _changed(self, units: range, numbers: range, blocks: list[SourceBlock], sources: list[str]) -> None:
        """Pair the edited blocks with the units they replace; the rest was deleted or is new."""
        at, end = units.start, units.stop
        anchor = at - 1
        staying = [index for index in units if index not in self._elsewhere]
        same_count = len(staying) == sum(number not in self._moved for number in numbers)
        for number in numbers:
            block, source = blocks[number], sources[number]
            if number in self._moved:
                self._insert(anchor, [dict(self._units[self._moved[number]].original)])
                continue
            first = bisect_left(staying, at)
            partner = self._partner(staying[first : first + _LOOKED_AT], source, same_count)
            if partner is None:
                self._insert(anchor, block.nodes)
                continue
            for skipped in range(at, partner):
                self._delete(skipped)
            self._replace(partner, block.nodes)
            at, anchor = partner + 1, partner
        for left in range(at, end):
            self._delete(left)

    def _partner(self, candidates: list[int], source: str, same_count: bool) -> int | None:
        if candidates and same_count:
            return candidates[0]
        best, likeness = None, _LIKENESS
        for index in candidates:
            ratio = SequenceMatcher(None, self._texts[index].split(), source.split(), False).ratio()
            if ratio > likeness:
                best, likeness = index, ratio
        return best

    def _replace(self, index: int, nodes: list[Node]) -> None:
        unit = self._units[index]
        if unit.title:
            self._titles[unit.path] = " ".join(plain_text(each).strip() for each in nodes)
            return
        if not nodes:
            self._delete(index)
            return
        first = (
            self._merged(unit, self._texts[index], nodes[0]) if self._sidecar.dialect == "plain" else nodes[0]
        )
        self._replaced[unit.path] = [first, *nodes[1:]]

    def _merged(self, unit: Unit, unedited: str, after: Node) -> Node:
        """The edit in the original node; the edit alone when the merged node would not say the same."""
        attempt, edit = Report(), AsShown()
        read = [node for block in read_blocks(unedited, Report()) for node in block.nodes]
        edited = edit.node(unit.node, read[0], after) if len(read) == 1 else after
        made = Merger(self._sidecar.simplifier(attempt), attempt, edit).merge(
            unit.original, unit.node, edited, unit.path
        )
        shown = self._sidecar.simplifier(Report()).block(made, unit.path)
        if shown is not None and plain_text(shown).split() == plain_text(after).split():
            for entry in attempt.entries:
                (self._report.lost if entry.kind == "lost" else self._report.changed)(
                    entry.path, entry.detail
                )
            return made
        self._report.lost(unit.path, f"`{unit.original['type']}` could not be merged; the edit replaced it")
        return after

    def _delete(self, index: int) -> None:
        unit = self._units[index]
        if unit.title:
            self._titles[unit.path] = ""
        else:
            self._replaced[unit.path] = []
        what = "moved" if index in self._elsewhere else "deleted"
        self._report.changed(unit.path, f"`{unit.original['type']}` was {what} by the edit")

    def _insert(self, anchor: int, nodes: list[Node]) -> None:
        if anchor < 0:
            self._leading += nodes
            return
        unit = self._units[anchor]
        path = (*unit.path, "content", -1) if unit.title else unit.path
        self._following.setdefault(path, []).extend(nodes)

    def _rebuilt(self, item: Node, path: Path, leading: list[Node]) -> Node:
        """The node with all edits below it; the very same object when there are none."""
        content = children(item)
        made = self._fitted([*leading, *self._following.get((*path, "content", -1), [])], item)
        same = not made
        for index, child in enumerate(content):
            here = (*path, "content", index)
            if here in self._replaced:
                made += self._fitted(self._replaced[here], item)
                same = False
            else:
                below = self._rebuilt(child, here, []) if self._touches(here) else child
                same = same and below is child
                made += [] if below is not child and _is_empty(below) else [below]
            added = self._fitted(self._following.get(here, []), item)
            made += added
            same = same and not added
        if path in self._titles:
            item = {**item, "attrs": {**attributes(item), "title": self._titles[path]}}
        return item if same else {**item, "content": made or _filler(item)}

    def _fitted(self, nodes: list[Node], parent: Node) -> list[Node]:
        return [each for node in nodes for each in fit.fit(node, parent["type"], self._report)]

    def _touches(self, path: Path) -> bool:
        if not hasattr(self, "_touched"):
            self._touched = {
                edited[:length]
                for edited in [*self._replaced, *self._following, *self._titles]
                for length in range(0, len(edited) + 1, 2)
            }
        return path in self._touched


def _is_empty(item: Node) -> bool:
    return item["type"] in ("expand", "nestedExpand", "bodiedExtension", "layoutSection") and not children(
        item
    )


def _filler(item: Node) -> list[Node]:
    """A column, and what still has a title, must hold something even when everything in it was deleted."""
    must = item["type"] in ("layoutColumn", "bodiedSyncBlock") or attributes(item).get("title")
    return [{"type": "paragraph"}] if must else []


def _opcodes(old: list[str], new: list[str]) -> Iterator[tuple[str, int, int, int, int]]:
    """As difflib, after cutting off what is equal at both ends: edits are small, documents are not."""
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    matcher = SequenceMatcher(None, old[start : len(old) - end], new[start : len(new) - end], False)
    for operation, i1, i2, j1, j2 in matcher.get_opcodes():
        yield operation, i1 + start, i2 + start, j1 + start, j2 + start
