"""HTTP over the Unix socket of a running gateway."""

from __future__ import annotations

import http.client
import json
import socket
from pathlib import Path
from typing import Any

from mooring.interfaces.cli.failure import Failed
from mooring.interfaces.cli.gateway_socket import CONNECT_SECONDS, open_socket, refusal


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path, timeout: float | None = None) -> None:
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self) -> None:
        self.sock = open_socket(self.path)
        self.sock.settimeout(self.timeout)


def get(path: Path, target: str, timeout: float | None = CONNECT_SECONDS) -> http.client.HTTPResponse:
    """GET from the control API; anything but 200 is an error."""
    return open_stream(path, target, timeout)[1]


def open_stream(
    path: Path, target: str, timeout: float | None = None
) -> tuple[socket.socket, http.client.HTTPResponse]:
    """As `get`, for an answer that ends when somebody shuts its socket."""
    connection = UnixConnection(path, timeout)
    try:
        connection.request("GET", target)
        response = connection.getresponse()
    except (OSError, http.client.HTTPException) as error:
        raise Failed(f"the gateway at `{path}` does not answer: {error or type(error).__name__}") from error
    if response.status != 200:
        raise Failed(refusal(response.status, response.read(65536)))
    return connection.sock, response


def get_json(path: Path, target: str) -> Any:
    """GET from the control API, decoded."""
    try:
        return json.loads(get(path, target).read())
    except ValueError as error:
        raise Failed("the gateway's answer is not JSON: is it another version of mooring?") from error
