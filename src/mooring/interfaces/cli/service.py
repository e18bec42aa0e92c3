"""`mooring service`: the user's gateway from log-in on, by systemd or launchd."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
from pathlib import Path
from xml.sax.saxutils import escape

from mooring.durable import replace_file
from mooring.interfaces.cli.failure import Failed
from mooring.interfaces.cli.gateway_socket import answers, find_socket
from mooring.interfaces.cli.run_api import ask
from mooring.interfaces.cli.service_daemon import LOG_NAME
from mooring.workloads.state import holder_of

LABEL = "dev.mooring.gateway"
_STOP_SECONDS = 30.0


def install(arguments: argparse.Namespace) -> int:
    """Write the unit and say how to switch it on."""
    path, text, next_step = _unit(arguments)
    if arguments.print:
        sys.stdout.write(text)
        return 0
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, text.encode(), 0o644)
    print(f"wrote {path}")
    print(f"switch it on: {next_step}", file=sys.stderr)
    return 0


def uninstall(arguments: argparse.Namespace) -> int:
    path, _, _ = _unit(arguments)
    if not path.is_file():
        raise Failed(f"there is no `{path}`: nothing is installed")
    path.unlink()
    off = (
        "systemctl --user disable --now mooring" if sys.platform != "darwin" else f"launchctl remove {LABEL}"
    )
    print(f"removed {path}")
    print(f"if it still runs: {off}", file=sys.stderr)
    return 0


def stop(arguments: argparse.Namespace) -> int:
    """End the gateway that runs in the background; what it ran comes back with its next start."""
    socket = find_socket(arguments)
    if not answers(socket):
        print("no gateway runs", file=sys.stderr)
        return 0
    ask(socket, "POST", "/api/v1/shutdown")
    deadline = time.monotonic() + _STOP_SECONDS
    # It stops listening first and what it ran after that: it is gone when it lets go of its data directory.
    while answers(socket) or holder_of(socket.parent) is not None:
        if time.monotonic() > deadline:
            raise Failed(f"it still runs after {_STOP_SECONDS:g} s: see {socket.parent / LOG_NAME}")
        time.sleep(0.02)
    print("the gateway has stopped")
    return 0


def _unit(arguments: argparse.Namespace) -> tuple[Path, str, str]:
    kind = arguments.kind or ("launchd" if sys.platform == "darwin" else "systemd")
    command = [sys.executable, "-m", "mooring.interfaces.cli.main", "serve", "--user"]
    if kind == "launchd":
        path = Path.home() / "Library" / "LaunchAgents" / f"{LABEL}.plist"
        return path, _plist(command), f"launchctl load -w {shlex.quote(str(path))}"
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    path = Path(base) / "systemd" / "user" / "mooring.service"
    return path, _systemd(command), "systemctl --user daemon-reload && systemctl --user enable --now mooring"


def _systemd(command: list[str]) -> str:
    # In a unit `%` begins a specifier, and quotes and backslashes are read as in C.
    words = (word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%") for word in command)
    start = " ".join(f'"{word}"' for word in words)
    return f"""\
[Unit]
Description=Mooring, the gateway between MCP clients and servers
After=network.target

[Service]
ExecStart={start}
ExecReload=/bin/kill -HUP $MAINPID
Restart=on-failure
RestartSec=2
KillMode=mixed
TimeoutStopSec=30

[Install]
WantedBy=default.target
"""


def _plist(command: list[str]) -> str:
    words = "\n".join(f"    <string>{escape(word)}</string>" for word in command)
    return f"""\
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
  <key>Label</key>
  <string>{LABEL}</string>
  <key>ProgramArguments</key>
  <array>
{words}
  </array>
  <key>RunAtLoad</key>
  <true/>
  <key>KeepAlive</key>
  <dict>
    <key>SuccessfulExit</key>
    <false/>
  </dict>
</dict>
</plist>
"""
