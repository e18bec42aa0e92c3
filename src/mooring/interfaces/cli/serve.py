"""`mooring serve`: run the gateway and say where it is."""

from __future__ import annotations

import argparse
import errno
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from mooring import __version__
from mooring.app.foreground import Watched
from mooring.app.foreground import run as run_gateway
from mooring.app.gateway import Started
from mooring.config.loading import ConfigError, Loaded, load_with_notes
from mooring.config.locations import default_config_file, default_data_directory
from mooring.config.schema import Config, split_address
from mooring.interfaces.cli.failure import Failed, Misused, reason_of
from mooring.interfaces.cli.logs import show_log
from mooring.interfaces.cli.output import print_table, styled, wants_colour
from mooring.workloads.state import DirectoryTaken
from mooring.workloads.store import BrokenState


def run(arguments: argparse.Namespace, when_ready: Callable[[Started], None] | None = None) -> int:
    """Read the file, run the gateway until it is told to stop. What `when_ready` prints comes last."""
    path, read = _plan(arguments)
    watched = Watched.about_to_be_read(path)
    try:
        loaded = read()
    except ConfigError as error:
        raise Failed(str(error)) from error

    def ready(started: Started) -> None:
        _print_ready(loaded.config, loaded.notes, started)
        if arguments.print_snippet:
            print(snippet(started.servers), flush=True)
        else:
            print("for your client's mcp.json: add --print-snippet to this command", file=sys.stderr)
        if when_ready:
            when_ready(started)

    show_log(arguments.log_level)
    try:
        return run_gateway(
            loaded.config,
            ready=ready,
            watch=watched,
            load=lambda: read().config,
        )
    except DirectoryTaken as error:
        raise Failed(f"{error}, or give this one its own `{loaded.data_key}`") from error
    except BrokenState as error:
        raise Failed(str(error)) from error
    except OSError as error:
        raise _cannot_serve(error, loaded, path, arguments) from error


def _cannot_serve(error: OSError, loaded: Loaded, file: Path, arguments: argparse.Namespace) -> Exception:
    """What a person can do about it; an error that nobody expects stays what it is."""
    if error.filename is not None:
        reason = reason_of(error)
        return Failed(f"cannot use `{error.filename}`: {reason}; data is kept where `{loaded.data_key}` says")
    if isinstance(error, FileExistsError):
        return Failed(str(error))
    if error.errno not in (errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES):
        return error
    way = f"`listen` in `{file}`" if arguments.user else "--listen"
    reason = os.strerror(error.errno).lower()
    return Failed(f"cannot listen on `{loaded.config.listen}`: {reason}; choose another address with {way}")


def _plan(arguments: argparse.Namespace) -> tuple[Path, Callable[[], Loaded]]:
    """Which file says what to serve, and how it is read; the user's own file need not be there."""
    listen, sandboxed = arguments.listen, arguments.sandbox == "on"
    if listen is not None:
        try:
            split_address(listen)
        except ValueError as error:
            raise Misused(f"`--listen` {error}, not `{listen}`") from None
    here = Path(arguments.config or "mooring.yaml")
    if not arguments.config and not arguments.user and not here.exists():
        raise Failed(
            "there is no mooring.yaml here: name a file with `--config FILE`, or serve what you run with "
            "`--user`"
        )
    if not arguments.user:
        return here, lambda: load_with_notes(here, listen=listen, sandboxed=sandboxed)
    own, root = default_config_file(os.environ), default_data_directory(os.environ)

    def read() -> Loaded:
        loaded = Loaded(Config())
        if own.is_file():
            loaded = load_with_notes(own, listen=listen, sandboxed=sandboxed)
        config = replace(loaded.config, storage=replace(loaded.config.storage, root=root))
        return Loaded(replace(config, listen=listen) if listen else config, loaded.notes)

    return own, read


def snippet(servers: list[tuple[str, str]]) -> str:
    """The JSON that makes a client use these servers."""
    entries = [
        f"    {json.dumps(identifier)}: {json.dumps({'type': 'http', 'url': url})}"
        for identifier, url in servers
    ]
    return "\n".join(["{", '  "mcpServers": {', ",\n".join(entries), "  }", "}"])


def _print_ready(config: Config, notes: tuple[str, ...], started: Started) -> None:
    colour = wants_colour(sys.stderr)
    title = styled(f"mooring {__version__}", "bold", colour)
    print(f"{title} is ready at {started.url}", file=sys.stderr)
    kinds = {server.id: "remote" if server.upstream else "process" for server in config.servers}
    rows = [[identifier, kinds.get(identifier, ""), url] for identifier, url in started.servers]
    if rows:
        print_table(("id", "kind", "url"), rows, sys.stderr)
    else:
        print("no servers: start one with `mooring run`, or add one under `servers`", file=sys.stderr)
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    print(f"control socket: {started.socket}", file=sys.stderr)
