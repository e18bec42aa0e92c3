"""What a conversion did to each part of a document: kept, escaped, changed or lost."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from mooring.text.errors import ConversionLost, Position

Kind = Literal["kept", "escaped", "changed", "lost"]
Path = tuple[int | str, ...]
# Where a finding is: the path itself, or the node, whose path a reader knows only when the tree is done.
Place = Path | str | dict[str, Any]


@dataclass(frozen=True, slots=True)
class Entry:
    """One finding: `path` leads from the document to the node, as in `content/3/content/0`."""

    path: str
    kind: Kind
    detail: str

    def as_json(self) -> dict[str, str]:
        return {"path": self.path, "kind": self.kind, "detail": self.detail}


def _no_entries() -> list[Entry]:
    return []


def _no_subjects() -> dict[int, dict[str, Any]]:
    return {}


@dataclass(slots=True)
class Report:
    """Collects findings in document order; with `strict` the first loss is an error.

    - kept: a foreign or unknown thing rides through untouched
    - escaped: it is in the output, but in a form only a machine reads
    - changed: the meaning is there, the structure is not the same
    - lost: it is not in the output

    A finding about a node gets its path from `settle`, and only then is a loss an error.
    """

    strict: bool = False
    entries: list[Entry] = field(default_factory=_no_entries)
    # Number of a finding -> the node it is about.
    _subjects: dict[int, dict[str, Any]] = field(default_factory=_no_subjects)

    def kept(self, path: Place, detail: str) -> None:
        self.add(path, "kept", detail)

    def escaped(self, path: Place, detail: str) -> None:
        self.add(path, "escaped", detail)

    def changed(self, path: Place, detail: str) -> None:
        self.add(path, "changed", detail)

    def lost(self, path: Place, detail: str) -> None:
        self.add(path, "lost", detail)
        if self.strict and not isinstance(path, dict):
            self._refuse(self.entries[-1])

    def place(self, start: int, path: Path) -> None:
        """Give the findings from `start` on that have no path this one; readers know it only afterwards."""
        for index in range(start, len(self.entries)):
            if not self.entries[index].path:
                self.entries[index] = replace(self.entries[index], path=format_path(path))

    def settle(self, tree: Iterable[tuple[Path, dict[str, Any]]]) -> None:
        """Give the findings about nodes the paths these have in the finished tree (`walk(document)`)."""
        if not self._subjects:
            return
        wanted = {id(node): list[int]() for node in self._subjects.values()}
        for index, node in self._subjects.items():
            wanted[id(node)].append(index)
        for path, node in tree:
            for index in wanted.get(id(node), ()):
                self.entries[index] = replace(self.entries[index], path=format_path(path))
        self._subjects.clear()
        for entry in self.entries if self.strict else ():
            if entry.kind == "lost":
                self._refuse(entry)

    def take(self, other: "Report", findings: list[int], near: Path) -> None:
        """Findings of another report about what goes into this document, at `near` until it is settled."""
        for index in findings:
            if index in other._subjects:
                self._subjects[len(self.entries)] = other._subjects[index]
            self.entries.append(replace(other.entries[index], path=format_path(near)))

    def of_kind(self, kind: Kind) -> list[Entry]:
        return [entry for entry in self.entries if entry.kind == kind]

    @property
    def lossless(self) -> bool:
        return not any(entry.kind in ("lost", "changed") for entry in self.entries)

    def as_json(self) -> list[dict[str, Any]]:
        return [entry.as_json() for entry in self.entries]

    def add(self, path: Place, kind: Kind, detail: str) -> None:
        if isinstance(path, dict):
            self._subjects[len(self.entries)] = path
            path = ""
        self.entries.append(Entry(format_path(path), kind, detail))

    def _refuse(self, entry: Entry) -> None:
        raise ConversionLost(
            f"{entry.detail}; convert without `strict` to accept the loss", Position(path=entry.path)
        )


def format_path(path: Path | str) -> str:
    return path if isinstance(path, str) else "/".join(str(step) for step in path)
