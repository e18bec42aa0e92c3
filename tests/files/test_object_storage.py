"""The same files in an S3-compatible object store, here moto's server."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import threading
from collections.abc import Iterator
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import boto3
import pytest
from moto.server import ThreadedMotoServer
from tests.files.conftest import file_server, http_request, said, serving, upload, upload_url

# The same tests as for a local folder, with the gateway below.
from tests.files.test_artifacts import (
    test_a_download_is_whole_and_safe,
    test_a_resource_can_be_read_in_ranges,
    test_a_session_lists_its_artifacts_and_hears_of_new_ones,
    test_a_tool_may_take_and_make,
    test_an_anonymous_modern_client_lists_nothing_but_reads_what_it_knows,
    test_an_embedded_image_becomes_an_artifact,
    test_one_call_may_make_several,
    test_ranges,
    test_the_path_on_our_side_does_not_show,
    test_what_a_tool_writes_is_named_three_ways,
)
from tests.files.test_attacks import (
    test_an_artifact_that_is_still_written_is_whole_or_not_there,
    test_links_and_pipes_are_not_followed,
    test_w2_no_name_does_any_harm,
)
from tests.files.test_sending import test_a_file_may_come_in_pieces, test_a_wrong_hash_ends_a_resumable_upload
from tests.files.test_uploads import (
    test_a_body_that_ends_too_early_leaves_nothing,
    test_a_handle_of_another_scope_is_not_found,
    test_a_handle_of_another_server_is_not_found,
    test_a_raw_body_can_be_put,
    test_an_upload_reaches_the_tool_as_a_file,
    test_hashes_are_checked,
    test_if_one_file_fails_none_remains,
    test_lists_and_deep_arguments_take_handles,
)
from tests.support.gateway import Gateway
from tests.support.peers import ModernHttpPeer, StreamablePeer
from tests.support.waiting import eventually

from mooring.files.object_storage import ObjectStorage

__all__ = [
    "test_a_body_that_ends_too_early_leaves_nothing",
    "test_a_download_is_whole_and_safe",
    "test_a_file_may_come_in_pieces",
    "test_a_handle_of_another_scope_is_not_found",
    "test_a_handle_of_another_server_is_not_found",
    "test_a_raw_body_can_be_put",
    "test_a_resource_can_be_read_in_ranges",
    "test_a_session_lists_its_artifacts_and_hears_of_new_ones",
    "test_a_tool_may_take_and_make",
    "test_a_wrong_hash_ends_a_resumable_upload",
    "test_an_anonymous_modern_client_lists_nothing_but_reads_what_it_knows",
    "test_an_artifact_that_is_still_written_is_whole_or_not_there",
    "test_an_embedded_image_becomes_an_artifact",
    "test_an_upload_reaches_the_tool_as_a_file",
    "test_hashes_are_checked",
    "test_if_one_file_fails_none_remains",
    "test_links_and_pipes_are_not_followed",
    "test_lists_and_deep_arguments_take_handles",
    "test_one_call_may_make_several",
    "test_ranges",
    "test_the_path_on_our_side_does_not_show",
    "test_w2_no_name_does_any_harm",
    "test_what_a_tool_writes_is_named_three_ways",
]
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
    return make_bucket(endpoint, "files")


def make_bucket(endpoint: str, name: str) -> Any:
    names = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": "us-east-1"}
    service: Any = boto3.resource("s3", endpoint_url=endpoint, **names)
    found = service.Bucket(name)
    found.create()
    found.objects.all().delete()
    return found


def options(endpoint: str) -> dict[str, str]:
    return {**KEYS, "aws_endpoint": endpoint, "allow_http": "true"}


@pytest.fixture(scope="module")
def gateway(endpoint: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """In the place of the one with a local folder, for the tests that came from elsewhere."""
    folder = tmp_path_factory.mktemp("objects")
    make_bucket(endpoint, "shared")
    storage = {"root": str(folder / "data"), "url": "s3://shared", "options": options(endpoint)}
    with serving(folder, file_server(), file_server("others"), storage=storage) as found:
        yield found


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
    assert list(bucket.multipart_uploads.all()) == [], "parts that nobody sees are paid for, too"


@pytest.mark.parametrize("prefix", ["", "of/mooring/"])
def test_what_others_keep_in_the_bucket_is_not_swept(endpoint: str, bucket: Any, prefix: str) -> None:
    foreign = {
        f"{prefix}report.pdf",
        f"{prefix}photos/{'b' * 32}",
        f"photos/{'c' * 32}",
        f"{prefix}{'d' * 31}",
    }
    for key in {*foreign, f"{prefix}{'a' * 32}"}:
        bucket.put_object(Key=key, Body=b"x")

    async def work() -> int:
        storage = ObjectStorage(f"s3://files/{prefix}", options(endpoint))
        await storage.open()
        return await storage.sweep(lambda blobs: set(), float("inf"))

    assert asyncio.run(work()) == 1
    assert {stored.key for stored in bucket.objects.all()} == foreign


def test_a_store_that_is_away_is_said_and_passes(tmp_path: Path) -> None:
    store = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    store.start()
    address = "http://{}:{}".format(*store.get_host_and_port())
    make_bucket(address, "files")
    storage = {"root": str(tmp_path / "data"), "url": "s3://files", "options": options(address)}
    with serving(tmp_path, storage=storage) as gateway, ModernHttpPeer(gateway, "files") as peer:
        about = upload_url(peer)
        handle = upload(peer, b"kept")
        store.stop()
        refused = http_request("PUT", about["upload_url"], b"lost")
        assert refused.status == 503
        assert "the object store" in refused.json["error"]
        made = said(peer.tool("write", {"filename": "a.txt"}))
        assert "was not kept" in made
        assert "the object store" in made
        assert "the object store" in said(peer.tool("measure", {"path": handle}))
        assert said(peer.tool("plain")) == "plain"


class SlowlyRead(BaseHTTPRequestHandler):
    """As much of an object store as is needed to see which requests are open."""

    protocol_version = "HTTP/1.1"
    data = os.urandom(64 * 1024**2)
    open_requests = 0

    def do_GET(self) -> None:
        SlowlyRead.open_requests += 1
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers["Range"])
        assert found is not None
        start, last = int(found[1]), int(found[2])
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {start}-{last}/{len(self.data)}")
        self.send_header("Content-Length", str(last + 1 - start))
        self.send_header("Last-Modified", formatdate(usegmt=True))
        self.send_header("ETag", '"one"')
        self.end_headers()
        self.wfile.write(self.data[start : last + 1])
        SlowlyRead.open_requests -= 1

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Nobody reads it."""


