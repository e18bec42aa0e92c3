"""A gateway whose servers take and make files, and clients that send some."""

from __future__ import annotations

import http.client
import json
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.support.gateway import Gateway, running_gateway
from tests.support.peers import ModernHttpPeer, Peer, StreamablePeer

SERVER = str(Path(__file__).parent / "file_server.py")
Json = dict[str, Any]
ADAPTERS: list[Json] = [
    {"type": "upload_consumer", "tools": ["measure", "convert"], "file_path_argument": "path"},
    {"type": "upload_consumer", "tools": ["measure_all"], "file_path_argument": "paths"},
    {"type": "upload_consumer", "tools": ["measure_deep"], "file_path_argument": "items[*].path"},
    {"type": "artifact_producer", "tools": ["write", "convert"], "output_path_argument": "filename"},
    {
        "type": "artifact_producer",
        "tools": ["say", "act"],
        "output_path_argument": "filename",
        "output_locator": {"mode": "regex"},
    },
    {"type": "artifact_producer", "tools": ["embed"], "output_locator": {"mode": "embedded"}},
]


def file_server(identifier: str = "files", *words: str, **more: Any) -> Json:
    run = [sys.executable, "-S", SERVER, *words]
    return {"id": identifier, "workload": {"run": run}, "adapters": ADAPTERS, **more}


@contextmanager
def serving(folder: Path, *servers: Json, **settings: Any) -> Iterator[Gateway]:
    settings.setdefault("core", {"allow_artifacts_download": True})
    with running_gateway(folder, list(servers) or [file_server()], **settings) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    others = file_server("others")
    with serving(tmp_path_factory.mktemp("files"), file_server(), others) as found:
        yield found


PEERS = {"legacy": StreamablePeer, "modern": ModernHttpPeer}


@pytest.fixture(params=["legacy", "modern"])
def peer(request: pytest.FixtureRequest, gateway: Gateway) -> Iterator[Peer]:
    with PEERS[request.param](gateway, "files") as found:
        yield found


class Answered:
    """What an HTTP request was answered with."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    @property
    def json(self) -> Json:
        return json.loads(self.body)


def http_request(
    method: str, url: str, body: bytes | Iterator[bytes] | None = None, headers: dict[str, str] | None = None
) -> Answered:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
    try:
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        connection.request(method, target, body, headers or {})
        return Answered(connection.getresponse())
    finally:
        connection.close()


def form(*files: tuple[str, bytes], hashes: tuple[str, ...] = (), field: str = "file") -> tuple[bytes, str]:
    """A multipart body and its content type."""
    boundary = uuid.uuid4().hex
    parts: list[bytes] = []
    for name, data in files:
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="{field}"; filename="{name}"\r\n'
        parts.append(head.encode() + b"Content-Type: application/octet-stream\r\n\r\n" + data + b"\r\n")
    for value in hashes:
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="sha256"\r\n\r\n{value}\r\n'
        parts.append(head.encode())
    return b"".join(parts) + f"--{boundary}--\r\n".encode(), f"multipart/form-data; boundary={boundary}"


def upload_url(peer: Peer, server: str = "files", **arguments: Any) -> Json:
    return peer.tool(f"{server}_get_upload_url", arguments)["structuredContent"]


def post(about: Json, *files: tuple[str, bytes], hashes: tuple[str, ...] = ()) -> Answered:
    """Send files as the upload tool says."""
    body, kind = form(*files, hashes=hashes)
    return http_request("POST", about["upload_url"], body, {**about["headers"], "Content-Type": kind})


def upload(peer: Peer, data: bytes, name: str = "report.txt") -> str:
    """A handle for these bytes."""
    answered = post(upload_url(peer), (name, data))
    assert answered.status == 200, answered.body
    return answered.json["uploads"][0]["upload_handle"]


def said(result: Json) -> str:
    return "\n".join(block["text"] for block in result["content"] if block["type"] == "text")
