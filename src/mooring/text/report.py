"""What a conversion did to each part of a document: kept, escaped, changed or lost."""

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from mooring.text.errors import ConversionLost, Position

Kind = Literal["kept", "escaped", "changed", "lost"]
Path = tuple[int | str, ...]


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


@dataclass(slots=True)
class Report:
    """Collects findings in document order; with `strict` the first loss is an error.

    - kept: a foreign or unknown thing rides through untouched
    - escaped: it is in the output, but in a form only a machine reads
    - changed: the meaning is there, the structure is not the same
    - lost: it is not in the output
    """

    strict: bool = False
    entries: list[Entry] = field(default_factory=_no_entries)

    def kept(self, path: Path | str, detail: str) -> None:
        self._add(path, "kept", detail)

    def escaped(self, path: Path | str, detail: str) -> None:
        self._add(path, "escaped", detail)

    def changed(self, path: Path | str, detail: str) -> None:
        self._add(path, "changed", detail)

    def lost(self, path: Path | str, detail: str) -> None:
        self._add(path, "lost", detail)
        if self.strict:
            raise ConversionLost(
                f"{detail}; convert without `strict` to accept the loss", Position(path=format_path(path))
            )

    def place(self, start: int, path: Path) -> None:
        """Give the findings from `start` on that have no path this one; readers know it only afterwards."""
        for index in range(start, len(self.entries)):
            if not self.entries[index].path:
                self.entries[index] = replace(self.entries[index], path=format_path(path))

    def of_kind(self, kind: Kind) -> list[Entry]:
        return [entry for entry in self.entries if entry.kind == kind]

    @property
    def lossless(self) -> bool:
        return not any(entry.kind in ("lost", "changed") for entry in self.entries)

    def as_json(self) -> list[dict[str, Any]]:
        return [entry.as_json() for entry in self.entries]

    def _add(self, path: Path | str, kind: Kind, detail: str) -> None:
        self.entries.append(Entry(format_path(path), kind, detail))


def format_path(path: Path | str) -> str:
    return path if isinstance(path, str) else "/".join(str(step) for step in path)
