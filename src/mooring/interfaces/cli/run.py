"""`mooring run`: from words on a command line to a RunConfig, and to a running server."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mooring.interfaces.cli import run_guard
from mooring.interfaces.cli.failure import Failed, Misused
from mooring.interfaces.cli.output import end_line, one_line, styled, wants_colour
from mooring.interfaces.cli.run_api import Json, ask_with_progress
from mooring.interfaces.cli.run_document import hidden_paths, read_document
from mooring.interfaces.cli.run_progress import Progress
from mooring.interfaces.cli.service_daemon import gateway_socket

_SIZES = {"": 1, "k": 1000, "ki": 1024, "m": 1000**2, "mi": 1024**2, "g": 1000**3, "gi": 1024**3}
LOGIN_SECONDS = 300.0
_FILE = re.compile(r"\.(json|ya?ml)$", re.IGNORECASE)


def run(arguments: argparse.Namespace) -> int:
    """Start a server and say where it is."""
    document = run_config(arguments)
    socket = gateway_socket(arguments)
    for path in hidden_paths(document):
        print(
            f"note: the sandbox hides `{path}` from it; to let it in, add `--volume {path}`", file=sys.stderr
        )
    progress = Progress()
    try:
        workload = ask_with_progress(socket, "POST", "/api/v1/workloads", document, progress)
    except KeyboardInterrupt:
        _say_it_goes_on(progress)
        return 1
    if arguments.format == "json":
        print(json.dumps(workload, indent=2, ensure_ascii=False))
        return 0
    _show(workload)
    name = str(workload["name"])
    if workload["status"] == "unauthenticated" and sys.stdin.isatty() and sys.stderr.isatty():
        _sign_in(socket, name)
    print(f"see its tools: mooring tool list {name}", file=sys.stderr)
    return 0


def _say_it_goes_on(progress: Progress) -> None:
    """Whoever stops waiting for a download has not stopped it."""
    end_line()
    for name in progress.names:
        print(
            f"{name} goes on starting: see `mooring status {name}`, or stop it with `mooring rm {name}`",
            file=sys.stderr,
        )


def _show(workload: Json) -> None:
    status = str(workload["status"])
    style = "green" if status == "running" else "yellow"
    print(f"{workload['name']} is {styled(status, style, wants_colour(sys.stdout))} at {workload['url']}")
    if workload.get("own_url"):
        print(f"and at {workload['own_url']}")
    if workload.get("status_context"):
        print(f"note: {one_line(str(workload['status_context']))}", file=sys.stderr)


def _sign_in(socket: Path, name: str) -> None:
    """Somebody is here who can sign in now; who does not can do so later."""
    from mooring.interfaces.cli.auth import sign_in  # noqa: PLC0415 - few servers ask for it

    if sign_in(socket, name, None, browser=True, limit=LOGIN_SECONDS):
        print(f"{name} is running")
    else:
        print(f"nobody signed in: do it later with `mooring auth login {name}`", file=sys.stderr)


def run_config(arguments: argparse.Namespace) -> Json:
    """What the words ask for, as a RunConfig; flags go before what a file says."""
    document = _source(arguments)
    extension: Json = dict(document.get("mooring") or {})
    _put(document, "name", arguments.name)
    _put(document, "group", arguments.group)
    _put(document, "transport", arguments.transport)
    _put(document, "proxy_mode", arguments.proxy_mode)
    _put(document, "target_port", arguments.target_port)
    _put(document, "tools_filter", arguments.tool)
    _put(document, "publish", arguments.publish)
    _put(document, "secrets", arguments.secret)
    _put(document, "volumes", [_volume(entry) for entry in arguments.volume])
    _put(document, "container_labels", _pairs("--label", arguments.label))
    _put(document, "env_vars", {**(document.get("env_vars") or {}), **_environment(arguments)})
    if headers := _pairs("--header", arguments.header):
        document["header_forward"] = {"add_plaintext_headers": headers}
    if arguments.permission_profile:
        document.pop("permission_profile", None)
        document["permission_profile_name_or_path"] = _profile(arguments.permission_profile)
    document.update(run_guard.fields(arguments))
    image: Json = dict(document.get("runtime_config") or {})
    _put(image, "builder_image", arguments.runtime_image)
    _put(image, "additional_packages", arguments.runtime_add_package)
    _put(document, "runtime_config", image)
    _put(extension, "sandbox", arguments.sandbox)
    _put(extension, "runtime", arguments.runtime)
    _put(extension, "share", arguments.share)
    _put(extension, "verify", arguments.verify)
    if arguments.idle_stop is not None:
        extension["idle_stop_seconds"] = _idle_stop(arguments.idle_stop)
    if limits := _limits(arguments):
        extension["limits"] = limits
    if extension:
        document["mooring"] = extension
    return document


def _source(arguments: argparse.Namespace) -> Json:
    source, after = arguments.source, arguments.after
    if arguments.from_config or (source and _FILE.search(source) and Path(source).is_file()):
        if arguments.from_config and source:
            raise Misused("give either `--from-config FILE` or what to run, not both")
        if after:
            raise Misused("the arguments of a RunConfig are in its `cmd_args`: leave out what follows `--`")
        return read_document(Path(arguments.from_config or source))
    if not source:
        if not after:
            raise Misused(
                "say what to run: `npx://PACKAGE`, `uvx://PACKAGE`, an image, a URL, a RunConfig file, or a "
                "command after `--`"
            )
        return {"mooring": {"command": after, "cwd": str(Path.cwd())}}
    if source.startswith(("http://", "https://")):
        return {"remote_url": _with_host(source)}
    if source.startswith(("./", "../", "/", "~")) or _FILE.search(source):
        raise _no_run_config(Path(source))
    known = None if "://" in source else _from_registry(source, arguments)
    if known is None and not any(mark in source for mark in "/:@"):
        print(
            f"no registry knows `{source}`: it is taken for an image{_if_a_command(source)}", file=sys.stderr
        )
    return known or {"image": source, **({"cmd_args": after} if after else {})}


def _if_a_command(source: str) -> str:
    """For whoever forgot the `--` before a program or a script of theirs."""
    if shutil.which(source) is None and not Path(source).is_file():
        return ""
    return "; a command stands after `--`: `mooring run -- COMMAND`"


def _no_run_config(path: Path) -> Failed:
    if not path.exists():
        return Failed(f"there is no file `{path}`")
    return Failed(f"`{path}` is no RunConfig (.json or .yaml): if it is a command, put it after `--`")


def _with_host(url: str) -> str:
    if not urlsplit(url).hostname:
        raise Misused(f"`{url}` names no host: write for example `https://mcp.example.com/mcp`")
    return url


def _from_registry(source: str, arguments: argparse.Namespace) -> Json | None:
    from mooring.interfaces.cli.run_registry import document_for  # noqa: PLC0415 - others need not wait

    return document_for(source, _environment(arguments), arguments)


def _put(document: Json, key: str, value: Any) -> None:
    if value is not None and value not in ([], {}):
        document[key] = value


def _pairs(flag: str, entries: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for entry in entries:
        name, equals, value = entry.partition("=")
        if not name or (flag != "--label" and not equals):
            raise Misused(f"{flag} `{entry}` must be `NAME=VALUE`")
        found[name.strip()] = value.strip() if flag == "--header" else value
    return found


def _environment(arguments: argparse.Namespace) -> dict[str, str]:
    """`NAME=VALUE`, or `NAME` alone for the value it has here."""
    found: dict[str, str] = {}
    for entry in arguments.env:
        name, equals, value = entry.partition("=")
        if not equals:
            if name not in os.environ:
                raise Failed(f"--env `{name}` is not set here: write `{name}=VALUE`")
            value = os.environ[name]
        found[name] = value
    return found


def _volume(entry: str) -> str:
    """The daemon has another folder than the person: a path is made absolute here."""
    if entry.startswith("volume://"):
        return entry
    host, colon, rest = entry.partition(":")
    absolute = Path(host).expanduser().absolute()
    if not absolute.exists():
        raise Failed(f"--volume `{entry}`: there is no `{absolute}`")
    return f"{absolute}{colon}{rest}"


def _profile(text: str) -> str:
    if text in ("none", "network"):
        return text
    path = Path(text).expanduser().absolute()
    if not path.is_file():
        raise Failed(f"--permission-profile `{text}` is neither `none`, nor `network`, nor a file")
    return str(path)


def _idle_stop(text: str) -> float | None:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(s|m|h|)", text)
    if text == "never":
        return None
    if match is None:
        raise Misused(f"--idle-stop `{text}` must be a time such as 90s, 30m or 2h, or `never`")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]


def _limits(arguments: argparse.Namespace) -> Json:
    found: Json = {}
    if arguments.memory:
        match = re.fullmatch(r"(\d+)([kmg]i?|)b?", arguments.memory.lower())
        if match is None:
            raise Misused(f"--memory `{arguments.memory}` must be a size such as 512Mi or 2G")
        found["memory_bytes"] = int(match[1]) * _SIZES[match[2]]
    _put(found, "cpus", arguments.cpus)
    _put(found, "processes", arguments.processes)
    _put(found, "open_files", arguments.open_files)
    return found
