"""Writing a schema: what is written in place, and what goes to `$defs`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

Schema: TypeAlias = dict[str, Any]
References: TypeAlias = Literal["inline", "defs"]


class Definitions:
    """Collects the `$defs` of one schema.

    With "inline", a named type is written wherever it is used, and only one that contains itself becomes a
    definition: some clients do not follow `$ref`. With "defs", every named type is written once.
    """

    def __init__(self, references: References) -> None:
        self._inline = references == "inline"
        self._names: dict[object, str] = {}
        self._written: dict[str, Schema] = {}

    def named(self, key: object, name: str, write: Callable[[], Schema], *, recursive: bool) -> Schema:
        """The schema of a named type, or a reference to it. `key` tells types of one name apart."""
        if self._inline and not recursive:
            return write()
        known = self._names.get(key)
        if known is None:
            known = self._names[key] = self._free_name(name)
            self._written[known] = {}  # now, so that the order is that of first use
            self._written[known] = write()
        return {"$ref": f"#/$defs/{known}"}

    def finish(self, schema: Schema) -> Schema:
        return {**schema, "$defs": self._written} if self._written else schema

    def _free_name(self, name: str) -> str:
        free, number = name, 1
        while free in self._written:
            number += 1
            free = f"{name}_{number}"
        return free
