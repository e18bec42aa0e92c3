"""`make demo`: the example servers and the gateway in front of them, until Ctrl-C.

The gateway runs in this process, each server in one of its own. All take their usual ports where those are
free and others where not.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

from mooring.app.gateway import Started
from mooring.interfaces.cli import serve
from mooring.interfaces.cli.failure import Failed
from mooring.interfaces.cli.main import build_parser

ROOT = Path(__file__).resolve().parents[1]
CONFIG = Path("examples") / "mooring.yaml"
HOST, PORT = "127.0.0.1", 7433  # as it says there
# variable in examples/mooring.yaml -> the server whose port it holds
SERVERS = {
    "CLOCK_PORT": "clock_sse_server.py",
    "LIBRARY_PORT": "library_server.py",
    "WEATHER_PORT": "weather_server.py",
}
STOP_SECONDS = 5
PR_SET_PDEATHSIG = 1

# On a terminal of 24 lines and 80 columns this and the snippet above it are what stays on the screen.
HINT = """\
that JSON is for your client's mcp.json; in another terminal, in this folder:
  export MOORING_SOCKET={socket}; alias mooring={command}
  mooring status
  mooring tool list notes
  mooring tool call weather forecast city=Bergen
  mooring tool call papers count_words path@=README.md
  mooring tool call papers make_poster text=Ahoy filename=ahoy.svg --output {data}
  mooring tool call pages search_pages words=release
  mooring trace library
Ctrl-C here stops everything
"""


def main() -> int:
    os.chdir(ROOT)
    with ExitStack() as stack:
        try:
            started = {variable: _start(script, [], stack) for variable, script in SERVERS.items()}
            for variable, process in started.items():
                os.environ[variable] = str(_port(process) or _port_elsewhere(SERVERS[variable], stack))
            os.environ["DEMO_PYTHON"] = sys.executable  # it can import mooring
            words = ["serve", "--config", str(CONFIG), "--print-snippet", *_listen(), *sys.argv[1:]]
            return serve.run(build_parser("serve").parse_args(words), _print_hint)
        except Failed as error:
            raise SystemExit(f"error: {error}") from error
        except KeyboardInterrupt:
            return 0


def _print_hint(started: Started) -> None:
    command = Path(sys.executable).with_name("mooring").relative_to(ROOT)
    place = started.socket.relative_to(ROOT) if started.socket.is_relative_to(ROOT) else started.socket
    print(HINT.format(command=command, socket=place, data=place.parent), end="", file=sys.stderr, flush=True)


def _listen() -> list[str]:
    """Where, if the usual port is taken: any other will do."""
    try:
        socket.create_server((HOST, PORT)).close()
    except OSError:
        return ["--listen", f"{HOST}:0"]
    return []


def _start(script: str, arguments: list[str], stack: ExitStack) -> subprocess.Popen[str]:
    process = stack.enter_context(
        subprocess.Popen(
            [sys.executable, str(ROOT / "examples" / script), *arguments],
            stdout=subprocess.PIPE,
            stderr=None if arguments else subprocess.DEVNULL,
            text=True,
            start_new_session=True,  # Ctrl-C is for us: we stop them when the gateway has stopped
            preexec_fn=_die_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509 - no threads yet
        )
    )
    stack.callback(_stop, process)
    return process


def _port(process: subprocess.Popen[str]) -> int | None:
    """The port it listens on, which it prints; nothing if it could not start."""
    assert process.stdout is not None
    return urlsplit(process.stdout.readline().strip()).port


def _port_elsewhere(script: str, stack: ExitStack) -> int:
    """Its usual port is taken: any other will do."""
    port = _port(_start(script, ["--port", "0"], stack))
    if port is None:
        raise SystemExit(f"cannot start examples/{script}: run it by hand to see why")
    return port


def _stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()


def _die_with_parent() -> None:
    """Even `kill -9` of the demo must not leave its servers behind."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
