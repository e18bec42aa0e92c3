"""`mooring start`, `stop`, `restart` and `rm`: one workload or many, at the same time."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from mooring.interfaces.cli.failure import Misused
from mooring.interfaces.cli.gateway_socket import find_socket
from mooring.interfaces.cli.output import one_line, styled, wants_colour
from mooring.interfaces.cli.run_api import Json, Refused, ask_with_progress, error_of, explained
from mooring.interfaces.cli.run_progress import Progress
from mooring.interfaces.cli.service_daemon import gateway_socket


def start(arguments: argparse.Namespace) -> int:
    return _several("start", arguments, gateway_socket(arguments))


def restart(arguments: argparse.Namespace) -> int:
    return _several("restart", arguments, gateway_socket(arguments))


def stop(arguments: argparse.Namespace) -> int:
    return _several("stop", arguments, find_socket(arguments))


def remove(arguments: argparse.Namespace) -> int:
    return _several("delete", arguments, gateway_socket(arguments))


def _several(verb: str, arguments: argparse.Namespace, socket: Path) -> int:
    selection = _selection(arguments)
    progress = Progress()
    try:
        answer = ask_with_progress(socket, "POST", f"/api/v1/workloads/{verb}", selection, progress)
    except Refused as refused:
        raise explained(socket, arguments.names, refused) from refused
    results: list[Json] = answer["results"]
    if arguments.format == "json":
        print(json.dumps(results, indent=2, ensure_ascii=False))
    else:
        _print(results)
    return 0 if all(result["ok"] for result in results) else 1


def _selection(arguments: argparse.Namespace) -> Json:
    chosen = [bool(arguments.names), arguments.all, arguments.group is not None]
    if sum(chosen) != 1:
        raise Misused("say which: names, or --all, or --group GROUP")
    if arguments.names:
        return {"names": arguments.names}
    return {"all": True} if arguments.all else {"group": arguments.group}


def _print(results: list[Json]) -> None:
    if not results:
        print("nothing to do: there are no such workloads", file=sys.stderr)
    colour = wants_colour(sys.stderr)
    for result in results:
        if result["ok"]:
            print(f"{result['name']} is {result['status']}")
        else:
            mark = styled("error", "red", colour)
            print(f"{mark}: {one_line(error_of(result))}", file=sys.stderr)
