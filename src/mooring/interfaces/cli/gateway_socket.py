"""Finding and opening the Unix socket of a running gateway, with as few imports as that takes."""

from __future__ import annotations

import argparse
import json
import os
import re
import socket
from pathlib import Path
from typing import Any, cast

from mooring.interfaces.cli.failure import Failed, reason_of
from mooring.transports.unix_names import short_name

# A message that goes on behind these says itself what to do, or what there is.
_NEXT_STEP = re.compile("[:;] ")
# The gateway is on this machine: one that does not even accept is stuck.
CONNECT_SECONDS = 5.0


def find_socket(arguments: argparse.Namespace) -> Path:
    """Which gateway is meant: flags, then MOORING_SOCKET, then ./mooring.yaml, then the user's own one."""
    if arguments.socket:
        return Path(arguments.socket)
    if arguments.config:
        return _socket_of(Path(arguments.config))
    if named := os.environ.get("MOORING_SOCKET"):
        return Path(named)
    if (here := Path("mooring.yaml")).is_file():
        return _socket_of(here)
    from mooring.config.locations import default_data_directory, socket_in  # noqa: PLC0415 - as below

    return socket_in(default_data_directory(os.environ))


def _socket_of(config_file: Path) -> Path:
    # Reads YAML: 40 ms that `--socket` and MOORING_SOCKET do not need.
    from mooring.config.locations import data_directory_of, default_data_directory, socket_in  # noqa: PLC0415

    try:
        found = data_directory_of(config_file)
        if found == default_data_directory(os.environ):
            _check_readable(config_file)
        return socket_in(found)
    except OSError as error:
        reason = reason_of(error)
        raise Failed(f"cannot read `{config_file}`: {reason}; give the right file with --config") from error


def _check_readable(config_file: Path) -> None:
    """Half-way through a change it may be no YAML: another gateway than its own must not answer then."""
    from mooring.config.source import parse  # noqa: PLC0415 - as above

    is_json = config_file.suffix.lower() in (".json", ".jsonc")
    document = parse(config_file.read_text(encoding="utf-8-sig"), is_json=is_json)
    if document.value is None and document.problems:
        raise Failed(
            f"{config_file}: {document.problems[0]}; mend it, or name the gateway's control socket with "
            "--socket"
        )


def open_socket(path: Path) -> socket.socket:
    """A connection to the gateway, or an error that says how to start one."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(CONNECT_SECONDS)
    try:
        with short_name(path) as name:
            connection.connect(name)
    except OSError as error:
        connection.close()
        why = (error.strerror or "timed out").lower()
        if _is_of_file_here(path):
            raise Failed(
                f"the gateway of `mooring.yaml` in this folder does not run (`{path}`: {why}): start it with "
                "`mooring serve`, or say which one you mean with --config or --socket"
            ) from error
        raise Failed(
            f"no gateway answers at `{path}` ({why}): start one with `mooring run` or `mooring serve "
            "--config FILE`, or say which one you mean with --config or --socket"
        ) from error
    connection.settimeout(None)
    return connection


def _is_of_file_here(path: Path) -> bool:
    """Whoever runs servers with `mooring run` may not know that a file in this folder goes first."""
    here = Path("mooring.yaml")
    try:
        return here.is_file() and _socket_of(here).absolute() == path.absolute()
    except Failed:
        return False


def answers(path: Path) -> bool:
    """Whether a gateway is there."""
    try:
        if not path.exists():
            return False
    except OSError as error:  # whether there is one is not for us to see
        raise Failed(f"cannot use `{path.parent}`: {reason_of(error)}") from error
    try:
        open_socket(path).close()
    except Failed:
        return False
    return True


def refusal(status: int, body: bytes) -> str:
    """What the gateway said when it refused, as one line."""
    try:
        answer = json.loads(body)
    except ValueError:
        answer = None
    if text := message_in(answer):
        return text
    text = body.decode("utf-8", "replace").strip()[:300]
    return f"the gateway answered {status}: {text or 'no reason given'}"


def says_next_step(message: str) -> bool:
    """Whether it goes on to say what to do, or what there is."""
    return _NEXT_STEP.search(message) is not None


def message_in(answer: Any) -> str | None:
    """The message of an error body, whether JSON-RPC, `{"error": ...}` or `{"message": ...}`."""
    if isinstance(answer, str):
        return answer
    if not isinstance(answer, dict):
        return None
    found = cast("dict[str, Any]", answer)
    if (step := found.get("next_step")) and not says_next_step(str(found.get("message"))):
        return f"{found['message']}: {step}"
    return message_in(found.get("error") or found.get("message") or found.get("detail"))
