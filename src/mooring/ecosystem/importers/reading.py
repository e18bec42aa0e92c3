"""Which program's file it is, and the servers in it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import PurePath
from typing import Any, cast

from msgspec.structs import replace

from mooring.ecosystem.documents.editing import DocumentError, Format, Section, entries, read
from mooring.ecosystem.importers.found import CannotImport, FoundFile, FoundServer, Transport

Entry = dict[str, Any]

_URL_KEYS = ("url", "serverUrl", "httpUrl", "uri")
_SSE = {"sse"}
# VS Code asks the person for these; `${env:NAME}` is a variable of the environment, as `${NAME}` is for us.
_INPUT = re.compile(r"\$\{input:([^}]+)\}")
_VARIABLE = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_EDITOR = re.compile(r"\$\{(?:workspaceFolder|userHome|command:|config:)[^}]*\}")


def read_servers(text: str, file_name: str) -> FoundFile:
    """The servers of a file whose kind its name and contents tell."""
    suffix = PurePath(file_name).suffix.lower()
    formats: dict[str, Format] = {".toml": "toml", ".yaml": "yaml", ".yml": "yaml"}
    format_ = formats.get(suffix, "json")
    try:
        value = read(text, format_)
    except DocumentError as error:
        raise CannotImport(f"`{file_name}` {error}") from error
    for kind, key, is_it in _KINDS:
        if is_it(value.get(key)):
            return read_section(text, Section(format_, key, _shape(value[key])), kind, value)
    if _is_adapter(value.get("servers")):
        return _adapter(value)
    raise CannotImport(
        f"`{file_name}` holds no servers that can be imported: it needs `mcpServers`, `servers` or "
        "`mcp_servers`, or must be the configuration of a Remote MCP Adapter"
    )


def read_section(text: str, section: Section, kind: str, value: Entry | None = None) -> FoundFile:
    """The servers in one section of a client's file."""
    whole = read(text, section.format) if value is None else value
    servers: list[FoundServer] = []
    problems: list[str] = []
    for name, entry in entries(text, section).items():
        try:
            servers.append(_filled(server_of(name, entry), _inputs(whole)))
        except CannotImport as error:
            problems.append(f"`{name}` {error}")
    return FoundFile(kind, tuple(servers), tuple(problems))


def _is_map(value: Any) -> bool:
    return isinstance(value, dict)


def _is_some(value: Any) -> bool:
    return isinstance(value, dict | list)


_KINDS: tuple[tuple[str, str, Callable[[Any], bool]], ...] = (
    ("a client's file with `mcpServers`", "mcpServers", _is_some),
    ("a configuration of Codex or Vibe", "mcp_servers", _is_some),
    ("VS Code's `mcp.json`", "servers", _is_map),
    ("settings of Amp", "amp.mcpServers", _is_map),
    ("settings of Zed", "context_servers", _is_map),
    ("a configuration of Goose", "extensions", _is_map),
    ("a configuration of OpenCode", "mcp", _is_map),
)


def _shape(value: Any) -> Any:
    return "list" if isinstance(value, list) else "map"


def server_of(name: str, entry: Entry) -> FoundServer:
    """One entry of any client; CannotImport says what is wrong with it."""
    enabled = entry.get("disabled") is not True and entry.get("enabled") is not False
    url = next((entry[key] for key in _URL_KEYS if isinstance(entry.get(key), str)), None)
    words = _words(entry)
    if words and url is None:
        env = _texts(entry.get("env") or entry.get("envs") or entry.get("environment"))
        wanted = {
            key: f"variable `{key}`" for key in _list(entry.get("env_keys")) + _list(entry.get("env_vars"))
        }
        return FoundServer(
            name,
            tuple(words),
            {**env, **{key: f"${{{key}}}" for key in wanted}},
            entry.get("cwd") or None,
            enabled=enabled,
            notes=tuple(f"`{key}` is taken from the environment" for key in wanted),
        )
    if url is not None and not words:
        return FoundServer(
            name, url=url, transport=_transport(entry), headers=_headers(entry), enabled=enabled
        )
    if entry.get("type") in ("builtin", "platform"):
        raise CannotImport("is a part of its client and cannot run elsewhere")
    raise CannotImport("has neither a command nor a URL")


def _words(entry: Entry) -> list[str]:
    command: Any = entry.get("command") or entry.get("cmd")
    if isinstance(command, dict):
        # Zed's older way: the program under `path`, with its own arguments and variables.
        inner = cast("Entry", command)
        entry.setdefault("env", inner.get("env"))
        return [str(inner.get("path")), *_list(inner.get("args"))]
    if isinstance(command, list):
        return [str(word) for word in cast("list[Any]", command)]
    return [str(command), *_list(entry.get("args"))] if command else []


