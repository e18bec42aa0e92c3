"""The same files in an S3-compatible object store, here moto's server."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer
from tests.files.conftest import http_request, said, serving, upload, upload_url
from tests.support.peers import ModernHttpPeer, StreamablePeer
from tests.support.waiting import eventually

from mooring.files.object_storage import ObjectStorage

KEYS = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "aws_region": "us-east-1"}


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(endpoint: str) -> Any:
    names = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": "us-east-1"}
    service: Any = boto3.resource("s3", endpoint_url=endpoint, **names)
    found = service.Bucket("files")
    found.create()
    found.objects.all().delete()
    return found


def options(endpoint: str) -> dict[str, str]:
    return {**KEYS, "aws_endpoint": endpoint, "allow_http": "true"}


def test_files_are_kept_in_the_bucket(tmp_path: Path, endpoint: str, bucket: Any) -> None:
    storage = {"root": str(tmp_path / "data"), "url": "s3://files/of/mooring", "options": options(endpoint)}
    data = os.urandom(20 * 1024**2)
    with serving(tmp_path, storage=storage) as gateway:
        with ModernHttpPeer(gateway, "files") as peer:
            answered = http_request("PUT", upload_url(peer)["upload_url"], data)
            assert answered.status == 201, answered.body
            [stored] = list(bucket.objects.all())
            assert stored.key.startswith("of/mooring/")
            assert stored.size == len(data)
            size, digest, _ = said(peer.tool("measure", {"path": answered.json["upload_handle"]})).split(
                " ", 2
            )
            assert (int(size), digest) == (len(data), hashlib.sha256(data).hexdigest())
        with StreamablePeer(gateway, "files") as peer:
            about = peer.tool("write", {"filename": "a.txt", "text": "0123456789"})["_meta"]["artifact"]
            part = http_request("GET", about["download_url"], headers={"Range": "bytes=3-5"})
            assert (part.status, part.body) == (206, b"345")
            upload(peer, b"more")
            assert len(list(bucket.objects.all())) == 3
        eventually(lambda: len(list(bucket.objects.all())) == 1, "the session's files to be gone")


def test_an_abandoned_upload_never_shows(endpoint: str, bucket: Any) -> None:
    async def work() -> None:
        storage = ObjectStorage("s3://files", options(endpoint))
        await storage.open()
        writer = await storage.create("0" * 32)
        await writer.write(b"x" * 9 * 1024**2)
        assert list(bucket.objects.all()) == []
        await writer.abandon()
        done = await storage.create("1" * 32)
        await done.write(b"kept")
        assert await done.finish() == hashlib.sha256(b"kept").hexdigest()
        assert b"".join([piece async for piece in storage.read("1" * 32, 1, 3)]) == b"ep"
        with pytest.raises(FileNotFoundError):
            [piece async for piece in storage.read("2" * 32, 0, 3)]
        assert await storage.sweep(set, float("inf")) == 0
        assert await storage.sweep(lambda blobs: set(), float("inf")) == 1

    asyncio.run(work())
    assert list(bucket.objects.all()) == []
