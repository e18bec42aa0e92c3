"""`mooring proxy stdio`: stdin and stdout of this process are a connection to a server of the gateway.

A client may start it for every conversation, so it imports little. Nothing but protocol goes to stdout.
"""

from __future__ import annotations

import argparse
import os
import re
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import quote

from mooring.interfaces.cli.failure import Failed, reason_of
from mooring.interfaces.cli.gateway_socket import find_socket, open_socket, refusal

CHUNK_BYTES = 1 << 16
# Far more than the gateway's answer to an upgrade; a peer that is no gateway must not fill the memory.
MAX_HEAD_BYTES = 1 << 16
# The gateway upgrades before it starts anything, so this is not the time a server needs to start.
UPGRADE_SECONDS = 10.0


def run_stdio(arguments: argparse.Namespace) -> int:
    """Pump bytes both ways until the gateway ends the connection or nobody reads stdout."""
    connection = open_socket(find_socket(arguments))
    with connection:
        first = _upgrade(connection, arguments.id)
        # A thread each way: a single loop would stop reading while it waits for room to write.
        threading.Thread(target=_pump_stdin, args=(connection,), daemon=True).start()
        with suppress(BrokenPipeError):
            _write_all(first)
            while data := _received(connection):
                _write_all(data)
    return 0


def _pump_stdin(connection: socket.socket) -> None:
    # Its end is only half of the connection's: answers to what was sent are still on their way.
    with suppress(OSError):
        while data := os.read(0, CHUNK_BYTES):
            connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)


def _received(connection: socket.socket) -> bytes:
    try:
        return connection.recv(CHUNK_BYTES)
    except ConnectionError as error:
        raise Failed(
            f"the connection to the gateway broke: {reason_of(error)}; start the client again"
        ) from error


def _write_all(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


def _upgrade(connection: socket.socket, server: str) -> bytes:
    """Ask for the raw stream; the answer is what already came of it."""
    connection.sendall(
        f"GET /api/v1/stdio/{quote(server, safe='')} HTTP/1.1\r\nHost: localhost\r\n"
        "Connection: Upgrade\r\nUpgrade: mcp-stdio\r\n\r\n".encode()
    )
    connection.settimeout(UPGRADE_SECONDS)
    try:
        received = _receive_until(connection, b"", lambda data: b"\r\n\r\n" in data)
        head, _, rest = received.partition(b"\r\n\r\n")
        if head.startswith(b"HTTP/1.1 101 "):
            connection.settimeout(None)
            return rest
        match = re.match(
            rb"HTTP/1\.1 (\d{3}) .*?(?:\r\ncontent-length: *(\d+)|$)", head, re.DOTALL | re.IGNORECASE
        )
        if match is None:
            raise Failed("what listens on the socket is not a gateway: give the right one with --socket")
        length = int(match.group(2) or 0)
        body = _receive_until(connection, rest, lambda data: len(data) >= length)
        raise Failed(refusal(int(match.group(1)), body))
    except TimeoutError as error:
        raise Failed("the gateway does not answer: look at its log, or start it again") from error


def _receive_until(connection: socket.socket, received: bytes, is_enough: Callable[[bytes], bool]) -> bytes:
    while not is_enough(received) and len(received) < MAX_HEAD_BYTES:
        if not (data := connection.recv(CHUNK_BYTES)):
            break
        received += data
    return received
