"""Reading audit files again: is every line there, in its place, and as it was written?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from mooring.policy.audit.events import CHECKPOINT, RECOVERED
from mooring.policy.audit.ledger import GENESIS, head_file, line_hash, rotated_files, signed_text

Json = dict[str, Any]
MOST_FINDINGS: Final = 100


@dataclass(frozen=True, slots=True)
class Finding:
    """Something is not as it was written."""

    file: Path
    line: int
    message: str


@dataclass(frozen=True, slots=True)
class Report:
    """What the files prove."""

    lines: int
    checkpoints: int
    first: int
    last: int
    sealed: int
    findings: tuple[Finding, ...]


def public_key(path: Path) -> Ed25519PublicKey:
    key = serialization.load_pem_public_key(path.read_bytes())
    if not isinstance(key, Ed25519PublicKey):
        raise TypeError(f"`{path}` is not an Ed25519 public key")
    return key


def lines_of(path: Path) -> Iterator[tuple[Path, int, bytes]]:
    """Every line of the file and its predecessors, oldest first."""
    for file in (*rotated_files(path), path):
        if not file.exists():
            continue
        with file.open("rb") as opened:
            for number, line in enumerate(opened, 1):
                yield file, number, line.rstrip(b"\n")


def verify(path: Path, key: Ed25519PublicKey) -> Report:
    """Check the chain, the signatures, and that nothing is missing at the end."""
    checker = _Checker(key)
    for file, number, line in lines_of(path):
        checker.check(file, number, line)
    checker.check_head(path)
    return checker.report()


class _Checker:
    def __init__(self, key: Ed25519PublicKey) -> None:
        self._key = key
        self._prev: str | None = None
        self._seq: int | None = None
        self._torn = False
        self._first = -1
        self._count = self._checkpoints = 0
        self._sealed = -1
        self._hashes: dict[int, str] = {}
        self._findings: list[Finding] = []

    def check(self, file: Path, number: int, line: bytes) -> None:
        entry = _read(line)
        self._count += 1
        if entry is None:
            self._torn = True  # fine only if the next line says that this one was recovered from
            self._torn_at = (file, number)
            self._prev = line_hash(line)
            self._seq = None if self._seq is None else self._seq + 1
            return
        if self._torn and entry.get("type") != RECOVERED:
            self._report(*self._torn_at, "is not a line that was written here")
        self._torn = False
        self._check_place(file, number, entry)
        if entry.get("type") == CHECKPOINT:
            self._check_signature(file, number, entry)
        self._prev = line_hash(line)
        self._seq = entry["seq"]
        self._hashes[entry["seq"]] = self._prev

    def _check_place(self, file: Path, number: int, entry: Json) -> None:
        if self._prev is None:
            self._first = entry["seq"]
            if entry["seq"] == 0 and entry["prev"] != GENESIS:
                self._report(file, number, "is the first line, but claims another before it")
            return
        if self._seq is not None and entry["seq"] != self._seq + 1:
            missing = entry["seq"] - self._seq - 1
            why = f"{missing} lines are missing before it" if missing > 0 else "is not in its place"
            self._report(file, number, why)
        elif entry["prev"] != self._prev:
            self._report(file, number, "does not fit the line before it: that one was changed")

    def _check_signature(self, file: Path, number: int, entry: Json) -> None:
        self._checkpoints += 1
        try:
            self._key.verify(bytes.fromhex(entry["signature"]), signed_text(entry["seq"], entry["prev"]))
        except (InvalidSignature, ValueError, KeyError, TypeError):
            self._report(file, number, "is a checkpoint with a wrong signature")
        else:
            if entry["prev"] == self._prev:
                self._sealed = entry["seq"]

    def check_head(self, path: Path) -> None:
        """The head knows how far the file must reach."""
        if self._torn:
            self._report(*self._torn_at, "is not whole")
        file = head_file(path)
        try:
            head = msgspec.json.decode(file.read_bytes(), type=Json)
            self._key.verify(bytes.fromhex(head["signature"]), signed_text(head["seq"], head["prev"]))
        except FileNotFoundError:
            if self._checkpoints:
                self._report(file, 0, "is missing: whether the end was cut off cannot be seen")
            return
        except (InvalidSignature, msgspec.DecodeError, ValueError, KeyError, TypeError):
            self._report(file, 0, "is not signed by this key")
            return
        last = self._seq if self._seq is not None else -1
        if last < head["seq"] - 1:
            self._report(path, 0, f"ends at {last}, but had reached {head['seq'] - 1}: its end was cut off")
        elif self._hashes.get(head["seq"] - 1, head["prev"]) != head["prev"]:
            self._report(path, 0, f"line {head['seq'] - 1} is not the one that was sealed")

    def _report(self, file: Path, line: int, message: str) -> None:
        if len(self._findings) < MOST_FINDINGS:
            self._findings.append(Finding(file, line, message))

    def report(self) -> Report:
        last = self._seq if self._seq is not None else -1
        return Report(self._count, self._checkpoints, self._first, last, self._sealed, tuple(self._findings))


def _read(line: bytes) -> Json | None:
    try:
        entry = msgspec.json.decode(line, type=Json)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return entry if isinstance(entry.get("seq"), int) and isinstance(entry.get("prev"), str) else None
