"""From plain values to the Structs of the schema, gathering every problem on the way."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

from msgspec import Struct, inspect

from mooring.config.locations import resolve
from mooring.config.problems import KeyPath, key_text
from mooring.config.source import Document
from mooring.workloads.profile import InvalidProfile
from mooring.workloads.profile_reading import read_profile

StructT = TypeVar("StructT", bound=Struct)
# A rule sees a finished Struct and yields what is wrong with it: the path below it, and a message.
Rule = Callable[[Any], Iterator[tuple[KeyPath, str]]]

_SIZE = re.compile(r"^\s*(\d+)\s*([kmgt]?)(i?)b?\s*$", re.IGNORECASE)
_EXPONENTS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_TRUTH = {"true": True, "false": False}


class _Wrong:
    """Stands for a value that could not be read; its problem has been noted."""


_WRONG = _Wrong()


class Reader:
    """Reads one document against the schema."""

    def __init__(self, document: Document, base: Path, rules: Mapping[type[Struct], Rule]) -> None:
        self.document = document
        self.base = base
        self.rules = rules

    def read(self, kind: type[StructT]) -> StructT | None:
        """The document as `kind`, or nothing when there were problems."""
        found = self._struct(cast("inspect.StructType", inspect.type_info(kind)), self.document.value, ())
        return None if isinstance(found, _Wrong) or self.document.problems else cast("StructT", found)

    def _struct(self, kind: inspect.StructType, value: Any, path: KeyPath) -> Any:
        if not isinstance(value, dict):
            return self._wrong(path, f"must be a section with keys, not {self._shown(value, path)}")
        before = len(self.document.problems)
        given = cast("dict[str, Any]", value)
        self._refuse_unknown(kind, given, path)
        values: dict[str, Any] = {}
        for entry in kind.fields:
            here = (*path, entry.name)
            if entry.name in given:
                values[entry.name] = self._value(entry.type, given[entry.name], here)
            elif entry.required:
                self._wrong(path, f"needs the key `{entry.name}`: {_hint(entry.type)}")
            elif isinstance(bare := bare_type(entry.type), inspect.StructType):
                values[entry.name] = self._struct(bare, {}, here)
            elif isinstance(entry.default, Path):
                values[entry.name] = self._path(str(entry.default))
        if len(self.document.problems) > before and path:
            return _WRONG
        # At the top the rules also see a broken file: with what could be read, and defaults for the rest.
        made = kind.cls(**{name: value for name, value in values.items() if not _is_wrong(value)})
        if rule := self.rules.get(kind.cls):
            for below, message in rule(made):
                self._wrong((*path, *below), message)
        return made

    def _refuse_unknown(self, kind: inspect.StructType, given: dict[str, Any], path: KeyPath) -> None:
        known = [entry.name for entry in kind.fields]
        for key in given:
            if key not in known:
                self._wrong((*path, key), f"is not a known key{_suggestion(key, known, kind)}")

    def _value(self, kind: inspect.Type, value: Any, path: KeyPath) -> Any:
        unit = unit_of(kind)
        kind = bare_type(kind)
        match kind:
            case inspect.UnionType() if unit == "profile":
                return None if value is None else self._profile(value, path)
            case inspect.UnionType():
                return None if value is None else self._value(_not_none(kind), value, path)
            case inspect.StructType():
                return self._struct(kind, {} if value is None else value, path)
            case inspect.LiteralType():
                return self._one_of(kind.values, value, path)
            case inspect.BoolType():
                return self._bool(value, path)
            case inspect.IntType() if unit == "bytes":
                return self._in_range(kind, self._size(value, path), path)
            case inspect.IntType() | inspect.FloatType():
                return self._in_range(kind, self._number(kind, value, path), path)
            case inspect.CustomType():
                return self._text(value, path, self._path)
            case inspect.StrType():
                return self._string(kind, value, path)
            case inspect.ListType() if unit == "texts" and isinstance(value, str):
                return self._list(kind, [value], path)
            case inspect.ListType() if unit == "command" and isinstance(value, str):
                return self._command(value, path)
            case inspect.ListType():
                return self._list(kind, value, path)
            case inspect.DictType():
                return self._dict(kind, value, path)
            case _:
                raise TypeError(f"the schema of `{key_text(path)}` uses a type the reader does not know")

    def _one_of(self, allowed: Iterable[object], value: Any, path: KeyPath) -> Any:
        choices = list(allowed)
        # bool is an int: `mooring: true` is not `mooring: 1`.
        if value in choices and not isinstance(value, bool):
            return value
        names = [str(choice) for choice in choices]
        close = difflib.get_close_matches(str(value), names, 1)
        hint = f"; did you mean `{close[0]}`?" if close else ""
        return self._wrong(path, f"must be {_either(names)}, not {self._shown(value, path)}{hint}")

    def _bool(self, value: Any, path: KeyPath) -> Any:
        if isinstance(value, bool):
            return value
        if path in self.document.from_environment and str(value).lower() in _TRUTH:
            return _TRUTH[str(value).lower()]
        return self._wrong(path, f"must be `true` or `false`, not {self._shown(value, path)}")

    def _number(self, kind: inspect.IntType | inspect.FloatType, value: Any, path: KeyPath) -> Any:
        if path in self.document.from_environment and re.fullmatch(r"\d+(\.\d+)?", str(value)):
            value = float(value) if "." in value else int(value)
        wanted = int if isinstance(kind, inspect.IntType) else (int, float)
        if isinstance(value, wanted) and not isinstance(value, bool):
            return value
        name = "a whole number" if wanted is int else "a number"
        return self._wrong(path, f"must be {name}, not {self._shown(value, path)}")

    def _size(self, value: Any, path: KeyPath) -> Any:
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if isinstance(value, str) and (match := _SIZE.match(value)):
            digits, letter, binary = match.groups()
            return int(digits) * (1024 if binary else 1000) ** _EXPONENTS[letter.lower()]
        return self._wrong(
            path, f"must be a size such as `8Mi`, `10MB` or `1024`, not {self._shown(value, path)}"
        )

    def _in_range(self, kind: inspect.IntType | inspect.FloatType, value: Any, path: KeyPath) -> Any:
        if isinstance(value, _Wrong):
            return value
        if kind.ge is not None and value < kind.ge:
            return self._wrong(path, f"must be at least {kind.ge}, not {self._shown(value, path)}")
        if kind.gt is not None and not value > kind.gt:
            return self._wrong(path, f"must be more than {kind.gt}, not {self._shown(value, path)}")
        if kind.le is not None and value > kind.le:
            return self._wrong(path, f"must be at most {kind.le}, not {self._shown(value, path)}")
        return value

    def _text(self, value: Any, path: KeyPath, convert: Callable[[str], Any]) -> Any:
        if isinstance(value, str) and value:
            return convert(value)
        return self._wrong(path, f"must be a text, not {self._shown(value, path)}{_quotes(value)}")

    def _string(self, kind: inspect.StrType, value: Any, path: KeyPath) -> Any:
        if not isinstance(value, str):
            return self._wrong(path, f"must be a text, not {self._shown(value, path)}{_quotes(value)}")
        if kind.pattern is not None and not re.search(kind.pattern, value):
            return self._wrong(path, f"cannot be {self._shown(value, path)}: it must match `{kind.pattern}`")
        return value

    def _command(self, value: str, path: KeyPath) -> Any:
        try:
            words = shlex.split(value)
        except ValueError as error:
            return self._wrong(path, f"cannot be split into words: {error}; write it as a list")
        return words or self._wrong(path, "is empty: give a command")

    def _profile(self, value: Any, path: KeyPath) -> Any:
        try:
            return read_profile(value, self.base)
        except InvalidProfile as error:
            return self._wrong(path, str(error))

    def _list(self, kind: inspect.ListType, value: Any, path: KeyPath) -> Any:
        if not isinstance(value, list):
            return self._wrong(path, f"must be a list, not {self._shown(value, path)}")
        items = cast("list[Any]", value)
        if len(items) < (kind.min_length or 0):
            return self._wrong(path, "is empty: give at least one")
        return [self._value(kind.item_type, item, (*path, index)) for index, item in enumerate(items)]

    def _dict(self, kind: inspect.DictType, value: Any, path: KeyPath) -> Any:
        if not isinstance(value, dict):
            return self._wrong(path, f"must be a section with keys, not {self._shown(value, path)}")
        items = cast("dict[str, Any]", value)
        if isinstance(kind.value_type, inspect.AnyType):
            return items  # somebody else's format, judged by its own reader
        return {key: self._value(kind.value_type, item, (*path, key)) for key, item in items.items()}

    def _path(self, text: str) -> Path:
        return resolve(self.base, text)

    def _wrong(self, path: KeyPath, message: str) -> _Wrong:
        self.document.report(path, message)
        return _WRONG

    def _shown(self, value: Any, path: KeyPath) -> str:
        """A value for a message; what came from the environment may be a secret and is not shown."""
        if path in self.document.from_environment:
            return "what the environment variable holds"
        match value:
            case None:
                return "nothing"
            case bool():
                return f"`{str(value).lower()}`"
            case dict():
                return "a section"
            case list():
                return "a list"
            case _:
                return f"`{value}`" if value != "" else "an empty text"


def bare_type(kind: inspect.Type) -> inspect.Type:
    """The type without what is said about it."""
    return kind.type if isinstance(kind, inspect.Metadata) else kind


def _is_wrong(value: Any) -> bool:
    return value is _WRONG or (isinstance(value, (list, tuple)) and _WRONG in cast("list[Any]", value))


def _not_none(kind: inspect.UnionType) -> inspect.Type:
    return next(item for item in kind.types if not isinstance(item, inspect.NoneType))


def description_of(kind: inspect.Type) -> str:
    """What the schema says about a key."""
    return _annotation(kind, "extra_json_schema", "description") or ""


def unit_of(kind: inspect.Type) -> str | None:
    """How a value of this key may also be written: as a size, as a command."""
    return _annotation(kind, "extra", "unit")


def _annotation(kind: inspect.Type, group: str, name: str) -> str | None:
    # The library types these dictionaries as unknown; reading them by name keeps that in one place.
    found: Any = getattr(kind, group, None)
    return found.get(name) if found else None


def _hint(kind: inspect.Type) -> str:
    text = description_of(kind)
    return text[:1].lower() + text[1:].rstrip(".")


def _suggestion(key: str, known: list[str], kind: inspect.StructType) -> str:
    if close := difflib.get_close_matches(key, known, 1):
        return f"; did you mean `{close[0]}`?"
    if below := next(_keys_below(kind, key), None):
        return f"; did you mean `{key_text(below)}`?"
    return f"; known here: {', '.join(f'`{name}`' for name in known)}"


def _keys_below(kind: inspect.StructType, key: str, path: KeyPath = ()) -> Iterator[KeyPath]:
    """Where else, further down, a key of this name is known."""
    for entry in kind.fields:
        if entry.name == key and path:
            yield (*path, key)
        inner = bare_type(entry.type)
        inner = _not_none(inner) if isinstance(inner, inspect.UnionType) else inner
        if isinstance(inner, inspect.StructType):
            yield from _keys_below(inner, key, (*path, entry.name))


def _either(names: list[str]) -> str:
    quoted = [f"`{name}`" for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"


def _quotes(value: Any) -> str:
    return ": put it in quotes" if isinstance(value, (bool, int, float)) else ""
