"""Texts of tools: missing, repeated, over-long, or not what they seem."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

from mooring.prompt.findings import Finding
from mooring.prompt.lint_names import name_of
from mooring.prompt.schemas import Json, Path, pointer, subschemas

DESCRIPTION_LIMIT: Final = 1024
"""Some model APIs refuse longer descriptions of functions."""
PARAMETER_LIMIT: Final = 500
_KEPT: Final = "\n\t\r"
_JOINER: Final = "\u200d"


def of(tool: Json) -> Iterator[Finding]:
    name = name_of(tool) or "?"
    yield from _own(tool, name)
    yield from _of_parameters(tool, name)
    yield from _invisible(tool, name)
    yield from _titles(tool, name)


def between(tools: Sequence[Json]) -> Iterator[Finding]:
    """Tools that say the same about themselves."""
    first: dict[str, str] = {}
    for tool in tools:
        text = _folded(tool.get("description"))
        name = name_of(tool)
        other = first.setdefault(text, name) if text else name
        if other != name:
            yield Finding(
                "warning",
                "description-duplicate",
                name,
                "description",
                f"says the same as `{other}`",
                "say in each what it does that the other does not",
            )


def _own(tool: Json, name: str) -> Iterator[Finding]:
    text = _folded(tool.get("description"))
    where = "description"
    if not text:
        fix = "say in one sentence what it does and when to use it"
        yield Finding("error", "description-missing", name, where, "has no description", fix)
    elif text == _folded(name.replace("_", " ").replace("-", " ")):
        fix = "say what it needs, what it gives back and when to use it"
        yield Finding("warning", "description-empty", name, where, "only repeats the name", fix)
    if len(text) > DESCRIPTION_LIMIT:
        problem = f"has {len(text):,} characters; some model APIs refuse more than {DESCRIPTION_LIMIT:,}"
        fix = "move details to the parameters, or set `savings.description_limit`"
        yield Finding("warning", "text-too-long", name, where, problem, fix)


def _of_parameters(tool: Json, name: str) -> Iterator[Finding]:
    first: dict[str, str] = {}
    for path, schema in _properties(tool):
        where = pointer(path)
        text = _folded(schema.get("description"))
        if not text and "$ref" not in schema:
            problem, fix = "has no description", "say what it means, in which form, with an example"
            yield Finding("warning", "parameter-description-missing", name, where, problem, fix)
        if len(text) > PARAMETER_LIMIT:
            problem = f"has {len(text):,} characters, on every turn"
            fix = f"keep it within {PARAMETER_LIMIT}, or set `savings.description_limit`"
            yield Finding("warning", "text-too-long", name, where, problem, fix)
        other = first.setdefault(text, where) if text else where
        if other != where:
            problem, fix = f"is described exactly as `{other}`", "say how the two differ"
            yield Finding("warning", "parameter-description-duplicate", name, where, problem, fix)


def _properties(tool: Json) -> Iterator[tuple[Path, Json]]:
    """Every named argument, at any depth."""
    for path, schema in subschemas(tool.get("inputSchema"), ("inputSchema",)):
        if len(path) >= 2 and path[-2] == "properties":
            yield path, schema


def _titles(tool: Json, name: str) -> Iterator[Finding]:
    noise = sum(
        isinstance(title := schema.get("title"), str) and _plain(title) == _plain(str(path[-1]))
        for path, schema in _properties(tool)
    )
    if noise:
        problem = (
            f"{noise} titles only repeat the names of parameters"
            if noise > 1
            else "a title only repeats the name of its parameter"
        )
        fix = "leave them out, or set `savings.strip_titles`"
        yield Finding("note", "title-noise", name, "inputSchema", problem, fix)


def _plain(text: str) -> str:
    return "".join(character for character in text.lower() if character.isalnum())


# What cannot be seen


def _invisible(tool: Json, name: str) -> Iterator[Finding]:
    for path, text in _all_texts(tool, ()):
        hidden = list(dict.fromkeys(character for character in invisible(text)))
        if hidden:
            codes = ", ".join(f"U+{ord(character):04X}" for character in hidden[:5])
            problem = f"has invisible characters ({codes}): a model reads what no person sees"
            yield Finding("error", "invisible-characters", name, pointer(path), problem, "remove them")


def invisible(text: str) -> Iterator[str]:
    """Format, control, private and unassigned characters; joiners between emoji are as they should be."""
    for index, character in enumerate(text):
        if character in _KEPT or unicodedata.category(character) not in ("Cf", "Cc", "Co", "Cn", "Cs"):
            continue
        if character == _JOINER and unicodedata.category(text[index - 1 : index] or " ") in (
            "So",
            "Mn",
            "Sk",
        ):
            continue
        yield character


def _all_texts(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """Every text of a definition, names of members included: a model reads all of them."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, child in cast("Json", value).items():
            yield (*path, "(name)"), key
            yield from _all_texts(child, (*path, key))
    elif isinstance(value, list):
        for index, child in enumerate(cast("list[Any]", value)):
            yield from _all_texts(child, (*path, index))


def _folded(text: Any) -> str:
    return " ".join(text.split()).lower().rstrip(".") if isinstance(text, str) else ""
