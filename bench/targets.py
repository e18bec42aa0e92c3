"""What is measured: the upstream alone, nginx, Mooring, FastMCP's proxy and mcp-proxy, started alike."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import httptools

from bench import programs, wire
from bench.processes import LOAD_CPU, TARGET_CPU, Process
from bench.wire import Connection, Endpoint

READY_SECONDS = 15.0
SERVER = "bench"
_PORTS = (18_000, 32_000)
_PORT_ATTEMPTS = 100
_NGINX = """\
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/nginx-error.log;
worker_processes 1;
worker_rlimit_nofile 20000;
events {{ worker_connections 16000; }}
http {{
  access_log off;
  client_body_temp_path {folder}/nginx-body;
  proxy_temp_path {folder}/nginx-proxy;
  fastcgi_temp_path {folder}/nginx-fastcgi;
  uwsgi_temp_path {folder}/nginx-uwsgi;
  scgi_temp_path {folder}/nginx-scgi;
  keepalive_requests 1000000000;
  upstream mcp {{
    server 127.0.0.1:{upstream};
    keepalive 128;
    keepalive_requests 1000000000;
  }}
  server {{
    listen 127.0.0.1:{port};
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    proxy_buffers 16 64k;
    proxy_max_temp_file_size 0;
{locations}
    location / {{ proxy_pass http://mcp; }}
  }}
}}
"""
_NGINX_LOCATION = "    location = {path} {{ rewrite ^ /legacy break; proxy_pass http://mcp; }}"


class StartError(RuntimeError):
    """A target did not become ready; the message carries the end of its log."""


@dataclass(frozen=True, slots=True)
class Target:
    """A started target: where a client reaches it, and the process tree that is charged for it."""

    name: str
    process: Process
    endpoint: Endpoint
    ready_seconds: float
    fast: bool

    def at(self, path: str, era: wire.Era = "legacy") -> Endpoint:
        return Endpoint(self.endpoint.port, path, era, self.endpoint.headers)


class Stage:
    """Owns the scratch folder, the upstream and every target; leaving it ends all of them."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="mooring-bench-"))
        self._started: list[Process] = []
        self._kept: dict[str, Target] = {}
        self._upstream: Target | None = None
        self._count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # A second Ctrl-C must not leave half of them running.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            for process in reversed(self._started):
                process.stop()
            shutil.rmtree(self.folder, ignore_errors=True)
        finally:
            signal.signal(signal.SIGINT, before)

    def upstream(self) -> Target:
        """The compiled upstream, beside the load generator on its CPU."""
        if self._upstream is None:
            process = self._start("upstream", [str(programs.compiled("upstream"))], LOAD_CPU)
            line = process.first_line()
            if not line.isdigit():
                raise StartError(f"the upstream did not start: {process.log_tail()}")
            self._upstream = Target("direct", process, Endpoint(int(line), "/legacy"), 0.0, fast=True)
        return self._upstream

    def upstream_url(self, path: str = "/legacy") -> str:
        return f"http://127.0.0.1:{self.upstream().endpoint.port}{path}"

    def upstream_calls(self) -> int:
        """How many tools/call the upstream has answered."""
        upstream = self.upstream().endpoint
        with Connection(upstream.port) as connection:
            answer = connection.exchange(wire.http_request("GET", Endpoint(upstream.port, "/stats"), None))
        return json.loads(answer.body)["calls"]

    def kept(self, name: str) -> Target:
        """A target shared by the suites that compare all of them; started when first asked for."""
        if name not in self._kept:
            starts = {
                "direct": self.upstream,
                "nginx": self.nginx,
                "mooring": lambda: self.mooring([self.remote(SERVER)]),
                "fastmcp": lambda: self.fastmcp("default"),
                "fastmcp-shared": lambda: self.fastmcp("shared"),
            }
            self._kept[name] = starts[name]()
        return self._kept[name]

    def nginx(self, *paths: str) -> Target:
        """Everything goes to the upstream as it is, and what is for one of these paths to its endpoint."""
        port = free_port()
        folder = self._folder("nginx")
        config = folder / "nginx.conf"
        upstream = self.upstream().endpoint.port
        locations = "\n".join(_NGINX_LOCATION.format(path=path) for path in paths)
        config.write_text(_NGINX.format(folder=folder, port=port, upstream=upstream, locations=locations))
        command = [programs.debian_program("nginx"), "-p", str(folder), "-c", str(config), "-e", "stderr"]
        return self._ready("nginx", command, Endpoint(port, "/legacy"), fast=True)

    def remote(self, identifier: str, path: str = "/legacy") -> dict[str, Any]:
        """A server entry of Mooring's configuration that points at the upstream."""
        return {"id": identifier, "upstream": {"url": self.upstream_url(path)}}

    def mooring(
        self,
        servers: Sequence[dict[str, Any]],
        era: wire.Era = "legacy",
        headers: tuple[tuple[str, str], ...] = (),
        **more: Any,
    ) -> Target:
        port = free_port()
        folder = self._folder("mooring")
        config = folder / "mooring.yaml"
        settings = {
            "mooring": 1,
            "listen": f"127.0.0.1:{port}",
            "storage": {"root": str(folder / "data")},
            "servers": list(servers),
            **more,
        }
        config.write_text(json.dumps(settings, indent=1))
        command = [*mooring_command(), "serve", "--config", str(config)]
        endpoint = Endpoint(port, f"/mcp/{servers[0]['id']}", era, headers)
        return self._ready("mooring", command, endpoint, fast=True)

    def fastmcp(self, mode: str) -> Target:
        port = free_port()
        python = programs.virtual_environment("fastmcp") / "python"
        command = [str(python), str(programs.HERE / "fastmcp_proxy.py"), self.upstream_url(), str(port), mode]
        name = "fastmcp" if mode == "default" else "fastmcp-shared"
        return self._ready(name, command, Endpoint(port, "/mcp"), fast=False)

    def mcp_proxy(self, command: Sequence[str]) -> Target:
        port = free_port()
        program = programs.virtual_environment("mcp-proxy") / "mcp-proxy"
        line = [
            str(program),
            "--log-level",
            "ERROR",
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
            "--",
            *command,
        ]
        return self._ready("mcp-proxy", line, Endpoint(port, "/mcp"), fast=False)

    def end(self, target: Target) -> None:
        target.process.stop()
        self._started.remove(target.process)

    def _ready(self, name: str, command: list[str], endpoint: Endpoint, *, fast: bool) -> Target:
        process = self._start(name, command, TARGET_CPU)
        deadline = time.perf_counter() + READY_SECONDS
        while True:
            if answers(endpoint):
                return Target(name, process, endpoint, time.perf_counter() - process.started, fast)
            if not process.alive() or time.perf_counter() > deadline:
                process.stop()
                raise StartError(f"`{name}` did not answer; the end of its log:\n{process.log_tail()}")
            time.sleep(0.002)

    def _start(self, name: str, command: Sequence[str], cpu: int) -> Process:
        folder = self._folder(f"{name}-log")
        environment = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HOME": str(folder),
            "LANG": "C.UTF-8",
            "FASTMCP_LOG_LEVEL": "ERROR",
            "FASTMCP_CHECK_FOR_UPDATES": "off",
        }
        process = Process(command, cpu=cpu, log=folder / "log", environment=environment)
        self._started.append(process)
        return process

    def _folder(self, name: str) -> Path:
        self._count += 1
        folder = self.folder / f"{self._count:03d}-{name}"
        folder.mkdir()
        return folder


def mooring_command() -> list[str]:
    """The gateway under test; BENCH_MOORING may name another program with the same command line."""
    other = os.environ.get("BENCH_MOORING")
    return other.split() if other else [str(programs.mooring_program())]


def answers(endpoint: Endpoint) -> bool:
    """Whether a first request of the endpoint's era gets its result."""
    try:
        with Connection(endpoint.port) as connection:
            if endpoint.era == "legacy":
                session = wire.session_of(connection.exchange(wire.initialize(endpoint)), endpoint)
                if session.identifier is not None:
                    connection.exchange(wire.end_session(session))
            else:
                wire.result_of(connection.exchange(wire.rpc_request(endpoint, None, "tools/list")), 1)
    except (OSError, wire.WireError, httptools.HttpParserError):
        return False
    return True


def free_port() -> int:
    """A port below those the kernel gives to clients.

    Asking for one of those until somebody listens can connect a client to itself.
    """
    for _ in range(_PORT_ATTEMPTS):
        port = random.randrange(*_PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise StartError("no free port found between {} and {}; stop what uses them".format(*_PORTS))
