"""One way to change an entry in any of the formats, and the proof that nothing else changed."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, Literal, cast

from mooring.ecosystem.documents import json_editor, toml_editor, yaml_editor
from mooring.ecosystem.documents.splicing import DocumentError

Format = Literal["json", "yaml", "toml"]
Shape = Literal["map", "list"]
Entry = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Section:
    """Where a program keeps its servers: the format, the key, and a mapping by name or a list."""

    format: Format
    key: str
    shape: Shape = "map"
    name_key: str = "name"
    """Of a list: which key of an item is its name."""


def entries(text: str, section: Section) -> dict[str, Entry]:
    """The servers in the file, by name; what is no server is left out."""
    found = read(text, section.format).get(section.key)
    if isinstance(found, list):
        items = [cast("Entry", each) for each in cast("list[Any]", found) if isinstance(each, dict)]
        key = section.name_key
        return {str(each[key]): _without_name(each, key) for each in items if key in each}
    if not isinstance(found, dict):
        return {}
    pairs = cast("dict[Any, Any]", found).items()
    return {str(name): cast("Entry", each) for name, each in pairs if isinstance(each, dict)}


def put(text: str, section: Section, name: str, entry: Entry) -> str:
    """The text with this entry; every byte outside of it stays."""
    wanted = _with_entry(read(text, section.format), section, name, entry)
    if section.format == "json":
        made = json_editor.put(text, section.key, name, entry)
    elif section.format == "yaml":
        made = yaml_editor.put(text, section.key, name, entry, section.shape, section.name_key)
    else:
        made = toml_editor.put(text, section.key, name, entry, section.shape)
    return _proved(made, wanted, section)


def drop(text: str, section: Section, name: str) -> str:
    """The text without this entry; without it already, the same text."""
    if name not in entries(text, section):
        return text
    wanted = _without_entry(read(text, section.format), section, name)
    if section.format == "json":
        made = json_editor.drop(text, section.key, name)
    elif section.format == "yaml":
        made = yaml_editor.drop(text, section.key, name, section.name_key)
    else:
        made = toml_editor.drop(text, section.key, name, section.shape)
    return _proved(made, wanted, section)


def read(text: str, format_: Format) -> dict[str, Any]:
    """The whole file as plain values."""
    return {"json": json_editor.read, "yaml": yaml_editor.read, "toml": toml_editor.read}[format_](text)


def _proved(made: str, wanted: dict[str, Any], section: Section) -> str:
    """Read what was made: a layout we do not understand must not cost anybody their file."""
    try:
        same = _comparable(_normal(read(made, section.format), section.key)) == _comparable(
            _normal(wanted, section.key)
        )
    except DocumentError:
        same = False
    if not same:
        raise DocumentError(f"has a layout that cannot be changed safely: edit its `{section.key}` by hand")
    return made


def _normal(value: dict[str, Any], key: str) -> dict[str, Any]:
    """A section that holds nothing is as good as none."""
    return value if value.get(key) else {name: each for name, each in value.items() if name != key}


def _comparable(value: Any) -> str:
    """Values as a text: 1, 1.0 and true differ, and NaN is NaN."""
    if isinstance(value, dict):
        pairs = cast("dict[Any, Any]", value).items()
        return "{" + ",".join(sorted(f"{key!r}:{_comparable(each)}" for key, each in pairs)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_comparable(each) for each in cast("list[Any]", value)) + "]"
    return repr(value)


def _with_entry(value: dict[str, Any], section: Section, name: str, entry: Entry) -> dict[str, Any]:
    made = copy.deepcopy(value)
    found = made.get(section.key)
    if found and not isinstance(found, dict if section.shape == "map" else list):
        raise DocumentError(f"has a `{section.key}` of an unexpected kind: look at it")
    if section.shape == "map":
        made[section.key] = {**(made.get(section.key) or {}), name: entry}
        return made
    items: list[Any] = list(made.get(section.key) or [])
    full = {section.name_key: name, **entry}
    named = [index for index, each in enumerate(items) if _is_named(each, section, name)]
    if named:
        items[named[0]] = full
    else:
        items.append(full)
    made[section.key] = items
    return made


def _without_entry(value: dict[str, Any], section: Section, name: str) -> dict[str, Any]:
    made = copy.deepcopy(value)
    if section.shape == "map":
        made[section.key] = {key: each for key, each in made[section.key].items() if str(key) != name}
    else:
        made[section.key] = [each for each in made[section.key] if not _is_named(each, section, name)]
    return made


def _is_named(item: Any, section: Section, name: str) -> bool:
    return isinstance(item, dict) and cast("Entry", item).get(section.name_key) == name


def _without_name(entry: Entry, name_key: str) -> Entry:
    return {key: each for key, each in entry.items() if key != name_key}
