"""`make demo`: the example servers and the gateway in front of them, until Ctrl-C.

The gateway runs in this process; the servers are its children's equals, one process each. They take their
usual ports where those are free and others where not.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

from mooring.interfaces.cli.main import main as mooring

ROOT = Path(__file__).resolve().parents[1]
CONFIG = Path("examples") / "mooring.yaml"
# variable in examples/mooring.yaml -> the server whose port it holds
SERVERS = {
    "CLOCK_PORT": "clock_sse_server.py",
    "LIBRARY_PORT": "library_server.py",
    "WEATHER_PORT": "weather_server.py",
}
STOP_SECONDS = 5
PR_SET_PDEATHSIG = 1

HINT = """\
try in another terminal:
  {command} status --config {config}
  {command} tool list notes --config {config}
  {command} tool call weather forecast city=Bergen --config {config}
  {command} trace library --config {config}
Ctrl-C stops everything
"""


def main() -> int:
    os.chdir(ROOT)
    with ExitStack() as stack:
        try:
            for variable, script in SERVERS.items():
                os.environ[variable] = str(_start(script, stack))
            command = Path(sys.executable).with_name("mooring").relative_to(ROOT)
            print(HINT.format(command=command, config=CONFIG), file=sys.stderr)
            return mooring(["serve", "--config", str(CONFIG), "--print-snippet", *sys.argv[1:]])
        except KeyboardInterrupt:
            return 0


def _start(script: str, stack: ExitStack) -> int:
    """Start one server; its port."""
    for arguments in ([], ["--port", "0"]):
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
        assert process.stdout is not None
        if url := process.stdout.readline().strip():
            return urlsplit(url).port or 0
    raise SystemExit(f"cannot start examples/{script}: run it by hand to see why")


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
