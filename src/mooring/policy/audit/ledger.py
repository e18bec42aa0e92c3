"""The audit file: every line holds the hash of the one before, and every so often a signature seals them all.

A line is given to the system before the answer it is about leaves, so that killing the process loses none; it
is on the disk a moment later, or at once with `sync`. Edited, removed and reordered lines break the chain;
cutting off the end is noticed by the head file, which is signed and written with each checkpoint.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from time import monotonic, time_ns
from typing import Any, Final, Protocol

import msgspec
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from mooring import durable
from mooring.policy.audit.events import CHECKPOINT, RECOVERED

log = logging.getLogger(__name__)

GENESIS: Final = "0" * 64
CHECKPOINT_EVENTS: Final = 1_000
CHECKPOINT_SECONDS: Final = 60.0
FLUSH_SECONDS: Final = 0.2
"""How long a line may be only in the system's memory, where a power failure loses it."""
_TAIL_BYTES: Final = 1024 * 1024


@lru_cache(maxsize=2)
def _second_text(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def now_text() -> str:
    """The time in UTC, to the microsecond; what changes once a second is written once a second."""
    second, rest = divmod(time_ns(), 1_000_000_000)
    return f"{_second_text(second)}.{rest // 1000:06d}Z"


def line_hash(line: bytes) -> str:
    return sha256(line).hexdigest()


def signed_text(seq: int, prev: str) -> bytes:
    """What a checkpoint's signature is about."""
    return f"mooring-audit:{seq}:{prev}".encode()


class SigningKey:
    """The key of one gateway, made on first use; its public half lies beside it."""

    def __init__(self, path: Path) -> None:
        self._key = _load(path) if path.exists() else _create(path)
        self.public = self._key.public_key().public_bytes(
            serialization.Encoding.Raw, serialization.PublicFormat.Raw
        )

    def sign(self, data: bytes) -> str:
        return self._key.sign(data).hex()


def _load(path: Path) -> Ed25519PrivateKey:
    key = serialization.load_pem_private_key(path.read_bytes(), None)
    if not isinstance(key, Ed25519PrivateKey):
        raise TypeError(f"`{path}` is not an Ed25519 key; remove it to have a new one made")
    return key


def _create(path: Path) -> Ed25519PrivateKey:
    key = Ed25519PrivateKey.generate()
    durable.private_folder(path.parent)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    durable.replace_file(path, private)
    durable.replace_file(path.with_suffix(".pub"), public, 0o644)
    return key


class Ledger:
    """One audit file and its rotated predecessors."""

    def __init__(
        self, path: Path, key: SigningKey, *, rotate_bytes: int, keep_files: int, sync: bool
    ) -> None:
        self.path = path
        self.seq = 0
        self.prev = GENESIS
        self._key = key
        self._rotate_bytes = rotate_bytes
        self._keep = keep_files
        self._sync = sync
        self._sealed_at = 0
        self._sealed_time = monotonic()
        self._is_dirty = False
        self._dirty = threading.Event()
        self._stopped = threading.Event()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._descriptor, self._size = self._open()
        self._recover()
        self._flusher = threading.Thread(target=self._flush, name="audit-flush", daemon=True)
        if not sync:
            self._flusher.start()

    def adjust(self, *, rotate_bytes: int, keep_files: int, sync: bool) -> None:
        """Go on with other settings."""
        self._rotate_bytes, self._keep, self._sync = rotate_bytes, keep_files, sync
        if not sync and self._flusher.ident is None:
            self._flusher.start()

    def append(self, line: bytes) -> None:
        """Write one encoded event, which was made with the current `seq` and `prev`."""
        data = line + b"\n"
        try:
            written = os.write(self._descriptor, data)
            while written < len(data):  # a full disk may take a part; what follows raises then
                written += os.write(self._descriptor, data[written:])
        except OSError:
            os.ftruncate(self._descriptor, self._size)  # half a line would spoil the next one
            raise
        self._size += len(data)
        self.seq += 1
        self.prev = sha256(line).hexdigest()
        if self._sync:
            os.fsync(self._descriptor)
        elif not self._is_dirty:  # telling takes a lock
            self._is_dirty = True
            self._dirty.set()
        if self.seq - self._sealed_at >= CHECKPOINT_EVENTS:
            self.seal()
        if self._size >= self._rotate_bytes:
            self._rotate()

    def seal(self) -> None:
        """Sign everything up to here."""
        self._sealed_time = monotonic()
        if self._sealed_at == self.seq:
            return
        before, self._sealed_at = self._sealed_at, self.seq + 1
        signature = self._key.sign(signed_text(self.seq, self.prev))
        checkpoint = {
            "seq": self.seq,
            "prev": self.prev,
            "type": CHECKPOINT,
            "logged_at": now_text(),
            "key": self._key.public.hex(),
            "signature": signature,
        }
        try:
            self.append(msgspec.json.encode(checkpoint))
        except OSError:
            self._sealed_at = before
            raise
        head = {
            "seq": self.seq,
            "prev": self.prev,
            "signature": self._key.sign(signed_text(self.seq, self.prev)),
        }
        durable.replace_file(head_file(self.path), msgspec.json.encode(head))

    def tidy(self) -> None:
        """Seal what has been waiting for it; called every few seconds."""
        if monotonic() - self._sealed_time >= CHECKPOINT_SECONDS:
            self.seal()

    def close(self) -> None:
        if not self._stopped.is_set():
            self.seal()
            self._stopped.set()
            self._dirty.set()
            if self._flusher.ident is not None:
                self._flusher.join(timeout=5)
            os.fsync(self._descriptor)
            os.close(self._descriptor)

    # Files

    def _open(self) -> tuple[int, int]:
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        return descriptor, os.fstat(descriptor).st_size

    def _recover(self) -> None:
        """Go on where the last process stopped, also if it stopped in the middle of a line."""
        last = self._last_line()
        if last is None:
            return
        whole, line = last
        found = _numbered(line)
        self.prev = line_hash(line)
        if whole and found is not None:
            self.seq = self._sealed_at = found + 1
            return
        before = self._sequence_before(line)
        self.seq = self._sealed_at = before + 2
        if not whole:
            os.write(self._descriptor, b"\n")
        log.warning("the audit file `%s` ended in the middle of a line; it goes on after it", self.path)
        note = {"seq": self.seq, "prev": self.prev, "type": RECOVERED, "logged_at": now_text()}
        self.append(msgspec.json.encode(note))

    def _last_line(self) -> tuple[bool, bytes] | None:
        path = self.path
        if not self._size:
            rotated = rotated_files(self.path)
            if not rotated:
                return None
            path = rotated[-1]
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            tail = file.read()
        return tail.endswith(b"\n"), tail.rstrip(b"\n").rpartition(b"\n")[2]

    def _sequence_before(self, line: bytes) -> int:
        with self.path.open("rb") as file:
            file.seek(max(0, self._size - _TAIL_BYTES))
            lines = file.read().rstrip(b"\n").split(b"\n")
        known = [found for entry in lines if entry != line and (found := _numbered(entry)) is not None]
        return known[-1] if known else -1

    def _rotate(self) -> None:
        """Start a new file; the chain goes on in it."""
        self._rotate_bytes, most = sys.maxsize, self._rotate_bytes  # sealing appends
        try:
            self.seal()
        finally:
            self._rotate_bytes = most
        os.fsync(self._descriptor)
        os.close(self._descriptor)
        numbers = [int(file.suffix[1:]) for file in rotated_files(self.path)]
        number = max(numbers, default=0) + 1
        self.path.rename(self.path.with_name(f"{self.path.name}.{number:06d}"))
        durable.sync_folder(self.path.parent)
        self._descriptor, self._size = self._open()
        for old in rotated_files(self.path)[: -self._keep]:
            old.unlink()

    def _flush(self) -> None:
        """In a thread of its own: syncing takes as long as the disk takes."""
        while not self._stopped.is_set():
            self._dirty.wait()
            self._dirty.clear()
            self._is_dirty = False  # before syncing: whatever is written from here on says so again
            try:
                os.fsync(self._descriptor)
            except OSError:
                continue  # rotated away under us, which synced it
            self._stopped.wait(FLUSH_SECONDS)


def head_file(path: Path) -> Path:
    return path.with_name(path.name + ".head")


def rotated_files(path: Path) -> list[Path]:
    """The predecessors of an audit file, oldest first."""
    found = path.parent.glob(f"{path.name}.[0-9][0-9][0-9][0-9][0-9][0-9]")
    return sorted(found)


class _Numbered(msgspec.Struct):
    seq: int


def _numbered(line: bytes) -> int | None:
    try:
        return msgspec.json.decode(line, type=_Numbered).seq
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


class StandardOutput:
    """Events on stdout, chained like those of a file, but neither sealed nor kept."""

    def __init__(self) -> None:
        self.seq = 0
        self.prev = GENESIS

    def append(self, line: bytes) -> None:
        os.write(1, line + b"\n")
        self.seq += 1
        self.prev = line_hash(line)

    def tidy(self) -> None:
        """There is nothing to seal."""

    def close(self) -> None:
        """It is not ours to close."""


class Sink(Protocol):
    """Where events go. An event is encoded with the current `seq` and `prev`, then appended."""

    seq: int
    prev: str

    def append(self, line: bytes) -> None: ...
    def tidy(self) -> None: ...
    def close(self) -> None: ...


Json = dict[str, Any]
