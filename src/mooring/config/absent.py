"""Parts of the format that this version does not have: accepted while switched off, refused otherwise.

Accepting such a key and doing nothing would be worse than any error: a person who wrote
`authorization` believes that something is guarded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from mooring.config.problems import KeyPath, key_text
from mooring.config.source import Document

# key path (a `*` stands for every item of a list) -> what is missing, as a sentence's subject
ABSENT: dict[KeyPath, str] = {
    ("state",): "external state is",
    ("virtual_servers",): "virtual servers are",
}


def refuse_absent(document: Document) -> None:
    """Take these keys out of the document; the ones that ask for something become problems."""
    for pattern, subject in ABSENT.items():
        for section, path in _sections(document.value, pattern[:-1], ()):
            if pattern[-1] not in section:
                continue
            here = (*path, pattern[-1])
            for wanted in _wishes(section.pop(pattern[-1]), here):
                document.report(
                    wanted,
                    f"asks for something this version does not have: {subject} not available "
                    f"yet; {_advice(wanted, here)}",
                )


def _sections(value: Any, pattern: KeyPath, path: KeyPath) -> Iterator[tuple[dict[str, Any], KeyPath]]:
    if not pattern:
        if isinstance(value, dict):
            yield cast("dict[str, Any]", value), path
    elif pattern[0] == "*" and isinstance(value, list):
        for index, item in enumerate(cast("list[Any]", value)):
            yield from _sections(item, pattern[1:], (*path, index))
    elif isinstance(value, dict) and pattern[0] in value:
        found = cast("dict[str, Any]", value)[str(pattern[0])]
        yield from _sections(found, pattern[1:], (*path, pattern[0]))


def _wishes(value: Any, path: KeyPath) -> Iterator[KeyPath]:
    """The keys at or below this one that are not off."""
    if isinstance(value, dict):
        for key, item in cast("dict[str, Any]", value).items():
            yield from _wishes(item, (*path, key))
    elif value is not None and value is not False and value not in ("none", "off", []):
        yield path


def _advice(wanted: KeyPath, section: KeyPath) -> str:
    if wanted[-1] == "enabled":
        return "set it to `false` or remove it"
    return f"remove it{'' if wanted == section else f' or the whole `{key_text(section)}`'}"
