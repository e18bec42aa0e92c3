"""`python -m bench.authoring`: the CPU time of one small call, compared with the official SDK's server.

Both servers offer the same functions and get the same calls, turn by turn; what counts is the ratio.
"""

from __future__ import annotations

import argparse
import http.client
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

_SERVER = Path(__file__).with_name("authored_server.py")
_KINDS = ("authored", "official")
_META = "io.modelcontextprotocol/"
_TOOLS: dict[str, dict[str, Any]] = {
    "add": {"a": 1, "b": 2},
    "add_in_thread": {"a": 1, "b": 2},
    "search": {"query": "x", "limit": 5},
}
Call = Callable[[str, dict[str, Any]], dict[str, Any]]


def cpu_seconds(pid: int) -> float:
    """User and system time of a process, from its own clock."""
    return time.clock_gettime((~pid << 3) | 2)


class HttpCaller:
    """One kept connection; legacy with a session, modern without."""

    def __init__(self, url: str, *, modern: bool) -> None:
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port)
        self._path = parts.path
        self._modern = modern
        self._headers = {
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
        }
        if not modern:
            client = {"name": "bench", "version": "1"}
            hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
            self._post({"id": 0, "method": "initialize", "params": hello}, {})
            self._post({"method": "notifications/initialized"}, {})

    def __call__(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        params: dict[str, Any] = {"name": name, "arguments": arguments}
        headers: dict[str, str] = {}
        if self._modern:
            version = "2026-07-28"
            params["_meta"] = {_META + "protocolVersion": version, _META + "clientCapabilities": {}}
            headers = {"mcp-protocol-version": version, "mcp-method": "tools/call", "mcp-name": name}
        return self._post({"id": 1, "method": "tools/call", "params": params}, headers)

    def _post(self, message: dict[str, Any], headers: dict[str, str]) -> dict[str, Any]:
        body = json.dumps({"jsonrpc": "2.0", **message})
        self._connection.request("POST", self._path, body, {**self._headers, **headers})
        response = self._connection.getresponse()
        if session := response.getheader("mcp-session-id"):
            self._headers["mcp-session-id"] = session
        data = response.read()
        return json.loads(data) if data else {}


class StdioCaller:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        client = {"name": "bench", "version": "1"}
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
        self._say({"id": 0, "method": "initialize", "params": hello})
        self._hear()
        self._say({"method": "notifications/initialized"})

    def __call__(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        self._say({"id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}})
        return self._hear()

    def _say(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._process.stdin.flush()

    def _hear(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())


@contextmanager
def running(kind: str, wire: str) -> Generator[tuple[int, Call]]:
    transport = "stdio" if wire == "stdio" else "http"
    command = [sys.executable, str(_SERVER), kind, transport]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        try:
            if transport == "stdio":
                yield process.pid, StdioCaller(process)
            else:
                url = process.stdout.readline().strip()
                yield process.pid, HttpCaller(url, modern=wire == "modern")
        finally:
            process.kill()


def measure(pid: int, call: Call, tool: str, calls: int) -> float:
    """CPU seconds of the server for each call."""
    before = cpu_seconds(pid)
    for _ in range(calls):
        answer = call(tool, _TOOLS[tool])
        if answer.get("result", {}).get("isError") or "result" not in answer:
            raise RuntimeError(f"`{tool}` failed: {answer}")
    return (cpu_seconds(pid) - before) / calls


def compare(wire: str, tool: str, calls: int, rounds: int) -> dict[str, float]:
    found: dict[str, list[float]] = {kind: [] for kind in _KINDS}
    with running("authored", wire) as authored, running("official", wire) as official:
        servers = dict(zip(_KINDS, (authored, official), strict=True))
        for kind, (pid, call) in servers.items():
            measure(pid, call, tool, calls)  # warm
            del kind
        for _ in range(rounds):
            for kind, (pid, call) in servers.items():
                found[kind].append(measure(pid, call, tool, calls))
    return {kind: statistics.median(values) for kind, values in found.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=200, help="calls in each round")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    print(f"{'wire':8} {'tool':14} {'authored':>10} {'official':>10} {'ratio':>6}")
    for wire in ("legacy", "modern", "stdio"):
        for tool in _TOOLS:
            found = compare(wire, tool, options.calls, options.rounds)
            authored, official = found["authored"] * 1e6, found["official"] * 1e6
            ratio = official / authored
            print(f"{wire:8} {tool:14} {authored:7.0f} µs {official:7.0f} µs {ratio:5.1f}×")
    return 0


if __name__ == "__main__":
    sys.exit(main())
