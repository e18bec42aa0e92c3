"""A Remote MCP Adapter `config.yaml`, taken as it is: its keys become ours, with its own defaults.

A key that guards something and has no counterpart here is an error; all others without one are named in one
note. A key that program does not know either is an error, as it is there.
"""

from __future__ import annotations

import re
from typing import Any, cast

from mooring.config.problems import KeyPath, key_text
from mooring.config.source import Document

Json = dict[str, Any]
FOR_EVER_SECONDS = 10 * 365 * 86_400
DEFAULTS: dict[KeyPath, Any] = {
    ("uploads", "max_file_bytes"): "10Mi",
    ("uploads", "ttl_seconds"): 120,
    ("uploads", "link_ttl_seconds"): 120,
    ("artifacts", "ttl_seconds"): 600,
    ("storage", "root"): "/data/shared",
    ("sessions", "idle_ttl_seconds"): FOR_EVER_SECONDS,
}
# Where a key of theirs goes; the same place if only the section is the same.
MOVED: dict[KeyPath, KeyPath] = {
    ("core", "public_base_url"): ("public_url",),
    ("core", "allow_artifacts_download"): ("core", "allow_artifacts_download"),
    ("core", "tool_definition_pinning"): ("core", "tool_definition_pinning"),
    ("core", "upload_path"): ("uploads", "path"),
    ("core", "auth", "signed_upload_ttl_seconds"): ("uploads", "link_ttl_seconds"),
    **{
        (section, key): (section, key)
        for section, keys in {
            "uploads": ("enabled", "max_file_bytes", "ttl_seconds", "require_sha256"),
            "artifacts": ("enabled", "ttl_seconds", "max_per_session", "expose_as_resources"),
            "storage": ("root", "max_size"),
            "sessions": (
                "idle_ttl_seconds",
                "max_active",
                "max_in_flight_per_session",
                "max_total_session_size",
                "tombstone_ttl_seconds",
                "upstream_session_termination_retries",
            ),
        }.items()
        for key in keys
    },
}
# What guards something, the values that ask for no guard, and what to do instead.
GUARDS: dict[KeyPath, tuple[tuple[Any, ...], str]] = {
    ("core", "auth", "enabled"): ((False,), "use `auth.mode: api_key` in Mooring's own format"),
    ("core", "tool_metadata_sanitization", "mode"): (("off",), "use `core.sanitize` in Mooring's own format"),
    ("servers", "*", "tool_metadata_sanitization", "mode"): ((None, "off"), "use `core.sanitize`"),
    ("servers", "*", "tool_definition_pinning", "mode"): ((None, "off"), "pinning is for all servers alike"),
    ("servers", "*", "upstream", "client_headers", "required"): (
        ([],),
        "remove it: headers are not passed on",
    ),
}
# What has no counterpart and guards nothing.
IGNORED: set[KeyPath] = {
    *(("core", key) for key in ("log_level", "max_start_wait_seconds", "cleanup_interval_seconds")),
    *(("core", key) for key in ("code_mode_enabled", "shorten_descriptions", "short_description_max_tokens")),
    *(("core", key) for key in ("tool_description_policy", "upstream_metadata_cache_ttl_seconds")),
    *(("core", key) for key in ("upstream_ping", "tool_metadata_sanitization", "auth")),
    *(("telemetry",), ("state_persistence",)),
    *(("storage", key) for key in ("atomic_writes", "lock_mode", "orphan_sweeper_enabled")),
    *(("storage", key) for key in ("orphan_sweeper_grace_seconds", "artifact_locator_policy")),
    ("storage", "artifact_locator_allowed_roots"),
    *(("sessions", key) for key in ("allow_revival", "eviction_policy")),
    *((section, "uri_scheme") for section in ("uploads", "artifacts")),
}
_IGNORED_IN_SERVER = {
    "code_mode_enabled", "shorten_descriptions", "short_description_max_tokens", "tool_description_policy",
    "tool_metadata_sanitization", "tool_definition_pinning", "upstream_ping",
}  # fmt: skip
_ADAPTER_KEYS = {
    "type", "tools", "file_path_argument", "uri_prefix", "output_path_argument", "output_locator", "persist",
    "expose_as_resource", "allow_raw_output",
}  # fmt: skip
_PLAIN_NAME = re.compile(r"[\w-]+")


