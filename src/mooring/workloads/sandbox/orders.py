"""What a launcher is told, as bytes; `launcher.py` says what they mean."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath


@dataclass(frozen=True, slots=True)
class Orders:
    """How one server is to be started."""

    argv: Sequence[str]
    environment: Mapping[str, str]
    ports: Sequence[int] = ()
    groups: Sequence[int] = ()
    limits: Sequence[tuple[int, int]] = ()
    paths: Sequence[tuple[str, int]] = field(default_factory=tuple[tuple[str, int], ...])

    def encode(self) -> bytes:
        """With its own size first."""
        limits = [_word(kind) + value.to_bytes(8, "little") for kind, value in self.limits]
        paths = [_word(level) + _text(path) for path, level in self.paths]
        environment = [_text(f"{name}={value}") for name, value in self.environment.items()]
        data = b"".join(
            _word(len(entries)) + b"".join(entries)
            for entries in (
                [_word(port) for port in self.ports],
                [_word(descriptor) for descriptor in self.groups],
                limits,
                paths,
                [_text(place) for place in self._places()],
                [_text(word) for word in self.argv],
                environment,
            )
        )
        return _word(len(data)) + data

    def _places(self) -> Iterable[str]:
        """Where the program may be: a bare name is looked for on its own PATH, as a shell does."""
        program = self.argv[0]
        if "/" in program:
            return [program]
        folders = self.environment.get("PATH", os.defpath).split(":")
        return [str(PurePosixPath(folder or ".") / program) for folder in folders]


def reason(data: bytes) -> str:
    """What a launcher said went wrong: what it was doing, and the number of the error."""
    what, _, number = data[1:].decode(errors="replace").rpartition(" ")
    return f"{what}: {os.strerror(int(number))}" if number.isdigit() and number != "0" else what


def _word(value: int) -> bytes:
    return value.to_bytes(4, "little")


def _text(value: str) -> bytes:
    return os.fsencode(value) + b"\0"
