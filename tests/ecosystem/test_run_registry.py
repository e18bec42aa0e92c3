"""`mooring run NAME`: what a registry's entry makes of the command line, and a signed image."""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from mooring.ecosystem.registry.image_registry import image_name
from mooring.interfaces.cli.failure import Failed
from mooring.interfaces.cli.run_registry import document_for
from mooring.workloads.secrets.store import SecretPlaces, open_store, set_up

KEYED = {
    "servers": {
        "keyed": {
            "image": "npx://keyed",
            "transport": "stdio",
            "env_vars": [
                {"name": "KEY", "required": True, "secret": True},
                {"name": "LEVEL", "default": "info"},
            ],
        }
    }
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.delenv("MOORING_SECRETS_PROVIDER", raising=False)
    return tmp_path / "mooring"


def flags(**given: Any) -> argparse.Namespace:
    nothing = {"env": [], "secret": [], "volume": [], "after": [], "runtime": None}
    return argparse.Namespace(**{**nothing, **given})


def registry(home: Path, content: Any) -> None:
    home.mkdir(exist_ok=True)
    (home / "r.json").write_text(json.dumps(content))
    listed = [{"name": "mine", "kind": "file", "location": str(home / "r.json")}]
    (home / "registries.json").write_text(json.dumps({"version": 1, "registries": listed}))


@pytest.mark.parametrize("source", ["ghcr.io/x/y:1.0", "mcp/unknown", "busybox", "x@sha256:abc"])
def test_what_no_registry_knows_is_an_image(home: Path, source: str) -> None:
    assert document_for(source, {}, flags()) is None


def test_a_known_server_brings_its_profile(home: Path) -> None:
    found = document_for("mcp-server-fetch", {}, flags())
    assert found is not None
    assert found["image"] == "uvx://mcp-server-fetch"
    assert found["permission_profile"] == {"network": {"outbound": {"insecure_allow_all": True}}}


def test_arguments_on_the_command_line_answer_for_those_of_the_entry(home: Path) -> None:
    found = document_for("server-filesystem", {}, flags(after=["/srv"]))
    assert found is not None
    assert found["cmd_args"] == ["/srv"]
    with pytest.raises(Failed, match="needs `folder`"):
        document_for("server-filesystem", {}, flags())


def test_a_path_that_a_server_is_given_can_be_used_by_it(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes").mkdir()
    notes = str(tmp_path / "notes")
    typed = flags(after=["./notes", "--verbose"], volume=["/srv:ro"])
    found = document_for("server-filesystem", {}, typed)
    assert found is not None
    assert found["cmd_args"] == [notes, "--verbose"]
    assert typed.volume == [notes, "/srv:ro"]
    named = flags(env=["folder=notes,/usr"])
    found = document_for("server-filesystem", {"folder": "notes,/usr"}, named)
    assert found is not None
    assert found["cmd_args"] == [notes, "/usr"]
    assert (named.volume, named.env) == ([notes, "/usr"], [])
    with pytest.raises(Failed, match="there is no"):
        document_for("server-filesystem", {"folder": "elsewhere"}, flags())


def test_what_a_server_remembers_outlives_it_without_being_asked(home: Path) -> None:
    found = document_for("server-memory", {}, flags())
    assert found is not None
    assert found["env_vars"] == {"MEMORY_FILE_PATH": "/memory/memory.json"}
    assert found["permission_profile"] == {"write": ["volume://server-memory:/memory"]}


def test_a_secret_is_given_by_name_or_kept(home: Path) -> None:
    registry(home, KEYED)
    with pytest.raises(Failed, match="--secret NAME,target=KEY"):
        document_for("keyed", {}, flags())
    named = flags(secret=["mine,target=KEY"])
    found = document_for("keyed", {}, named)
    assert found is not None
    assert found["env_vars"] == {"LEVEL": "info"}
    assert named.secret == ["mine,target=KEY"]
    places = SecretPlaces(home, {})
    set_up(places, "encrypted", "file")
    typed = flags(env=["KEY=s3cret", "OTHER=1"])
    found = document_for("keyed", {"KEY": "s3cret", "OTHER": "1"}, typed)
    assert "s3cret" not in json.dumps(found)
    assert (typed.env, typed.secret) == (["OTHER=1"], ["keyed-KEY,target=KEY"])
    assert open_store(places).get("keyed-KEY") == "s3cret"


@pytest.mark.parametrize(
    ("text", "host", "repository", "reference"),
    [
        ("busybox", "registry-1.docker.io", "library/busybox", "latest"),
        ("mcp/files:1.2", "registry-1.docker.io", "mcp/files", "1.2"),
        ("ghcr.io/a/b/c:v1", "ghcr.io", "a/b/c", "v1"),
        ("localhost:5000/x@sha256:ab", "localhost:5000", "x", "sha256:ab"),
    ],
)
def test_the_name_of_an_image_is_read_as_docker_reads_it(
    text: str, host: str, repository: str, reference: str
) -> None:
    found = image_name(text)
    assert (found.host, found.repository, found.reference) == (host, repository, reference)


class Images(ThreadingHTTPServer):
    """An image registry that wants a token first, with one image and its signature."""

    daemon_threads = True

    def __init__(self, signer: ec.EllipticCurvePrivateKey) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        manifest = b'{"schemaVersion": 2}'
        self.digest = f"sha256:{hashlib.sha256(manifest).hexdigest()}"
        payload = json.dumps({"critical": {"image": {"docker-manifest-digest": self.digest}}}).encode()
        place = f"sha256:{hashlib.sha256(payload).hexdigest()}"
        signature = base64.b64encode(signer.sign(payload, ec.ECDSA(hashes.SHA256()))).decode()
        layer = {"digest": place, "annotations": {"dev.cosignproject.cosign/signature": signature}}
        self.files = {
            "/v2/tool/manifests/1.0": manifest,
            f"/v2/tool/manifests/{self.digest.replace(':', '-')}.sig": json.dumps(
                {"layers": [layer]}
            ).encode(),
            f"/v2/tool/blobs/{place}": payload,
        }


class _Handler(BaseHTTPRequestHandler):
    server: Any

    def log_message(self, *_: Any) -> None:
        """Keep the test's output clean."""

    def do_GET(self) -> None:
        port = self.server.server_address[1]
        path = self.path.partition("?")[0]
        if path == "/token":
            assert "scope=repository%3Atool%3Apull" in self.path
            return self.answer(200, b'{"token": "t"}')
        if self.headers.get("Authorization") != "Bearer t":
            return self.answer(401, b"{}", f'Bearer realm="http://127.0.0.1:{port}/token",service="x"')
        found = self.server.files.get(path)
        return self.answer(404 if found is None else 200, found or b"{}")

    def answer(self, status: int, body: bytes, challenge: str = "") -> None:
        self.send_response(status)
        if challenge:
            self.send_header("WWW-Authenticate", challenge)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def signed() -> Iterator[tuple[Images, str, str]]:
    ours, theirs = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    keys = [
        each.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
        for each in (ours, theirs)
    ]
    with Images(ours) as images:
        thread = threading.Thread(target=images.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield images, keys[0], keys[1]
        images.shutdown()
        thread.join(10)


def test_an_image_runs_by_the_digest_whose_signature_was_checked(
    home: Path, signed: tuple[Images, str, str]
) -> None:
    images, key, other = signed
    name = f"127.0.0.1:{images.server_address[1]}/tool"
    entry = {"image": f"{name}:1.0", "transport": "stdio", "provenance": {"public_key": key}}
    registry(home, {"servers": {"tool": entry}})
    found = document_for("tool", {}, flags())
    assert found is not None
    assert found["image"] == f"{name}@{images.digest}"
    registry(home, {"servers": {"tool": {**entry, "provenance": {"public_key": other}}}})
    with pytest.raises(Failed, match="do not run it"):
        document_for("tool", {}, flags())
    images.files = {path: data for path, data in images.files.items() if not path.endswith(".sig")}
    with pytest.raises(Failed, match="is not signed"):
        document_for("tool", {}, flags())
