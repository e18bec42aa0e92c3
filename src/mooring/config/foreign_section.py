"""A section of another tool's file: keys in any spelling, each taken once, and none left over unnoticed."""

from __future__ import annotations

import re
from typing import Any, cast

from mooring.workloads.runconfig import InvalidRunConfig
from mooring.workloads.runconfig_fields import duration_seconds, is_off

Json = dict[str, Any]


class Section:
    """`ClientID`, `clientId` and `client_id` are one key, as Go programs have it."""

    def __init__(self, name: str, given: Json) -> None:
        self.name = name
        if not isinstance(given, dict):  # pyright: ignore[reportUnnecessaryIsInstance] - from a file
            raise InvalidRunConfig(f"`{name}` must hold keys and values")
        self._left = {_squeezed(key): (key, value) for key, value in given.items()}
        self._given = {key for key, (_, value) in self._left.items() if not is_off(value)}

    def had(self, key: str) -> bool:
        """Whether it was given, taken or not."""
        return _squeezed(key) in self._given

    def ignore_beginning_with(self, word: str) -> None:
        for key in [key for key in self._left if key.startswith(word)]:
            del self._left[key]

    def take(self, key: str) -> Any:
        """The value, once; None where it is not given or says nothing."""
        _, value = self._left.pop(_squeezed(key), (key, None))
        return value

    def ignore(self, *keys: str) -> None:
        """What is so anyway, or cannot matter here."""
        for key in keys:
            self.take(key)

    def text(self, key: str) -> str | None:
        value = self.take(key)
        if value is not None and not isinstance(value, str):
            raise self._wrong(key, "a text")
        return value or None

    def needed(self, key: str) -> str:
        value = self.text(key)
        if value is None:
            raise InvalidRunConfig(f"`{self.name}` needs `{snake(key)}`")
        return value

    def texts(self, key: str) -> list[str]:
        """Several texts; one alone stands for a list of one."""
        value = self.take(key)
        if isinstance(value, str):
            return [value] if value else []
        found = cast("list[Any]", value or [])
        if not isinstance(value or [], list) or not all(isinstance(entry, str) for entry in found):
            raise self._wrong(key, "a list of texts")
        return found

    def pairs(self, key: str) -> dict[str, str]:
        value = self.take(key)
        found = cast("Json", value or {})
        if not isinstance(value or {}, dict) or not all(isinstance(entry, str) for entry in found.values()):
            raise self._wrong(key, "names with texts")
        return found

    def flag(self, key: str, *, default: bool = False) -> bool:
        value = self.take(key)
        if value is not None and not isinstance(value, bool):
            raise self._wrong(key, "`true` or `false`")
        return default if value is None else value

    def number(self, key: str) -> float | None:
        value = self.take(key)
        try:  # some are texts, so that no digit gets lost
            return None if value in (None, "") else float(value)
        except (TypeError, ValueError):
            raise self._wrong(key, "a number") from None

    def close(self) -> None:
        """Refuse what nobody took: it would promise something that does not happen."""
        for key, value in self._left.values():
            if not is_off(value):
                raise InvalidRunConfig(f"`{self.name}.{key}` is not supported: remove it")

    def _wrong(self, key: str, kind: str) -> InvalidRunConfig:
        return InvalidRunConfig(f"`{self.name}.{snake(key)}` must be {kind}")


def snake(key: str) -> str:
    """`caBundlePath` -> `ca_bundle_path`"""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", key).lower()


def seconds_of(name: str, value: Any) -> float | None:
    """A duration as Go writes it: `1m30s`, or a number of nanoseconds."""
    try:
        return duration_seconds(value)
    except ValueError as error:
        raise InvalidRunConfig(f"`{name}`: {error}") from error


def _squeezed(key: str) -> str:
    return key.replace("_", "").replace("-", "").lower()
