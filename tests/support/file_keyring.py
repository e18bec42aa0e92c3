"""A stand-in for the OS keyring that keeps its entries in the file that FILE_KEYRING names."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from keyring.backend import KeyringBackend


class FileKeyring(KeyringBackend):
    priority: Any = 1

    def _entries(self) -> dict[str, str]:
        file = Path(os.environ["FILE_KEYRING"])
        return json.loads(file.read_text()) if file.exists() else {}

    def get_password(self, service: str, username: str) -> str | None:
        return self._entries().get(f"{service}/{username}")

    def set_password(self, service: str, username: str, password: str) -> None:
        entries = {**self._entries(), f"{service}/{username}": password}
        Path(os.environ["FILE_KEYRING"]).write_text(json.dumps(entries))

    def delete_password(self, service: str, username: str) -> None:
        entries = self._entries()
        del entries[f"{service}/{username}"]
        Path(os.environ["FILE_KEYRING"]).write_text(json.dumps(entries))
