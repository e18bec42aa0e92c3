"""From the text of a YAML or JSON file to plain values that remember where they stood."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, cast

from msgspec import Struct, field
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from mooring.config.problems import KeyPath, Position, Problem

# A file that says more than this is not a configuration; it also stops alias bombs.
MAX_VALUES = 200_000

_VARIABLE = re.compile(r"\$(\$)?\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_COMMENT_OR_STRING = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_SCALARS = {f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "float", "bool", "null")}


class Document(Struct):
    """The values of a file, where each stood, and which came from the environment."""

    value: Any
    positions: dict[KeyPath, Position] = field(default_factory=dict[KeyPath, Position])
    from_environment: set[KeyPath] = field(default_factory=set[KeyPath])
    problems: list[Problem] = field(default_factory=list[Problem])
    renamed: dict[KeyPath, KeyPath] = field(default_factory=dict[KeyPath, KeyPath])
    """Keys of ours that stand for others in the file of another program."""

    def position(self, path: KeyPath) -> Position | None:
        """Where this key stands, or the nearest thing around it."""
        for length in range(len(path), -1, -1):
            if found := self.positions.get(path[:length]):
                return found
        return None

    def report(self, path: KeyPath, message: str) -> None:
        """Note a problem with this key, by the name that it has in the file."""
        for length in range(len(path), 0, -1):
            if (theirs := self.renamed.get(path[:length])) is not None:
                path = (*theirs, *path[length:])
                break
        self.problems.append(Problem(path, message, self.position(path)))


def parse(text: str, *, is_json: bool) -> Document:
    """Read the text; what is wrong with it is in the document's problems."""
    document = Document(None)
    try:
        if is_json:
            _read_json(text, document)
        else:
            _read_yaml(text, document)
    except json.JSONDecodeError as error:
        document.problems.append(
            Problem((), f"is not JSON: {error.msg}", Position(error.lineno, error.colno))
        )
    except MarkedYAMLError as error:
        document.problems.append(_yaml_problem(error))
    except (YAMLError, RecursionError) as error:
        document.problems.append(Problem((), f"is not YAML: {error}".splitlines()[0]))
    return document


def expand_variables(document: Document, environment: Mapping[str, str]) -> None:
    """Fill in `${NAME}` and `${NAME:-default}` in every string; `$${NAME}` means `${NAME}`."""
    document.value = _expanded(document.value, (), document, environment)


def _expanded(value: Any, path: KeyPath, document: Document, environment: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {key: _expanded(item, (*path, key), document, environment) for key, item in items}
    if isinstance(value, list):
        entries = enumerate(cast("list[Any]", value))
        return [_expanded(item, (*path, index), document, environment) for index, item in entries]
    if not isinstance(value, str) or "${" not in value:
        return value

    def replacement(match: re.Match[str]) -> str:
        escaped, name, default = match.groups()
        if escaped:
            return match.group()[1:]
        document.from_environment.add(path)
        # As in a shell: with a default, an empty variable counts as unset.
        if default is not None:
            return environment.get(name) or default
        if name not in environment:
            document.report(
                path, f"needs the environment variable `{name}`: set it, or write `${{{name}:-default}}`"
            )
        return environment.get(name, "")

    return _VARIABLE.sub(replacement, value)


def _read_json(text: str, document: Document) -> None:
    duplicates: list[str] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        seen: dict[str, Any] = {}
        for key, value in items:
            if key in seen:
                duplicates.append(key)
            seen[key] = value
        return seen

    document.value = json.loads(_without_comments(text), object_pairs_hook=pairs)
    for key in duplicates:
        document.report((), f"the key `{key}` stands twice in one object: remove one of them")


def _without_comments(text: str) -> str:
    """JSON as VS Code writes it: comments become spaces, so that line and column stay right."""

    def blank(match: re.Match[str]) -> str:
        found = match.group()
        return found if found.startswith('"') else re.sub(r"[^\n]", " ", found)

    return _COMMENT_OR_STRING.sub(blank, text)


def _read_yaml(text: str, document: Document) -> None:
    yaml: Any = YAML(typ="safe", pure=True)
    root = yaml.compose(text)
    if root is not None:
        document.value = _Composer(yaml, document).value(root, ())


class _Composer:
    """Turns YAML's node graph into plain values; the library has no types, hence `Any`."""

    def __init__(self, yaml: Any, document: Document) -> None:
        self.yaml = yaml
        self.document = document
        self.values_left = MAX_VALUES

    def value(self, node: Any, path: KeyPath) -> Any:
        self.values_left -= 1
        if self.values_left < 0:
            raise YAMLError("it holds too many values")
        self.document.positions.setdefault(path, _position(node))
        if node.id == "mapping":
            return self._mapping(node, path)
        if node.id == "sequence":
            return [self.value(item, (*path, index)) for index, item in enumerate(node.value)]
        # Dates and foreign tags: what the person typed is what we mean.
        return self.yaml.constructor.construct_object(node) if str(node.tag) in _SCALARS else node.value

    def _mapping(self, node: Any, path: KeyPath) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value)
            here = (*path, key)
            self.document.positions[here] = _position(key_node)
            if key in values:
                self.document.report(here, "stands twice: remove one of them")
            values[key] = self.value(value_node, here)
        return values


def _yaml_problem(error: Any) -> Problem:
    mark = error.problem_mark
    place = Position(mark.line + 1, mark.column + 1) if mark else None
    return Problem((), f"is not YAML: {error.problem or error.context}", place)


def _position(node: Any) -> Position:
    return Position(node.start_mark.line + 1, node.start_mark.column + 1)