def _transport(entry: Entry) -> Transport:
    return "sse" if str(entry.get("type") or entry.get("transport") or "").lower() in _SSE else "auto"


def _headers(entry: Entry) -> dict[str, str]:
    """Also Codex's ways to name a variable that holds a token."""
    headers = _texts(entry.get("headers") or entry.get("http_headers"))
    options: Any = entry.get("requestOptions")
    if isinstance(options, dict):
        headers |= _texts(cast("Entry", options).get("headers"))
    for header, variable in _texts(entry.get("env_http_headers")).items():
        headers[header] = f"${{{variable}}}"
    if variable := entry.get("bearer_token_env_var"):
        headers["Authorization"] = f"Bearer ${{{variable}}}"
    elif token := entry.get("bearer_token"):
        headers["Authorization"] = f"Bearer {token}"
    return headers


def _inputs(value: Entry) -> dict[str, str]:
    """VS Code's questions: id -> what to ask."""
    found: Any = value.get("inputs")
    items = [cast("Entry", each) for each in cast("list[Any]", found)] if isinstance(found, list) else []
    return {str(each.get("id")): str(each.get("description") or each.get("id")) for each in items}


def _filled(server: FoundServer, questions: dict[str, str]) -> FoundServer:
    """`${input:x}` becomes a secret that the person stores; `${env:X}` becomes `${X}`."""
    wanted = dict(server.wanted_secrets)

    def text(value: str) -> str:
        if match := _EDITOR.search(value):
            raise CannotImport(f"uses `{match.group()}`, which only its editor can fill in: write the value")

        def secret(match: re.Match[str]) -> str:
            name = _secret_name(match.group(1))
            wanted[name] = questions.get(match.group(1), match.group(1))
            return f"${{secret:{name}}}"

        return _VARIABLE.sub(r"${\1}", _INPUT.sub(secret, value))

    made = replace(
        server,
        command=tuple(text(word) for word in server.command),
        env={key: text(value) for key, value in server.env.items()},
        headers={key: text(value) for key, value in server.headers.items()},
        url=None if server.url is None else text(server.url),
        cwd=None if server.cwd is None else text(server.cwd),
    )
    return replace(made, wanted_secrets=wanted)


def _secret_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", name).strip("_") or "input"


# ---------------------------------------------------------------- Remote MCP Adapter

_ADAPTER_KEPT = {"id", "mount_path", "upstream", "adapters", "disabled_tools"}
_UPSTREAM_KEPT = {"url", "transport", "static_headers"}


def _is_adapter(servers: Any) -> bool:
    items = cast("list[Any]", servers) if isinstance(servers, list) else []
    return any(isinstance(each, dict) and "mount_path" in each for each in items)


def _adapter(value: Entry) -> FoundFile:
    servers: list[FoundServer] = []
    problems: list[str] = []
    for number, item in enumerate(cast("list[Any]", value["servers"])):
        entry = cast("Entry", item) if isinstance(item, dict) else {}
        upstream = cast("Entry", entry.get("upstream") or {})
        name = str(entry.get("id") or f"server {number + 1}")
        if not isinstance(upstream.get("url"), str):
            problems.append(f"`{name}` has no `upstream.url`")
            continue
        left = sorted(
            ({*entry} - _ADAPTER_KEPT) | {f"upstream.{key}" for key in {*upstream} - _UPSTREAM_KEPT}
        )
        notes = [f"`{key}` is not taken over" for key in left]
        if entry.get("mount_path"):
            notes.append(f"it was at `{entry['mount_path']}`; clients now find it at `/mcp/<id>`")
        settings: Entry = {}
        if entry.get("adapters"):
            settings["adapters"] = entry["adapters"]
        if disabled := _list(entry.get("disabled_tools")):
            settings["tools"] = {"deny": disabled}
        servers.append(
            FoundServer(
                name,
                url=upstream["url"],
                transport="sse" if upstream.get("transport") == "sse" else "streamable_http",
                headers=_texts(upstream.get("static_headers")),
                settings=settings,
                notes=tuple(notes),
            )
        )
    others = sorted({*value} - {"servers"})
    if others:
        problems.append(f"only `servers` is imported, not {', '.join(f'`{key}`' for key in others)}")
    return FoundFile("a Remote MCP Adapter configuration", tuple(servers), tuple(problems))


def _texts(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    return {str(key): _text(each) for key, each in cast("dict[Any, Any]", value).items() if each is not None}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _list(value: Any) -> list[str]:
    return [_text(each) for each in cast("list[Any]", value)] if isinstance(value, list) else []
