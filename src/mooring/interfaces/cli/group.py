"""`mooring group`: servers with one purpose."""

from __future__ import annotations

import argparse
import json
from typing import Any

from mooring.interfaces.cli.gateway_socket import find_socket
from mooring.interfaces.cli.output import print_table
from mooring.interfaces.cli.run_api import ask, path_of
from mooring.interfaces.cli.service_daemon import gateway_socket


def create(arguments: argparse.Namespace) -> int:
    group = ask(gateway_socket(arguments), "POST", "/api/v1/groups", {"name": arguments.name})
    print(f"made the group {group['name']}")
    return 0


def list_groups(arguments: argparse.Namespace) -> int:
    groups: list[dict[str, Any]] = ask(gateway_socket(arguments), "GET", "/api/v1/groups")["groups"]
    if arguments.format == "json":
        print(json.dumps(groups, indent=2, ensure_ascii=False))
        return 0
    rows = [
        [str(group["name"]), ", ".join(group["workloads"]) or "-", ", ".join(group["clients"]) or "-"]
        for group in groups
    ]
    print_table(("name", "workloads", "clients"), rows)
    return 0


def remove(arguments: argparse.Namespace) -> int:
    socket, target = find_socket(arguments), path_of("groups", arguments.name)
    if not arguments.with_workloads:
        ask(socket, "DELETE", target)
        print(f"removed the group {arguments.name}")
        return 0
    workloads: list[str] = ask(socket, "GET", target)["workloads"]
    ask(socket, "DELETE", f"{target}?with_workloads=true")
    print(f"removed {', '.join(['the group ' + arguments.name, *workloads])}")
    return 0


def move(arguments: argparse.Namespace) -> int:
    socket = find_socket(arguments)
    for name in arguments.names:
        ask(socket, "POST", path_of("workloads", name, "move"), {"group": arguments.group})
        print(f"{name} is in {arguments.group}")
    return 0
