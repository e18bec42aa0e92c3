"""The `mcpServers` files of desktop clients, taken as they are (VS Code says `servers`)."""

from __future__ import annotations

import difflib
import re
import sys
from pathlib import Path
from typing import Any, cast

from mooring.config.problems import KeyPath
from mooring.config.source import Document
from mooring.ecosystem.importers.found import identifier as identifier_for

# What clients write into an entry and a gateway has no use for: it changes nothing about the server.
_IGNORED = {
    "alwaysAllow", "autoApprove", "autoStart", "description", "disabledTools", "dev", "displayName",
    "gallery", "icon", "name", "note", "startup_timeout_sec", "timeout", "trust", "version",
}  # fmt: skip
_KNOWN = {
    "command",
    "args",
    "env",
    "cwd",
    "url",
    "serverUrl",
    "httpUrl",
    "type",
    "transport",
    "headers",
    "disabled",
    "enabled",
}
_TRANSPORTS = {
    "http": "streamable_http",
    "streamable-http": "streamable_http",
    "streamable_http": "streamable_http",
    "streamableHttp": "streamable_http",
    "sse": "sse",
    "auto": "auto",
}
# Stands where nothing can be run, so that only what is wrong in the file itself is said.
_NOTHING: dict[str, Any] = {"run": ["?"]}
# The program itself, which is readable anyway and had better not be writable.
_SCRIPTS = {".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".sh"}
_INPUT = re.compile(r"\$\{(input:[^}]*|workspaceFolder[^}]*|userHome|command:[^}]*|config:[^}]*)\}")


def is_desktop(value: object) -> bool:
    """Whether these are the contents of such a file."""
    if not isinstance(value, dict) or "mooring" in value:
        return False
    found = cast("dict[str, Any]", value)
    return isinstance(found.get("mcpServers"), dict) or isinstance(found.get("servers"), dict)


def translate(document: Document, data_directory: Path) -> tuple[str, ...]:
    """Rewrite the document into Mooring's own keys; the answer says what was decided.

    The folder of such a file belongs to the client that wrote it, so our data goes elsewhere.
    """
    section = "mcpServers" if isinstance(document.value.get("mcpServers"), dict) else "servers"
    entries = cast("dict[str, Any]", document.value[section])
    notes: list[str] = []
    servers: list[dict[str, Any]] = []
    taken: set[str] = set()
    for name, entry in entries.items():
        path: KeyPath = (section, name)
        if not isinstance(entry, dict):
            document.report(path, "must be an object with `command` or `url`")
            continue
        settings = cast("dict[str, Any]", entry)
        if settings.get("disabled") is True or settings.get("enabled") is False:
            notes.append(f"`{name}` is disabled in the file and was left out")
            continue
        identifier = identifier_for(name, taken)
        taken.add(identifier)
        if identifier != name:
            notes.append(f"`{name}` is served as `{identifier}`")
        _move_positions(document, path, ("servers", len(servers)))
        servers.append({"id": identifier, **_server(document, path, settings)})
        if workload := cast("dict[str, Any]", servers[-1].get("workload")):
            notes.append(f"`{identifier}` {_confine(workload)}")
    document.value = {"mooring": 1, "servers": servers, "storage": {"root": str(data_directory)}}
    return tuple(notes)


def _server(document: Document, path: KeyPath, entry: dict[str, Any]) -> dict[str, Any]:
    for key in entry:
        if key not in _KNOWN | _IGNORED:
            close = difflib.get_close_matches(key, sorted(_KNOWN), 1)
            way = f"did you mean `{close[0]}`?" if close else "remove it"
            document.report((*path, key), f"is not a key this version knows in such a file: {way}")
    _refuse_placeholders(document, path, entry)
    url_key = next((key for key in ("url", "serverUrl", "httpUrl") if key in entry), None)
    if ("command" in entry) == (url_key is not None):
        document.report(path, "needs exactly one of `command` and `url`")
        return {"workload": dict(_NOTHING)}
    if url_key is not None:
        return {"upstream": _upstream(document, path, entry, url_key)}
    return {"workload": _workload(document, path, entry)}


def _upstream(document: Document, path: KeyPath, entry: dict[str, Any], url_key: str) -> dict[str, Any]:
    kind = entry.get("type", entry.get("transport", "auto"))
    if kind not in _TRANSPORTS:
        document.report((*path, "type"), f"must be `http` or `sse` for a server with a URL, not `{kind}`")
    # A client that reads `http` falls back to HTTP+SSE as the spec says; so do we.
    transport = "sse" if _TRANSPORTS.get(kind) == "sse" else "auto"
    return {"url": entry[url_key], "transport": transport, "headers": entry.get("headers") or {}}


def _workload(document: Document, path: KeyPath, entry: dict[str, Any]) -> dict[str, Any]:
    if entry.get("type", "stdio") not in ("stdio", "local"):
        document.report((*path, "type"), "must be `stdio` for a server with a `command`")
    arguments: Any = entry.get("args") or []
    if not isinstance(arguments, list) or not isinstance(entry["command"], str):
        document.report(path, "needs `command` as a text and `args` as a list")
        return dict(_NOTHING)
    workload: dict[str, Any] = {
        "run": [entry["command"], *cast("list[Any]", arguments)],
        "env": entry.get("env") or {},
    }
    if entry.get("cwd"):
        workload["cwd"] = entry["cwd"]
    return workload


def _confine(workload: dict[str, Any]) -> str:
    """Give an entry the internet and the absolute paths it is told of, as its user must have meant it."""
    if sys.platform != "linux":
        return "runs unsandboxed, with your rights: there is no process sandbox on this system"
    words = [word for word in workload["run"][1:] if isinstance(word, str)]
    paths = [
        word
        for word in words
        if word.startswith("/") and Path(word).exists() and Path(word).suffix not in _SCRIPTS
    ]
    outbound = {"insecure_allow_all": True}
    workload["permission_profile"] = {"name": "network", "write": paths, "network": {"outbound": outbound}}
    also = f" and {', '.join(paths)}" if paths else ""
    return f"runs in a sandbox that sees the internet{also}; `mooring serve --sandbox off` lets it see all"


def _refuse_placeholders(document: Document, path: KeyPath, value: Any) -> None:
    """`${input:token}` and the like only mean something inside the editor that asks for them."""
    if isinstance(value, str) and (match := _INPUT.search(value)):
        document.report(
            path,
            f"uses `{match.group()}`, which only its editor can fill in: write `${{NAME}}` and set NAME",
        )
    elif isinstance(value, dict):
        for key, item in cast("dict[str, Any]", value).items():
            _refuse_placeholders(document, (*path, key), item)
    elif isinstance(value, list):
        for index, item in enumerate(cast("list[Any]", value)):
            _refuse_placeholders(document, (*path, index), item)


def _move_positions(document: Document, old: KeyPath, new: KeyPath) -> None:
    """Let later problems with this entry point to where the person wrote it."""
    if found := document.positions.get(old):
        document.positions[new] = found
