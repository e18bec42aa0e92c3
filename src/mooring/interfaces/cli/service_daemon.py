"""The user's own gateway in the background: found, or started when a command needs it."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from mooring.interfaces.cli.failure import Failed
from mooring.interfaces.cli.gateway_socket import answers, find_socket

# It has read its modules and its books by then, also on a slow machine.
START_SECONDS = 30.0
LOG_NAME = "daemon.log"
_MAX_LOG_BYTES = 5 * 1024**2


def gateway_socket(arguments: argparse.Namespace) -> Path:
    """The socket of the gateway that is meant; the user's own one is started if it does not run."""
    path = find_socket(arguments)
    if answers(path):
        return path
    if not is_own(arguments):
        return path  # whoever connects gets an error that says what to do
    return _start(path)


def is_own(arguments: argparse.Namespace) -> bool:
    """Whether the user's own gateway is meant, and not one that somebody named."""
    named = arguments.socket or arguments.config or os.environ.get("MOORING_SOCKET")
    return not named and not Path("mooring.yaml").is_file()


def _start(path: Path) -> Path:
    folder = path.parent
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    log = folder / LOG_NAME
    if log.is_file() and log.stat().st_size > _MAX_LOG_BYTES:
        log.replace(log.with_suffix(".log.1"))
    with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "wb") as output:
        begin = output.tell()
        process = subprocess.Popen(
            [sys.executable, "-m", "mooring.interfaces.cli.main", "serve", "--user"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=folder,
            start_new_session=True,
        )
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if answers(path):
            process.returncode = 0  # it lives on: Python need not wait for it
            print(f"started the gateway in the background; its log is {log}", file=sys.stderr)
            return path
        if process.poll() is not None and not answers(path):
            raise Failed(f"the gateway did not start: {_last_words(log, begin)}")
        time.sleep(0.02)
    raise Failed(f"the gateway did not answer within {START_SECONDS:g} s: see {log}")


def _last_words(log: Path, begin: int) -> str:
    with log.open("rb") as file:
        file.seek(begin)
        lines = file.read().decode("utf-8", "replace").strip().splitlines()
    return lines[-1].removeprefix("error: ") if lines else f"see {log}"
