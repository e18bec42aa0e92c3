"""Which audit files are open: one that is written on by a new configuration is not opened a second time.

Two writers of one file would break its chain. So a ledger is shared by all who write into its file, and is
closed by the last of them.
"""

from __future__ import annotations

import threading
from pathlib import Path

from mooring.policy.audit.ledger import Ledger, SigningKey


class Ledgers:
    """The open ledgers of a gateway."""

    def __init__(self) -> None:
        self._open: dict[Path, tuple[Ledger, int]] = {}
        self._lock = threading.Lock()  # they are closed in threads

    def open(self, path: Path, key: Path, *, rotate_bytes: int, keep_files: int, sync: bool) -> Ledger:
        with self._lock:
            ledger, users = self._open.get(path, (None, 0))
            if ledger is None:
                ledger = Ledger(
                    path, SigningKey(key), rotate_bytes=rotate_bytes, keep_files=keep_files, sync=sync
                )
            else:
                ledger.adjust(rotate_bytes=rotate_bytes, keep_files=keep_files, sync=sync)
            self._open[path] = (ledger, users + 1)
            return ledger

    def close(self, ledger: Ledger) -> None:
        with self._lock:
            users = self._open[ledger.path][1] - 1
            if users:
                self._open[ledger.path] = (ledger, users)
            else:
                del self._open[ledger.path]
                ledger.close()
