"""Reading policies and entities from files: Cedar text, or ToolHive's authorization file in JSON or YAML."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import cedarpy
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from mooring.errors import MooringError

ACTIONS: Final = (
    *("call_tool", "get_prompt", "read_resource", "run_workload"),
    *("list_tools", "list_prompts", "list_resources"),
)
GROUP_TYPE: Final = "THVGroup"
SERVER_TYPE: Final = "MCP"
SERVER_GROUP_TYPE: Final = "MCPGroup"
RESOURCE_TYPES: Final = frozenset(
    {"Tool", "Prompt", "Resource", "FeatureType", "Workload", SERVER_TYPE, SERVER_GROUP_TYPE}
)
Json = dict[str, Any]


class PolicyMistake(MooringError):
    """A policy or entity file cannot be used; the message names file and line."""


@dataclass(frozen=True, slots=True)
class Written:
    """One policy and where it stands."""

    text: str
    file: Path
    line: int
    parsed: Json

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def is_forbid(self) -> bool:
        return self.parsed["effect"] == "forbid"

    @property
    def label(self) -> str:
        """Its `@id`, or where it stands."""
        annotations: Json = self.parsed.get("annotations") or {}
        return annotations.get("id") or self.place


@dataclass(frozen=True, slots=True)
class Sources:
    """Everything that the files say."""

    policies: tuple[Written, ...]
    entities: tuple[Json, ...]
    version: str
    group_claim: str | None = None
    role_claim: str | None = None
    group_type: str | None = None


def read_sources(policy_files: tuple[Path, ...], entities_file: Path | None) -> Sources:
    """Read and check all files; raises `PolicyMistake`."""
    policies: list[Written] = []
    entities: list[Json] = []
    settings: Json = {}
    digest = hashlib.sha256()
    for file in policy_files:
        text = _text(file)
        digest.update(text.encode() + b"\0")
        if file.suffix.lower() in (".json", ".yaml", ".yml"):
            section = _toolhive(file, text)
            settings |= section
            for entry in cast("list[Any]", section.get("policies") or []):
                policies += _policies(str(entry), file, _line_of(text, str(entry)))
            entities += _entities(file, section.get("entities_json") or "[]")
        else:
            policies += _policies(text, file, 1)
    if entities_file is not None:
        text = _text(entities_file)
        digest.update(text.encode())
        entities += _entities(entities_file, text)
    named = set(_named(entities))
    known = {kind for kind, _ in named}
    for policy in policies:
        _check_actions(policy, named)
        _check_types(policy, "principal", {"Client", settings.get("group_entity_type") or GROUP_TYPE} | known)
        _check_types(policy, "resource", RESOURCE_TYPES | known)
    return Sources(
        tuple(policies),
        tuple(entities),
        digest.hexdigest()[:16],
        settings.get("group_claim_name") or None,
        settings.get("role_claim_name") or None,
        settings.get("group_entity_type") or None,
    )


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise PolicyMistake(f"{file}: cannot be read: {(error.strerror or str(error)).lower()}") from error
    except UnicodeDecodeError as error:
        raise PolicyMistake(f"{file}: is not UTF-8: {error}") from error


def _toolhive(file: Path, text: str) -> Json:
    try:
        yaml: Any = YAML(typ="safe")
        loaded: Any = json.loads(text) if file.suffix.lower() == ".json" else yaml.load(text)
    except (ValueError, YAMLError) as error:
        raise PolicyMistake(f"{file}: {error}") from error
    document = cast("Json", loaded) if isinstance(loaded, dict) else {}
    if document.get("type") != "cedarv1" or not isinstance(document.get("cedar"), dict):
        raise PolicyMistake(f"{file}: must have `type: cedarv1` and a section `cedar`")
    return cast("Json", document["cedar"])


def _policies(text: str, file: Path, first_line: int) -> Iterator[Written]:
    for piece, line in split(text):
        place = f"{file}:{first_line + line - 1}"
        try:
            parsed = json.loads(cedarpy.policies_to_json_str(piece))
        except ValueError as error:
            raise PolicyMistake(f"{place}: {error}") from error
        if parsed.get("templates"):
            raise PolicyMistake(f"{place}: templates are not supported: write the entity itself")
        for policy in parsed["staticPolicies"].values():
            yield Written(piece, file, first_line + line - 1, policy)


def split(text: str) -> Iterator[tuple[str, int]]:
    """The policies of a text, each with the number of the line it begins in."""
    start = position = 0
    while position < len(text):
        character = text[position]
        if text.startswith("//", position):
            position = _after(text, "\n", position)
        elif character == '"':
            position = _after_string(text, position)
        elif character == ";":
            position += 1
            yield _piece(text, start, position)
            start = position
        else:
            position += 1
    rest, line = _piece(text, start, position)
    if any(part.strip() and not part.strip().startswith("//") for part in rest.splitlines()):
        yield rest, line


def _piece(text: str, start: int, end: int) -> tuple[str, int]:
    while start < end:
        if text[start].isspace():
            start += 1
        elif text.startswith("//", start):
            start = min(_after(text, "\n", start), end)
        else:
            break
    return text[start:end], text.count("\n", 0, start) + 1


def _after(text: str, mark: str, position: int) -> int:
    found = text.find(mark, position)
    return len(text) if found < 0 else found + len(mark)


def _after_string(text: str, position: int) -> int:
    position += 1
    while position < len(text) and text[position] != '"':
        position += 2 if text[position] == "\\" else 1
    return position + 1


def _line_of(text: str, policy: str) -> int:
    """Where a policy begins inside a JSON or YAML file, as well as that can be said."""
    first = policy.strip().splitlines()[0] if policy.strip() else ""
    for form in (first, json.dumps(first)[1:-1]):
        found = text.find(form)
        if first and found >= 0:
            return text.count("\n", 0, found) + 1
    return 1


def _entities(file: Path, text: Any) -> list[Json]:
    try:
        loaded: Any = json.loads(text) if isinstance(text, str) else text
        if not isinstance(loaded, list):
            raise TypeError("must be a list of entities")
        library: Any = cedarpy.Entities
        library.from_json_str(json.dumps(loaded))
    except (ValueError, TypeError) as error:
        raise PolicyMistake(f"{file}: {error}") from error
    return cast("list[Json]", loaded)


def _check_actions(policy: Written, more: set[tuple[str, str]]) -> None:
    """A misspelled action matches nothing, which a person notices only when it is too late."""
    scope = policy.parsed["action"]
    named = [scope["entity"]] if "entity" in scope else scope.get("entities", [])
    for entity in named:
        if entity["id"] not in ACTIONS and (entity["type"], entity["id"]) not in more:
            known = ", ".join(ACTIONS[:4])
            raise PolicyMistake(f"{policy.place}: there is no action `{entity['id']}`; known are {known}")


def _check_types(policy: Written, part: str, known: AbstractSet[str]) -> None:
    """So does a type that nothing has."""
    scope: Json = policy.parsed[part]
    inside: Json = scope.get("in") or {}
    types = {given["entity"]["type"] for given in (scope, inside) if "entity" in given}
    if "entity_type" in scope:
        types.add(scope["entity_type"])
    for unknown in sorted(types - known):
        listed = ", ".join(f"`{name}`" for name in sorted(known))
        raise PolicyMistake(
            f"{policy.place}: no {part} is a `{unknown}`, nor in one; known are {listed}, and the types of "
            "your entities"
        )


def _named(entities: list[Json]) -> Iterator[tuple[str, str]]:
    """Every entity that a file speaks of."""
    for entity in entities:
        parents: list[Json] = entity.get("parents") or []
        for uid in (cast("Json", entity["uid"]), *parents):
            plain = cast("Json", uid.get("__entity", uid))
            yield plain["type"], plain["id"]
