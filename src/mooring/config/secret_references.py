"""`${secret:NAME}` in a configuration: filled in from the user's secret store when the file is read."""

from __future__ import annotations

import getpass
import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from mooring.config.locations import default_data_directory
from mooring.config.problems import KeyPath
from mooring.config.source import Document
from mooring.workloads.secrets.errors import SecretsError

if TYPE_CHECKING:
    from mooring.workloads.secrets.store import SecretStore

_REFERENCE = re.compile(r"\$(\$)?\{secret:([^}]+)\}")


def expand_secrets(document: Document, environment: Mapping[str, str]) -> None:
    """Fill in every reference; `$${secret:NAME}` means `${secret:NAME}`. Without one, no store is opened."""
    document.value = _Expander(document, environment).value(document.value, ())


class _Expander:
    def __init__(self, document: Document, environment: Mapping[str, str]) -> None:
        self._document = document
        self._environment = environment
        self._store: SecretStore | None = None

    def value(self, value: Any, path: KeyPath) -> Any:
        if isinstance(value, dict):
            pairs = cast("dict[str, Any]", value).items()
            return {key: self.value(item, (*path, key)) for key, item in pairs}
        if isinstance(value, list):
            return [self.value(item, (*path, index)) for index, item in enumerate(cast("list[Any]", value))]
        if not isinstance(value, str) or "${secret:" not in value:
            return value
        return _REFERENCE.sub(lambda match: self._replacement(match, path), value)

    def _replacement(self, match: re.Match[str], path: KeyPath) -> str:
        if match.group(1):
            return match.group()[1:]
        # A value from the store is never shown in a message, as one from the environment is not.
        self._document.from_environment.add(path)
        try:
            return self._opened().get(match.group(2))
        except SecretsError as error:
            self._document.report(path, f"needs a secret: {error}")
            return ""

    def _opened(self) -> SecretStore:
        if self._store is None:
            # Most files name no secret, and what opens them takes a while to load.
            from mooring.workloads.secrets.store import SecretPlaces, open_store  # noqa: PLC0415

            ask = getpass.getpass if sys.stdin.isatty() and sys.stderr.isatty() else None
            places = SecretPlaces(default_data_directory(self._environment), self._environment, ask)
            self._store = open_store(places)
        return self._store
