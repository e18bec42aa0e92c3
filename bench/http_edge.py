"""CPU time per request of the HTTP edge: the listener alone, and listener + client pool as a proxy.

    python bench/http_edge.py
    python bench/http_edge.py --peer 'nginx=nginx -p DIR -c FILE' --peer-port nginx=8080 --upstream-port 9100

Every target runs in a process of its own and stays up; each round visits all of them, so drift of the machine
hits all alike. The figure is the CPU clock of the target's process (user + system) per request. A peer is any
command that serves the same request on a port of its own; `{port}` and `{upstream}` in it are replaced.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import shlex
import socket
import statistics
import subprocess
import sys
import time

import uvloop

from mooring.transports.http_client import ClientLimits, ClientPool, Origin
from mooring.transports.http_listener import Buffered, Endpoint, Listener, Reply, Request

BODY = (
    b'{"jsonrpc":"2.0","id":100001,"method":"initialize","params":{"name":"echo","arguments":{"text":"%b"}}}'
    % (b"x" * 100)
)
REQUEST = (
    b"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1:8080\r\ncontent-type: application/json\r\n"
    b"accept: application/json, text/event-stream\r\nmcp-protocol-version: 2025-11-25\r\n"
    b"authorization: Bearer 0123456789abcdef0123456789abcdef\r\ncontent-length: %d\r\n\r\n%b"
    % (len(BODY), BODY)
)
ANSWER = b'{"jsonrpc":"2.0","id":100001,"result":{"content":[{"type":"text","text":"%b"}]}}' % (b"x" * 100)
JSON = ((b"content-type", b"application/json"),)
FORWARDED = frozenset(
    (b"content-type", b"accept", b"mcp-protocol-version", b"mcp-session-id", b"authorization")
)


class Echo:
    """Answers at once."""

    def __init__(self) -> None:
        self._endpoint = Buffered(self.handle, 1 << 20)

    def accept(self, request: Request) -> Endpoint:
        return self._endpoint

    def handle(self, request: Request, reply: Reply) -> None:
        reply.send(200, JSON, ANSWER)


class Proxy:
    """Forwards with one task per request, as a gateway does."""

    def __init__(self, port: int) -> None:
        self._endpoint = Buffered(self.handle, 1 << 20)
        self._pool = ClientPool(Origin("http", "127.0.0.1", port), ClientLimits())
        self._loop = asyncio.get_running_loop()

    def accept(self, request: Request) -> Endpoint:
        return self._endpoint

    def handle(self, request: Request, reply: Reply) -> None:
        reply.on_closed = self._loop.create_task(self._forward(request, reply)).cancel

    async def _forward(self, request: Request, reply: Reply) -> None:
        headers = b"".join([b"%b: %b\r\n" % header for header in request.headers if header[0] in FORWARDED])
        response = await self._pool.request(request.method, request.target, headers, request.body)
        body = response.body() if response.complete else await response.read(1 << 20)
        reply.send(response.status, response.headers, body)


class Upstream(asyncio.Protocol):
    """The cheapest server there is: one fixed answer per request that ends with a brace."""

    answer = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
        len(ANSWER),
        ANSWER,
    )

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if data.endswith(b"}}}"):
            self.transport.write(self.answer)  # type: ignore[attr-defined]


async def serve(role: str, port: int, upstream: int) -> None:
    if role == "upstream":
        server = await asyncio.get_running_loop().create_server(Upstream, "127.0.0.1", port)
        await server.serve_forever()
    gc.freeze()
    listener = Listener(Echo() if role == "listener" else Proxy(upstream))
    await listener.listen_tcp("127.0.0.1", port)
    await asyncio.Event().wait()


class Load(asyncio.Protocol):
    """One connection that asks again as soon as it has its answer."""

    def __init__(self, counter: list[int]) -> None:
        self.counter = counter

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.rest = -1
        transport.write(REQUEST)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        if self.rest < 0:
            end = data.index(b"\r\n\r\n") + 4
            if b" 200 " not in data[:16]:
                raise SystemExit(f"unexpected answer: {data[:200]!r}")
            length = int(data.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
            self.rest = length - (len(data) - end)
        else:
            self.rest -= len(data)
        if self.rest == 0:
            self.rest = -1
            self.counter[0] += 1
            self.transport.write(REQUEST)  # type: ignore[attr-defined]


async def burst(port: int, connections: int, seconds: float) -> int:
    loop = asyncio.get_running_loop()
    counter = [0]
    opened = [
        (await loop.create_connection(lambda: Load(counter), "127.0.0.1", port))[0]
        for _ in range(connections)
    ]
    await asyncio.sleep(seconds)
    for transport in opened:
        transport.abort()
    return counter[0]


def cpu_seconds(pid: int) -> float:
    """CPU clock of a process and its children that are still alive."""
    total = 0.0
    with open(f"/proc/{pid}/task/{pid}/children") as children:
        for child in children.read().split():
            total += cpu_seconds(int(child))
    return total + time.clock_gettime((~pid << 3) | 2)


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def wait_for(port: int) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        with socket.socket() as sock:
            if sock.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise SystemExit(f"nothing listens on port {port}")


def start(command: list[str], cpu: int) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(command)
    os.sched_setaffinity(process.pid, {cpu})
    return process


def run(options: argparse.Namespace) -> None:
    first, last = 0, (os.cpu_count() or 1) - 1
    upstream = options.upstream_port or free_port()
    processes: list[subprocess.Popen[bytes]] = []
    targets: dict[str, tuple[int, int]] = {}
    me = [sys.executable, __file__]
    try:
        processes.append(start([*me, "--role", "upstream", "--port", str(upstream)], last))
        wait_for(upstream)
        commands = {
            role: [*me, "--role", role, "--port", "{port}", "--upstream", "{upstream}"]
            for role in ("listener", "proxy")
        }
        for peer in options.peer:
            name, _, command = peer.partition("=")
            commands[name] = shlex.split(command)
        ports = dict(entry.split("=") for entry in options.peer_port)
        for name, command in commands.items():
            port = int(ports.get(name, 0)) or free_port()
            filled = [
                part.replace("{port}", str(port)).replace("{upstream}", str(upstream)) for part in command
            ]
            processes.append(start(filled, first))
            wait_for(port)
            targets[name] = (processes[-1].pid, port)
        os.sched_setaffinity(0, {last})
        report(measure(targets, options), options)
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(5)


def measure(
    targets: dict[str, tuple[int, int]], options: argparse.Namespace
) -> dict[str, list[tuple[float, float]]]:
    figures: dict[str, list[tuple[float, float]]] = {name: [] for name in targets}
    for port in [port for _, port in targets.values()]:
        uvloop.run(burst(port, options.connections, 0.3))
    for _ in range(options.rounds):
        for name, (pid, port) in targets.items():
            before = cpu_seconds(pid)
            count = uvloop.run(burst(port, options.connections, options.seconds))
            figures[name].append(((cpu_seconds(pid) - before) / max(count, 1) * 1e6, count / options.seconds))
    return figures


def report(figures: dict[str, list[tuple[float, float]]], options: argparse.Namespace) -> None:
    """Medians; the ratio is the median of the ratios within each round."""
    reference = options.relative_to or next(iter(figures))
    ratio_title = f"x {reference}"
    print(f"{'target':14} {'CPU us/request':>16} {'[min-max]':>16} {ratio_title:>12} {'requests/s':>12}")
    for name, rows in figures.items():
        cpu = [row[0] for row in rows]
        spread = f"[{min(cpu):.1f}-{max(cpu):.1f}]"
        ratio = statistics.median(own / other[0] for own, other in zip(cpu, figures[reference], strict=True))
        rate = statistics.median(row[1] for row in rows)
        print(f"{name:14} {statistics.median(cpu):16.1f} {spread:>16} {ratio:12.2f} {rate:12.0f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--role", choices=["upstream", "listener", "proxy"], help="be one of the processes")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--upstream", type=int, default=0)
    parser.add_argument("--upstream-port", type=int, default=0)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument(
        "--relative-to", default="", metavar="NAME", help="the target that the ratios refer to"
    )
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=COMMAND")
    parser.add_argument("--peer-port", action="append", default=[], metavar="NAME=PORT")
    arguments = parser.parse_args()
    if arguments.role:
        uvloop.run(serve(arguments.role, arguments.port, arguments.upstream))
    else:
        run(arguments)
