"""Reads docstrings in the three styles that people write: Google, NumPy and Sphinx, told apart section by
section.

Only what a schema can use is kept: the summary, the text, what each parameter means, what is returned.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field
from typing import Final

_PARAMETERS: Final = frozenset(
    {"args", "arguments", "parameters", "params", "keyword args", "keyword arguments", "other parameters",
     "attributes", "fields"}
)  # fmt: skip
_RETURNS: Final = frozenset({"returns", "return", "yields", "yield"})
_OTHERS: Final = frozenset(
    {"raises", "raise", "except", "exceptions", "warns", "receives", "example", "examples", "note", "notes",
     "see also", "references", "warning", "warnings", "todo", "methods", "usage", "tip", "important"}
)  # fmt: skip
_SECTIONS: Final = _PARAMETERS | _RETURNS | _OTHERS

_GOOGLE_HEADING: Final = re.compile(r"([A-Z][A-Za-z ]*):")
_GOOGLE_ENTRY: Final = re.compile(r"\*{0,2}([A-Za-z_]\w*)\s*(?:\([^()]*(?:\([^()]*\)[^()]*)*\))?\s*:\s?(.*)")
_NUMPY_ENTRY: Final = re.compile(r"(\*{0,2}[A-Za-z_]\w*(?:\s*,\s*\*{0,2}[A-Za-z_]\w*)*)\s*(?::.*)?")
_SPHINX_FIELD: Final = re.compile(r":([A-Za-z]+)((?:\s+[^:]*?)?):(?:\s+(.*)|\s*)")
_SPHINX_PARAMETERS: Final = frozenset(
    {"param", "parameter", "arg", "argument", "key", "keyword", "kwarg", "var", "ivar", "cvar"}
)
_SPHINX_RETURNS: Final = frozenset({"return", "returns", "yield", "yields"})
_SPHINX_FIELDS: Final = (
    _SPHINX_PARAMETERS
    | _SPHINX_RETURNS
    | {"type", "rtype", "vartype", "raise", "raises", "except", "exception", "meta"}
)


@dataclass(frozen=True, slots=True)
class Docstring:
    """What a docstring says."""

    summary: str = ""
    whole: str = ""
    """The text as written, less the sections on parameters and results, which the schema carries."""
    parameters: dict[str, str] = field(default_factory=dict[str, str])
    returns: str = ""


def parse(text: str | None) -> Docstring:
    """Read a docstring, whatever its style; an absent one says nothing."""
    if not text or not text.strip():
        return Docstring()
    lines = inspect.cleandoc(text).splitlines()
    found = _Found()
    kept = _take_sphinx(_take_sections(lines, found), found)
    whole = _tidy(kept)
    summary = _join(whole.split("\n\n", 1)[0].splitlines())
    return Docstring(summary, whole, found.parameters, found.returns)


@dataclass(slots=True)
class _Found:
    parameters: dict[str, str] = field(default_factory=dict[str, str])
    returns: str = ""


def _take_sections(lines: list[str], found: _Found) -> list[str]:
    """Read the Google and NumPy sections; the lines that are none of theirs come back."""
    kept: list[str] = []
    index = 0
    while index < len(lines):
        section = _heading(lines, index)
        if section is None:
            kept.append(lines[index])
            index += 1
            continue
        name, start, numpy = section
        end = _end_of_section(lines, start, numpy=numpy)
        body = lines[start:end]
        if name in _PARAMETERS:
            found.parameters.update(_numpy_entries(body) if numpy else _google_entries(body))
        elif name in _RETURNS:
            found.returns = _numpy_returns(body) if numpy else _google_returns(body)
        else:
            kept += lines[index:end]
        index = end
    return kept


def _heading(lines: list[str], index: int) -> tuple[str, int, bool] | None:
    """The section that begins here: its name, its first line, and whether it is a NumPy one."""
    line = lines[index].strip()
    following = lines[index + 1] if index + 1 < len(lines) else ""
    underline = following.strip()
    if line.lower() in _SECTIONS and len(underline) >= 3 and set(underline) <= {"-", "="}:
        return line.lower(), index + 2, True
    match = _GOOGLE_HEADING.fullmatch(line)
    if match and match[1].lower() in _SECTIONS and lines[index] == lines[index].lstrip():
        # A heading has an indented body; "Returns: a number" and the like are a sentence.
        rest = [later for later in lines[index + 1 :] if later.strip()]
        if rest and rest[0].startswith((" ", "\t")):
            return match[1].lower(), index + 1, False
    return None


def _end_of_section(lines: list[str], start: int, *, numpy: bool) -> int:
    for index in range(start, len(lines)):
        line = lines[index]
        if numpy:
            if _heading(lines, index) is not None or _SPHINX_FIELD.match(line):
                return index
        elif line.strip() and not line.startswith((" ", "\t")):
            return index
    return len(lines)


def _google_entries(body: list[str]) -> dict[str, str]:
    return _entries(body, _GOOGLE_ENTRY)


def _entries(body: list[str], pattern: re.Pattern[str]) -> dict[str, str]:
    """`name (type): text`, continued on deeper lines."""
    entries: dict[str, list[str]] = {}
    indent = _indent(body)
    current: list[str] = []
    for line in body:
        match = pattern.fullmatch(line.strip()) if _depth(line) == indent else None
        if match:
            current = entries.setdefault(match[1], [])
            current.append(match[2])
        else:
            current.append(line.strip())
    return {name: _join(parts) for name, parts in entries.items()}


def _google_returns(body: list[str]) -> str:
    text = _join(body)
    # "list[str]: The names." - the type is known from the signature.
    match = re.match(r"[A-Za-z_][\w.]*(?:\[[^:]*\])?:\s+(.+)", text)
    return match[1] if match else text


def _numpy_entries(body: list[str]) -> dict[str, str]:
    """`name : type` on its own line, the text indented below; several names may share it."""
    entries: dict[str, str] = {}
    names: list[str] = []
    parts: list[str] = []
    indent = _indent(body)
    for line in [*body, " " * indent + "_"]:
        match = _NUMPY_ENTRY.fullmatch(line.strip()) if _depth(line) == indent and line.strip() else None
        if match:
            entries.update(dict.fromkeys(names, _join(parts)))
            names = [name.strip().lstrip("*") for name in match[1].split(",")]
            parts = []
        else:
            parts.append(line.strip())
    return entries


def _numpy_returns(body: list[str]) -> str:
    indent = _indent(body)
    deeper = [line for line in body if _depth(line) > indent]
    return _join(deeper or body)


def _take_sphinx(lines: list[str], found: _Found) -> list[str]:
    """Read `:param name: text` fields; the lines that are none come back."""
    kept: list[str] = []
    index = 0
    while index < len(lines):
        match = _SPHINX_FIELD.fullmatch(lines[index].strip())
        if match is None or match[1].lower() not in _SPHINX_FIELDS:
            kept.append(lines[index])
            index += 1
            continue
        parts = [match[3] or ""]
        index += 1
        while index < len(lines) and (lines[index].startswith((" ", "\t")) and lines[index].strip()):
            parts.append(lines[index].strip())
            index += 1
        _note_sphinx(match[1].lower(), match[2].split(), _join(parts), found)
    return kept


def _note_sphinx(kind: str, words: list[str], text: str, found: _Found) -> None:
    if kind in _SPHINX_PARAMETERS and words:
        found.parameters[words[-1].lstrip("*")] = text  # `:param int count:` has its type first
    elif kind in _SPHINX_RETURNS:
        found.returns = text


def sentences(first: str | None, second: str) -> str:
    """Two pieces of text, one after the other; the first is ended where its author did not."""
    if not first or not second:
        return first or second
    return f"{first} {second}" if first[-1] in ".!?:;" else f"{first}. {second}"


def _indent(lines: list[str]) -> int:
    return min((_depth(line) for line in lines if line.strip()), default=0)


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def _join(lines: list[str]) -> str:
    """One paragraph from lines that were broken for the editor's sake."""
    return " ".join(" ".join(lines).split())


def _tidy(lines: list[str]) -> str:
    return re.sub(r"\n{3,}", "\n\n", "\n".join(line.rstrip() for line in lines)).strip()
