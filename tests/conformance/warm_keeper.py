"""Keeps the fixture loaded and forks one stdio server per launcher: `warm_keeper.py SOCKET`."""

from __future__ import annotations

import os
import signal
import socket
import sys
from pathlib import Path
from typing import cast

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import anyio
from tests.conformance.fixture.server import build_server
from tests.conformance.fixture.transports import Era, serve_stdio

_LONGEST_ARGUMENTS = 1024


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody here waits for the forks: let the kernel do it
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(sys.argv[1])
        listener.listen(64)
        print(sys.argv[1], flush=True)
        while True:
            launcher, _ = listener.accept()
            arguments, streams, _, _ = socket.recv_fds(launcher, _LONGEST_ARGUMENTS, 3)
            if os.fork() == 0:
                listener.close()
                _serve(launcher, arguments.decode().split("\0"), streams)
            launcher.close()
            for stream in streams:
                os.close(stream)


def _serve(launcher: socket.socket, arguments: list[str], streams: list[int]) -> None:
    """Be the server on the launcher's streams. Never returns."""
    exit_code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        era, *options = arguments
        anyio.run(serve_stdio, build_server(with_tasks="--tasks" in options), cast("Era", era))
        exit_code = 0
    finally:
        sys.stderr.flush()
        launcher.sendall(bytes([exit_code]))
        os._exit(exit_code)


if __name__ == "__main__":
    main()
