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
    """GET from the control API; anything but 200 is an error. The response has its socket to itself."""
    return _get(UnixConnection(path, timeout), target, {"Connection": "close"})


def open_stream(
    path: Path, target: str, timeout: float | None = None
) -> tuple[socket.socket, http.client.HTTPResponse]:
    """As `get`, for an answer that ends when somebody shuts its socket."""
    connection = UnixConnection(path, timeout)
    response = _get(connection, target, {})
    return connection.sock, response


def _get(connection: UnixConnection, target: str, headers: dict[str, str]) -> http.client.HTTPResponse:
    try:
        connection.request("GET", target, headers=headers)
        response = connection.getresponse()
    except (OSError, http.client.HTTPException) as error:
        connection.close()
        why = str(error) or type(error).__name__
        raise Failed(f"the gateway at `{connection.path}` does not answer: {why}") from error
    if response.status != 200:
        refused = refusal(response.status, response.read(65536))
        connection.close()
        raise Failed(refused)
    return response


def get_json(path: Path, target: str) -> Any:
    """GET from the control API, decoded."""
    try:
        return json.loads(get(path, target).read())
    except ValueError as error:
        raise Failed("the gateway's answer is not JSON: is it another version of mooring?") from error
