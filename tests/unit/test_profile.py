"""Claims about how a server is presented to clients of either era."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mooring.gateway import profile
from mooring.gateway.profile import TASKS_EXTENSION
from mooring.protocol import meta
from mooring.protocol.versions import LEGACY_VERSIONS, Era

CAPABILITIES = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": False},
    "prompts": {},
    "experimental": {"vendor": {"a": None}},
    "future": {"x": 1},
}
INFO = {"name": "files", "version": "2", "title": "Files", "icons": []}


def initialized(**changes: Any) -> profile.Profile:
    result = {
        "protocolVersion": "2025-06-18",
        "capabilities": CAPABILITIES,
        "serverInfo": INFO,
        "instructions": "read",
    }
    return profile.from_initialize(json.dumps({**result, **changes}).encode())


def discovered(**changes: Any) -> profile.Profile:
    result = {"capabilities": CAPABILITIES, "instructions": "read", "_meta": {meta.SERVER_INFO: INFO}}
    return profile.from_discover(json.dumps({**result, **changes}).encode(), "2026-07-28")


def test_flags_are_what_the_server_said_and_nothing_more() -> None:
    known = initialized()
    assert known.flag("tools", "listChanged")
    assert not known.flag("tools", "subscribe")
    assert not known.flag("resources", "subscribe")
    assert not known.flag("prompts", "listChanged")
    assert not known.flag("logging", "listChanged")
    assert known.capability("prompts") == {}
    assert known.capability("logging") is None


def test_a_capability_of_null_is_one_the_server_lacks() -> None:
    known = initialized(capabilities={"tools": None, "prompts": {"listChanged": None}})
    assert known.capability("tools") is None
    assert not known.flag("tools", "listChanged")
    assert not known.flag("prompts", "listChanged")


@pytest.mark.parametrize("version", LEGACY_VERSIONS)
@pytest.mark.parametrize("known", [initialized(), discovered()], ids=["legacy", "modern"])
def test_legacy_clients_see_the_server_as_it_is_in_their_own_revision(
    known: profile.Profile, version: str
) -> None:
    result = json.loads(profile.initialize_result(known, version, "id"))
    added = result["capabilities"].pop("tasks", None)
    assert result == {
        "protocolVersion": version,
        "capabilities": CAPABILITIES,
        "serverInfo": INFO,
        "instructions": "read",
    }
    assert (added is not None) == (known.era is Era.MODERN and version == "2025-11-25"), (
        "only where we keep them"
    )


def test_modern_clients_see_the_server_as_it_is() -> None:
    result = json.loads(profile.discover_result(discovered(), "id"))
    assert result["capabilities"] == CAPABILITIES
    assert result["_meta"] == {meta.SERVER_INFO: INFO}
    assert result["supportedVersions"] == ["2026-07-28"]
    assert (result["resultType"], result["ttlMs"], result["cacheScope"]) == ("complete", 0, "private")
    assert result["instructions"] == "read"


def test_modern_clients_of_a_legacy_server_are_told_of_our_tasks_and_not_of_its_own() -> None:
    known = initialized(capabilities={**CAPABILITIES, "tasks": {"list": {}}, "extensions": {"a/b": {"c": 1}}})
    result = json.loads(profile.discover_result(known, "id"))
    assert result["capabilities"] == {**CAPABILITIES, "extensions": {"a/b": {"c": 1}, TASKS_EXTENSION: {}}}


def test_a_server_that_does_not_introduce_itself_goes_by_its_id() -> None:
    known = profile.from_initialize(b'{"protocolVersion":"2024-11-05"}')
    assert json.loads(profile.initialize_result(known, "2024-11-05", "files")) == {
        "protocolVersion": "2024-11-05",
        "capabilities": {},
        "serverInfo": {"name": "files", "version": "unknown"},
    }
    shown = json.loads(profile.discover_result(known, "files"))
    assert shown["_meta"][meta.SERVER_INFO]["name"] == "files"
    assert "instructions" not in shown


@pytest.mark.parametrize("version", [None, 5, []])
def test_a_server_without_a_revision_has_an_empty_one(version: object) -> None:
    assert initialized(protocolVersion=version).version == ""