def test_a_download_may_take_longer_than_a_request_to_the_store(tmp_path: Path) -> None:
    """A request that waits for a slow reader is given up by the store's client after half a minute."""

    async def work(address: str) -> bytes:
        storage = ObjectStorage("s3://files", options(address))
        await storage.open()
        pieces: list[bytes] = []
        async for piece in storage.read("0" * 32, 10, len(SlowlyRead.data)):
            if not pieces:
                await asyncio.to_thread(eventually, lambda: not SlowlyRead.open_requests, "it to be sent")
            pieces.append(piece)
        return b"".join(pieces)

    server = ThreadingHTTPServer(("127.0.0.1", 0), SlowlyRead)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        assert asyncio.run(work(f"http://127.0.0.1:{server.server_port}")) == SlowlyRead.data[10:]
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


def test_an_artifact_does_not_expire_while_it_is_downloaded(
    tmp_path: Path, endpoint: str, bucket: Any
) -> None:
    storage = {"root": str(tmp_path / "data"), "url": "s3://files", "options": options(endpoint)}
    short = {"ttl_seconds": 1}
    with (
        serving(tmp_path, storage=storage, artifacts=short) as gateway,
        StreamablePeer(gateway, "files") as peer,
    ):
        handle = upload(peer, b"a" * 40 * 1024**2)
        large = peer.tool("convert", {"path": handle, "filename": "large.txt"})["_meta"]["artifact"]
        with urlopen(large["download_url"], timeout=30) as download:
            begun = download.read(1)
            key = peer.tool("write", {"filename": "a.txt"})["_meta"]["artifact"]["artifact_id"]
            eventually(lambda: key not in [found.key for found in bucket.objects.all()], "another to expire")
            assert len(begun + download.read()) == 40 * 1024**2