def is_adapter(value: object) -> bool:
    """Whether these are the contents of such a file."""
    if not isinstance(value, dict) or "mooring" in value:
        return False
    servers = cast("Json", value).get("servers")
    entries = cast("list[Any]", servers) if isinstance(servers, list) else []
    return any(isinstance(entry, dict) and "mount_path" in entry for entry in entries)


def translate(document: Document) -> tuple[str, ...]:
    """Rewrite the document into our own keys; the answer says what was decided."""
    return _Translation(document).run()


class _Translation:
    def __init__(self, document: Document) -> None:
        self._document = document
        self._given = cast("Json", document.value)
        self._made: Json = {"mooring": 1}
        self._ignored: list[str] = []

    def run(self) -> tuple[str, ...]:
        for path, value in DEFAULTS.items():
            self._put(path, value)
        self._guards()
        for name, section in self._given.items():
            if name == "servers":
                continue
            if not isinstance(section, dict) or name not in _SECTIONS:
                self._document.report((name,), "is not a section of a Remote MCP Adapter configuration")
                continue
            self._section((name,), cast("Json", section))
        notes = self._listen()
        entries = cast("list[Any]", self._given["servers"])
        self._made["servers"] = [self._server(index, entry) for index, entry in enumerate(entries)]
        self._document.value = self._made
        if self._ignored:
            notes.append(f"these keys have no meaning here and were left out: {', '.join(self._ignored)}")
        return tuple(notes)

    def _guards(self) -> None:
        for pattern, (harmless, advice) in GUARDS.items():
            for path, value in _found(self._given, pattern, ()):
                if value not in harmless:
                    self._document.report(path, f"asks for a guard that is not here: {advice}")

    def _section(self, path: KeyPath, section: Json) -> None:
        for key, value in section.items():
            here = (*path, key)
            if here in MOVED:
                self._move(here, MOVED[here], value)
            elif here in _READ_APART:
                continue
            elif here == ("core", "auth"):
                self._section(here, _object(value))
            elif here in IGNORED or here[:2] in IGNORED or here[:1] in IGNORED:
                self._ignored.append(f"`{key_text(here)}`")
            else:
                self._document.report(here, "is not a key of a Remote MCP Adapter configuration: remove it")

    def _move(self, old: KeyPath, new: KeyPath, value: Any) -> None:
        if value is None and new[-1] in ("ttl_seconds", "idle_ttl_seconds"):
            value = FOR_EVER_SECONDS
        self._put(new, value)
        if (found := self._document.positions.get(old)) is not None:
            self._document.positions[new] = found

    def _put(self, path: KeyPath, value: Any) -> None:
        section = self._made
        for step in path[:-1]:
            section = section.setdefault(str(step), {})
        section[str(path[-1])] = value

    def _listen(self) -> list[str]:
        core = _object(self._given.get("core"))
        host, port = core.get("host", "0.0.0.0"), core.get("port", 8932)  # noqa: S104 - its own default
        self._move(("core", "port"), ("listen",), f"{host}:{port}")
        cors = _object(core.get("cors"))
        if cors.get("enabled"):
            self._move(("core", "cors"), ("cors",), {"allowed_origins": cors.get("allowed_origins", [])})
        if _object(core.get("auth")).get("enabled"):
            return []
        self._put(("auth", "insecure_allow_anonymous"), True)
        return [f"everybody who can reach {host}:{port} may call, as the file says (`core.auth`)"]

    # Servers

    def _server(self, index: int, entry: Any) -> Json:
        path: KeyPath = ("servers", index)
        if not isinstance(entry, dict):
            self._document.report(path, "must be a section with keys")
            return {}
        given = cast("Json", entry)
        made: Json = {"files": {"shared_directory": str(self._made["storage"]["root"])}}
        for key, value in given.items():
            here = (*path, key)
            match key:
                case "id" | "mount_path":
                    made[key] = value
                case "upstream":
                    made["upstream"] = self._upstream(here, _object(value))
                case "adapters":
                    entries = cast("list[Any]", value) if isinstance(value, list) else []
                    made["adapters"] = [
                        self._adapter((*here, number), _object(item), given)
                        for number, item in enumerate(entries)
                    ]
                case "disabled_tools":
                    made["tools"] = {"deny": self._denied(here, value)}
                case "tool_defaults":
                    self._ignore_overrides(here, _object(value))
                case _ if key in _IGNORED_IN_SERVER:
                    if value not in (None, {}):
                        self._ignored.append(f"`{key_text(here)}`")
                case _:
                    self._document.report(here, "is not a key of a server there: remove it")
        made["timeouts"] = {"call_seconds": self._call_seconds(given)}
        return made

    def _call_seconds(self, given: Json) -> Any:
        defaults = _object(_object(self._given.get("core")).get("defaults"))
        own = _object(given.get("tool_defaults")).get("tool_call_timeout_seconds")
        return own if own is not None else defaults.get("tool_call_timeout_seconds", 60)

    def _upstream(self, path: KeyPath, given: Json) -> Json:
        made: Json = {"transport": given.get("transport", "streamable_http")}
        for key, value in given.items():
            if key == "url":
                made["url"] = value
            elif key == "static_headers":
                made["headers"] = value
            elif key in ("insecure_tls", "client_headers"):
                if value not in (False, None, {}):
                    self._ignored.append(f"`{key_text((*path, key))}`")
            elif key != "transport":
                self._document.report((*path, key), "is not a key of an upstream there: remove it")
        return made

    def _adapter(self, path: KeyPath, given: Json, server: Json) -> Json:
        made: Json = {}
        for key, value in given.items():
            if key in _ADAPTER_KEYS:
                made[key] = value
            elif key == "include_raw_output":
                made["allow_raw_output"] = value
            elif key == "overrides":
                self._ignore_overrides((*path, key), _object(value))
            elif key == "uri_scheme":
                if value != "upload://":
                    self._ignored.append(f"`{key_text((*path, key))}`")
            else:
                self._document.report((*path, key), "is not a key of an adapter there: remove it")
        if made.get("type") == "artifact_producer" and made.get("allow_raw_output") is None:
            made["allow_raw_output"] = self._raw_output(given, server)
        return {key: value for key, value in made.items() if value is not None}

    def _raw_output(self, given: Json, server: Json) -> Any:
        """The nearest of the places that may say it."""
        core = _object(_object(self._given.get("core")).get("defaults"))
        for section in (_object(given.get("overrides")), _object(server.get("tool_defaults")), core):
            if section.get("allow_raw_output") is not None:
                return section["allow_raw_output"]
        return False

    def _ignore_overrides(self, path: KeyPath, given: Json) -> None:
        for key in given:
            if key not in ("allow_raw_output", "tool_call_timeout_seconds"):
                self._document.report((*path, key), "is not a key there: remove it")
        if "adapters" in path and given.get("tool_call_timeout_seconds") is not None:
            self._ignored.append(f"`{key_text((*path, 'tool_call_timeout_seconds'))}`")

    def _denied(self, path: KeyPath, value: Any) -> list[str]:
        """Names as they are; of regular expressions only those that our patterns can say."""
        denied: list[str] = []
        for index, text in enumerate(cast("list[Any]", value) if isinstance(value, list) else []):
            pattern = str(text).replace(".*", "*")
            if _PLAIN_NAME.fullmatch(pattern.replace("*", "x")):
                denied.append(pattern)
            else:
                self._document.report(
                    (*path, index),
                    f"`{text}` cannot be said here: name the tools, with `.*` for any part of a name",
                )
        return denied


_SECTIONS = {"core", "telemetry", "state_persistence", "storage", "sessions", "uploads", "artifacts"}
_READ_APART: set[KeyPath] = {
    *(("core", key) for key in ("host", "port", "cors", "defaults")),
    *(("core", "auth", key) for key in ("enabled", "header_name", "token", "signing_secret")),
}


def _found(value: Any, pattern: KeyPath, path: KeyPath) -> list[tuple[KeyPath, Any]]:
    if not pattern:
        return [(path, value)]
    if pattern[0] == "*" and isinstance(value, list):
        items = enumerate(cast("list[Any]", value))
        return [hit for index, item in items for hit in _found(item, pattern[1:], (*path, index))]
    if isinstance(value, dict) and pattern[0] in value:
        return _found(cast("Json", value)[str(pattern[0])], pattern[1:], (*path, pattern[0]))
    return []


def _object(value: Any) -> Json:
    return cast("Json", value) if isinstance(value, dict) else {}
