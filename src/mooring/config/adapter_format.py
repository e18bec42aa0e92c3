"""A Remote MCP Adapter `config.yaml`, taken as it is: its keys become ours, with its own defaults.

A key that guards something and has no counterpart here is an error; all others without one are named in one
note. A key that program does not know either is an error, as it is there. Errors name the keys of the file.
"""

from __future__ import annotations

import re
from typing import Any, cast

from mooring.config import adapter_keys as keys
from mooring.config import adapter_values
from mooring.config.locations import AdapterPlaces
from mooring.config.policy_rules import has_telemetry
from mooring.config.problems import KeyPath, key_text
from mooring.config.source import Document

Json = dict[str, Any]
_PLAIN_NAME = re.compile(r"[\w-]+")


def translate(document: Document, places: AdapterPlaces) -> tuple[str, ...]:
    """Rewrite the document into our own keys; the answer says what was decided. With values that are wrong
    nothing is made of it.

    Its `storage.root` is a folder that servers can read, so our own data goes elsewhere.
    """
    return _Translation(document, places).run() if adapter_values.check(document) else ()


class _Translation:
    def __init__(self, document: Document, places: AdapterPlaces) -> None:
        self._document = document
        self._places = places
        self._given = cast("Json", document.value)
        self._core = _object(self._given.get("core"))
        self._made: Json = {"mooring": 1}
        self._notes: list[str] = []
        self._ignored: list[str] = []

    def run(self) -> tuple[str, ...]:
        for path, value in keys.DEFAULTS.items():
            self._put(path, value)
        for name, section in self._given.items():
            if name == "servers":
                continue
            if not isinstance(section, dict) or name not in keys.SECTIONS:
                self._report((name,), "is not a section of a Remote MCP Adapter configuration")
                continue
            self._section((name,), cast("Json", section))
        notes = [*self._listen(), *self._auth(), *self._state(), *self._figures()]
        self._made.setdefault("core", {})["sanitize"] = self._sanitizing(None, {})
        self._rename(("core", "sanitize"), ("core", "tool_metadata_sanitization"))
        entries = cast("list[Any]", self._given["servers"])
        self._made["servers"] = [self._server(index, entry) for index, entry in enumerate(entries)]
        self._document.value = self._made
        notes += self._notes
        if self._ignored:
            notes.append(f"these keys have no meaning here and were left out: {', '.join(self._ignored)}")
        return tuple(notes)

    def _report(self, path: KeyPath, message: str) -> None:
        self._document.report(path, message)

    def _ignore(self, path: KeyPath) -> None:
        self._ignored.append(f"`{key_text(path)}`")

    # Sections

    def _section(self, path: KeyPath, section: Json) -> None:
        for key, value in section.items():
            here = (*path, key)
            if here in keys.MOVED:
                self._move(here, keys.MOVED[here], value)
            elif key in keys.READ_APART.get(path, ()):
                if here in keys.READ_APART:
                    self._section(here, self._object_at(here, value))
            elif here in keys.KNOWN:
                self._section(here, self._object_at(here, value))
            elif key not in keys.KNOWN.get(path, ()):
                self._report(here, "is not a key of a Remote MCP Adapter configuration: remove it")
            elif self._asks(here, value):
                self._ignore(here)

    def _asks(self, path: KeyPath, value: Any) -> bool:
        """Whether a key without a counterpart asks for anything."""
        if value is None or value == [] or (path in _HARMLESS and value == _HARMLESS[path]):
            return False
        if path[0] == "telemetry":
            return bool(_object(self._given["telemetry"]).get("enabled"))
        if path[:2] == ("state_persistence", "redis"):
            return _object(self._given["state_persistence"]).get("type") == "redis"
        return True

    def _object_at(self, path: KeyPath, value: Any) -> Json:
        if not isinstance(value, dict):
            self._report(path, "must be a section with keys")
        return _object(value)

    def _move(self, old: KeyPath, new: KeyPath, value: Any) -> None:
        if value is None and new[-1] in ("ttl_seconds", "idle_ttl_seconds"):
            value = keys.FOR_EVER_SECONDS
        self._put(new, value)
        self._rename(new, old)

    def _rename(self, new: KeyPath, old: KeyPath) -> None:
        """Whatever is wrong with this key of ours is said of theirs."""
        self._document.renamed[new] = old

    def _put(self, path: KeyPath, value: Any) -> None:
        section = self._made
        for step in path[:-1]:
            section = section.setdefault(str(step), {})
        section[str(path[-1])] = value

    def _listen(self) -> list[str]:
        host, port = self._core.get("host", "0.0.0.0"), self._core.get("port", 8932)  # noqa: S104 - its own default
        self._move(("core", "port"), ("listen",), f"{host}:{port}")
        cors = _object(self._core.get("cors"))
        if cors.get("enabled"):
            for key, default in keys.CORS.items():
                self._move(("core", "cors", key), ("cors", key), cors.get(key, default))
        if host in ("0.0.0.0", "::") and not self._core.get("public_base_url"):  # noqa: S104 - only compared
            return [f"links will name {host}:{port}: set `core.public_base_url` if clients are elsewhere"]
        return []

    def _auth(self) -> list[str]:
        """One token that all callers share, in a header of its own."""
        given = _object(self._core.get("auth"))
        if not given.get("enabled"):
            self._put(("auth", "insecure_allow_anonymous"), True)
            return [
                f"everybody who can reach {self._made['listen']} may call, as the file says (`core.auth`)"
            ]
        self._put(("auth", "mode"), "shared_token")
        self._move(("core", "auth", "token"), ("auth", "shared_token"), given.get("token"))
        header = given.get("header_name", "X-Mcp-Adapter-Auth-Token")
        self._move(("core", "auth", "header_name"), ("auth", "shared_token_header"), header)
        return []

    def _state(self) -> list[str]:
        """What links and sessions are signed with must not be where servers can read it."""
        if not _object(self._given.get("storage")).get("root", keys.SHARED):
            self._report(("storage", "root"), "must name a folder that servers can reach")
        own, shared, named = self._places.own, self._places.shared, self._places.named
        self._put(("storage", "root"), str(own))
        key = f"`{keys.STATE}`"
        if self._places.exposed and named is None:
            self._report(
                ("storage", "root"),
                f"would show servers our own state in `{own}`: name a file outside of it with {key}",
            )
        if self._places.exposed:
            said = f"as {key} says: servers that can read `{shared}` can forge sessions and links"
        elif own == named:
            return []
        else:
            said = f"not where servers can read it{'' if named else f'; {key} chooses another folder'}"
        return [f"our own state is kept in `{own}`, {said}"]

    def _figures(self) -> list[str]:
        """Its telemetry is figures for a collector; ours go there too, if it takes them over HTTP."""
        given = _object(self._given.get("telemetry"))
        if not given.get("enabled"):
            return []
        if given.get("transport", "grpc") != "http":
            wanted = "set `telemetry.transport` to `http`, and `telemetry.endpoint` to the address for that"
            return [f"figures are not sent: collectors get them over HTTP from here; {wanted} (port 4318)"]
        if not has_telemetry():
            return ["figures are not sent (`telemetry`): install `mooring[telemetry]`"]
        endpoint = given.get("endpoint") or "http://localhost:4318/v1/metrics"
        self._move(("telemetry", "endpoint"), ("telemetry", "otlp_endpoint"), _base_of(endpoint))
        self._move(("telemetry", "headers"), ("telemetry", "otlp_headers"), given.get("headers") or {})
        self._put(("telemetry", "otlp_signals"), ["metrics"])
        self._put(("telemetry", "service_name"), given.get("service_name", "remote-mcp-adapter"))
        return []

    # What core says and a server may say otherwise

    def _merged(self, name: str, server: Json) -> Json:
        own = {key: value for key, value in _object(server.get(name)).items() if value is not None}
        return {**_object(self._core.get(name)), **own}

    def _sanitizing(self, path: KeyPath | None, server: Json) -> Json:
        given = self._merged("tool_metadata_sanitization", server)
        made = {ours: given.get(theirs, default) for theirs, (ours, default) in keys.SANITIZING.items()}
        if made["mode"] not in keys.SANITIZING_MODES:
            where: KeyPath = (*(path or ("core",)), "tool_metadata_sanitization", "mode")
            self._report(where, f"cannot be `{made['mode']}`: it is `off`, `sanitize` or `block`")
        return {**made, "mode": keys.SANITIZING_MODES.get(made["mode"], "strip")}

    def _savings(self, path: KeyPath, server: Json) -> Json:
        given = self._merged("tool_description_policy", server)
        mode, limit = given.get("mode", "preserve"), given.get("max_tool_description_chars", 280)
        if mode == "preserve":
            return {}
        if mode != "truncate" or not isinstance(limit, int):
            self._ignore((*path, "tool_description_policy"))
            return {}
        return {"description_limit": max(20, limit)}

    # Servers

    def _server(self, index: int, entry: Any) -> Json:
        path: KeyPath = ("servers", index)
        if not isinstance(entry, dict):
            self._report(path, "must be a section with keys")
            return {}
        given = cast("Json", entry)
        made: Json = {"files": {"shared_directory": str(self._places.shared)}}
        for key, value in given.items():
            here = (*path, key)
            match key:
                case "id" | "mount_path":
                    made[key] = value
                case "upstream":
                    made["upstream"] = self._upstream(here, self._object_at(here, value))
                case "adapters":
                    made["adapters"] = [
                        self._adapter((*here, number), _object(item), given)
                        for number, item in enumerate(self._list_at(here, value))
                    ]
                case "disabled_tools":
                    made["tools"] = self._denied(here, value)
                case "tool_defaults":
                    self._ignore_overrides(here, _object(value))
                case _:
                    self._settings(path, key, value, given, made)
        made["savings"] = self._savings(path, given)
        made["breaker"] = self._breaker(given)
        seconds = self._call_seconds(given)
        made["timeouts"] = {"call_seconds": seconds}
        if isinstance(seconds, (int, float)) and seconds > 3600:  # a call may take as long as it says
            made["timeouts"]["total_seconds"] = seconds
        return made

    def _settings(self, path: KeyPath, key: str, value: Any, given: Json, made: Json) -> None:
        """What a server may say otherwise than `core`."""
        here = (*path, key)
        if key in keys.IGNORED_IN_SERVER:
            if value is not None:
                self._ignore(here)
            return
        known = {
            "tool_metadata_sanitization": tuple(keys.SANITIZING),
            "tool_definition_pinning": keys.PINNING,
            "tool_description_policy": keys.DESCRIPTIONS,
            "upstream_ping": keys.PING,
        }.get(key)
        if known is None:
            self._report(here, "is not a key of a server there: remove it")
            return
        for name, one in _object(value).items():
            if name not in known:
                self._report((*here, name), "is not a key there: remove it")
            elif one is not None and name in keys.KNOWN.get(("core", key), ()):
                self._ignore((*here, name))
        if key == "tool_metadata_sanitization" and _object(value):
            made["sanitize"] = self._sanitizing(path, given)
            self._rename((*path, "sanitize"), here)
        elif key == "tool_definition_pinning" and _object(value):
            made["tool_definition_pinning"] = self._merged(key, given)

    def _breaker(self, server: Json) -> Json:
        """Theirs counts pings that fail, ours calls; what is counted up to is the same."""
        given = self._merged("upstream_ping", server)
        return {ours: given[theirs] for theirs, ours in keys.BREAKER.items() if theirs in given}

    def _call_seconds(self, given: Json) -> Any:
        defaults = _object(self._core.get("defaults"))
        own = _object(given.get("tool_defaults")).get("tool_call_timeout_seconds")
        return own if own is not None else defaults.get("tool_call_timeout_seconds", 60)

    def _upstream(self, path: KeyPath, given: Json) -> Json:
        made: Json = {"transport": given.get("transport", "streamable_http")}
        for key, value in given.items():
            here = (*path, key)
            match key:
                case "url":
                    made["url"] = value
                case "static_headers":
                    made["headers"] = value
                    self._rename((*path, "headers"), here)
                case "client_headers":
                    self._client_headers(here, _object(value), path, made)
                case "insecure_tls":
                    if value and not str(given.get("url")).startswith("http://"):
                        self._notes.append(
                            f"`{key_text(here)}` is not followed, certificates are checked: name your own "
                            "authority in the environment variable `SSL_CERT_FILE`"
                        )
                case "transport":
                    pass
                case _:
                    self._report(here, "is not a key of an upstream there: remove it")
        return made

    def _client_headers(self, path: KeyPath, given: Json, upstream: KeyPath, made: Json) -> None:
        for key, value in given.items():
            if key == "passthrough":
                made["forward_headers"] = value
                self._rename((*upstream, "forward_headers"), (*path, key))
            elif key == "required":
                made["require_headers"] = value
                self._rename((*upstream, "require_headers"), (*path, key))
            else:
                self._report((*path, key), "is not a key there: remove it")

    def _adapter(self, path: KeyPath, given: Json, server: Json) -> Json:
        made: Json = {}
        for key, value in given.items():
            if key in keys.ADAPTER:
                made[key] = value
            elif key == "include_raw_output":
                made["allow_raw_output"] = value
            elif key == "overrides":
                self._ignore_overrides((*path, key), _object(value))
            elif key == "uri_scheme":
                if value != "upload://":
                    self._ignore((*path, key))
            else:
                self._report((*path, key), "is not a key of an adapter there: remove it")
        if made.get("type") == "artifact_producer" and made.get("allow_raw_output") is None:
            made["allow_raw_output"] = self._raw_output(given, server)
        return {key: value for key, value in made.items() if value is not None}

    def _raw_output(self, given: Json, server: Json) -> Any:
        """The nearest of the places that may say it."""
        core = _object(self._core.get("defaults"))
        for section in (_object(given.get("overrides")), _object(server.get("tool_defaults")), core):
            if section.get("allow_raw_output") is not None:
                return section["allow_raw_output"]
        return False

    def _ignore_overrides(self, path: KeyPath, given: Json) -> None:
        for key in given:
            if key not in ("allow_raw_output", "tool_call_timeout_seconds"):
                self._report((*path, key), "is not a key there: remove it")
        if "adapters" in path and given.get("tool_call_timeout_seconds") is not None:
            self._ignore((*path, "tool_call_timeout_seconds"))

    def _denied(self, path: KeyPath, value: Any) -> Json:
        """Names as they are; anything else is a regular expression for whole names."""
        texts = [str(text) for text in self._list_at(path, value)]
        for index, text in enumerate(texts):
            try:
                re.compile(text)
            except re.error as error:
                self._report((*path, index), f"`{text}` is not a regular expression: {error}")
        return {
            "deny": [text for text in texts if _PLAIN_NAME.fullmatch(text)],
            "deny_regex": [text for text in texts if not _PLAIN_NAME.fullmatch(text)],
        }

    def _list_at(self, path: KeyPath, value: Any) -> list[Any]:
        if not isinstance(value, list):
            self._report(path, "must be a list")
        return cast("list[Any]", value) if isinstance(value, list) else []


_HARMLESS: dict[KeyPath, Any] = {
    ("uploads", "uri_scheme"): "upload://",
    ("artifacts", "uri_scheme"): "artifact://",
    ("core", "code_mode_enabled"): False,
    ("core", "shorten_descriptions"): False,
    ("core", "cors", "allow_credentials"): False,
}
"""What asks for nothing."""


def _base_of(endpoint: str) -> str:
    """Where a collector is, without the place for figures in it."""
    return endpoint.rstrip("/").removesuffix("/v1/metrics")


def _object(value: Any) -> Json:
    return cast("Json", value) if isinstance(value, dict) else {}
