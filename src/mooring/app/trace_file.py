"""The conversation of every server, in a file."""

from __future__ import annotations

import os
from pathlib import Path

from mooring.gateway.tracing import Record, encode_record


def debug_line(record: Record) -> str:
    """A message in one line, without what it says."""
    words = [record["leg"], "→" if record["dir"] == "in" else "←", record["kind"]]
    words += [str(record[key]) for key in ("method", "id") if record.get(key) is not None]
    return " ".join([*words, f"{record['size']} B"])


class TraceFile:
    """Every message of every server as a JSON line."""

    def __init__(self, path: Path, *, with_bytes: bool) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._file = os.fdopen(descriptor, "ab", buffering=0)
        self._with_bytes = with_bytes

    def write(self, record: Record) -> None:
        self._file.write(encode_record(record, with_bytes=self._with_bytes))

    def close(self) -> None:
        self._file.close()
