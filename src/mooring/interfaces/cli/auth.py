"""`mooring auth`: sign in at servers that want to know their user, see where you are, sign out."""

from __future__ import annotations

import argparse
import json
import sys
import time
import webbrowser
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from mooring.interfaces.cli.failure import Failed
from mooring.interfaces.cli.gateway_socket import find_socket
from mooring.interfaces.cli.output import duration, one_line, print_table
from mooring.interfaces.cli.run_api import ask, path_of
from mooring.interfaces.cli.spans import seconds

POLL_SECONDS: Final = 0.5


def login(arguments: argparse.Namespace) -> int:
    """Open the address in a browser, or print it, and wait until it is done."""
    limit = seconds("--timeout", arguments.timeout)
    if not sign_in(find_socket(arguments), arguments.name, arguments.principal, arguments.browser, limit):
        raise Failed(
            f"nobody signed in within {arguments.timeout}: try again, or give it longer with `--timeout`"
        )
    return 0


def sign_in(socket: Path, name: str, principal: str | None, browser: bool, limit: float) -> bool:
    """Lead a person through a login; whether it was done in time."""
    whose = {} if principal is None else {"principal": principal}
    target = _target(name, principal)
    before = ask(socket, "GET", target).get("granted_at")
    url = ask(socket, "POST", path_of("logins", name), whose)["url"]
    if browser and webbrowser.open(url):
        print(f"sign in at `{name}` in your browser: {url}", file=sys.stderr)
    else:
        print(url, flush=True)
        print(f"open this address to sign in at `{name}`", file=sys.stderr)
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        found = ask(socket, "GET", target)
        if found["state"] == "authenticated" and found.get("granted_at") != before:
            print(f"signed in at `{name}`", file=sys.stderr)
            return True
        time.sleep(POLL_SECONDS)
    return False


def status(arguments: argparse.Namespace) -> int:
    """Where who is signed in. Tokens are never shown."""
    socket = find_socket(arguments)
    if arguments.name is None:
        found: list[dict[str, Any]] = ask(socket, "GET", path_of("logins"))["logins"]
    else:
        found = [ask(socket, "GET", _target(arguments.name, arguments.principal))]
    if arguments.format == "json":
        print(json.dumps(found))
        return 0
    if not found:
        print("no server wants its users to sign in", file=sys.stderr)
        return 0
    rows = [
        (
            entry["name"],
            one_line(entry["principal"]),
            entry["state"],
            _until(entry),
            one_line(" ".join(entry["scopes"])),
        )
        for entry in found
    ]
    print_table(("name", "who", "state", "token", "scopes"), rows)
    return 0


def logout(arguments: argparse.Namespace) -> int:
    """Forget what was granted."""
    ask(find_socket(arguments), "DELETE", _target(arguments.name, arguments.principal))
    print(f"signed out of `{arguments.name}`", file=sys.stderr)
    return 0


def _target(name: str, whose: str | None) -> str:
    target = path_of("logins", name)
    return target if whose is None else f"{target}?principal={quote(whose, safe='')}"


def _until(entry: dict[str, Any]) -> str:
    if entry["expires"] is None:
        return ""
    left = entry["expires"] - time.time()
    said = f"for {duration(left)}" if left > 0 else "expired"
    return f"{said}, renewed by itself" if entry["renewable"] else said
