"""`mooring serve`: run the gateway and say where it is."""

from __future__ import annotations

import argparse
import errno
import json
import os
import sys
from pathlib import Path

from mooring.app import Started
from mooring.app import run as run_gateway
from mooring.config.loading import ConfigError, load, load_with_notes
from mooring.config.schema import Config
from mooring.interfaces.cli.failure import Failed
from mooring.interfaces.cli.logs import show_log
from mooring.interfaces.cli.output import print_table, styled, wants_colour
from mooring.interfaces.cli.version import installed_version
from mooring.workloads.state import DirectoryTaken
from mooring.workloads.store import BrokenState


def run(arguments: argparse.Namespace) -> int:
    """Read the file, run the gateway until it is told to stop."""
    path, listen, sandboxed = Path(arguments.config), arguments.listen, arguments.sandbox == "on"
    try:
        loaded = load_with_notes(path, listen=listen, sandboxed=sandboxed)
    except ConfigError as error:
        raise Failed(str(error)) from error

    def ready(started: Started) -> None:
        _print_ready(loaded.config, loaded.notes, started)
        if arguments.print_snippet:
            print(snippet(started.servers), flush=True)
        else:
            print("for your client's mcp.json: add --print-snippet to this command", file=sys.stderr)

    show_log(arguments.log_level)
    try:
        return run_gateway(
            loaded.config,
            ready=ready,
            watch=path,
            load=lambda: load(path, listen=listen, sandboxed=sandboxed),
        )
    except (DirectoryTaken, FileExistsError, BrokenState) as error:
        raise Failed(str(error)) from error
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES):
            raise
        listen = loaded.config.listen
        reason = os.strerror(error.errno).lower()
        raise Failed(
            f"cannot listen on `{listen}`: {reason}; choose another address with --listen"
        ) from error


def snippet(servers: list[tuple[str, str]]) -> str:
    """The JSON that makes a client use these servers."""
    entries = {identifier: {"type": "http", "url": url} for identifier, url in servers}
    return json.dumps({"mcpServers": entries}, indent=2)


def _print_ready(config: Config, notes: tuple[str, ...], started: Started) -> None:
    colour = wants_colour(sys.stderr)
    title = styled(f"mooring {installed_version()}", "bold", colour)
    print(f"{title} is ready at {started.url}", file=sys.stderr)
    kinds = {server.id: "process" if server.workload else "remote" for server in config.servers}
    rows = [[identifier, kinds.get(identifier, ""), url] for identifier, url in started.servers]
    if rows:
        print_table(("id", "kind", "url"), rows, sys.stderr)
    else:
        print("no servers: add one under `servers` in the configuration", file=sys.stderr)
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    print(f"control socket: {started.socket}", file=sys.stderr)
