"""Packages from a registry on this machine: an installation reaches it, what runs does not."""

from __future__ import annotations

import io
import json
import shutil
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.workloads.daemon import Person, somebody

from mooring.workloads.sandbox import bubblewrap

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(bubblewrap.program() is None, reason="bubblewrap is not installed"),
    pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed"),
]
MANIFEST = {"name": "tiny-notes", "version": "1.0.0", "bin": "server.js"}
SERVER = """\
require('readline').createInterface({input: process.stdin}).on('line', line => {
  const {id, method, params} = JSON.parse(line)
  if (id === undefined) return
  const result = method === 'initialize'
    ? {protocolVersion: params.protocolVersion, capabilities: {}, serverInfo: {name: 'tiny', version: '1'}}
    : {}
  console.log(JSON.stringify({jsonrpc: '2.0', id, result}))
})
"""


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Person]:
    with somebody(tmp_path / "somebody") as found:
        yield found


def _packed() -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        for name, text in (("package.json", json.dumps(MANIFEST)), ("server.js", SERVER)):
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return data.getvalue()


@contextmanager
def npm_registry(host: str) -> Iterator[str]:
    packed = _packed()

    class Registry(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            version = {**MANIFEST, "dist": {"tarball": f"{url}/tiny-notes.tgz"}}
            about = {
                "name": "tiny-notes",
                "dist-tags": {"latest": "1.0.0"},
                "versions": {"1.0.0": version},
            }
            body = packed if self.path.endswith(".tgz") else json.dumps(about).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    url = f"http://{host}:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield url
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_a_registry_on_this_machine_can_be_used(person: Person, host: str) -> None:
    with npm_registry(host) as url:
        person.environment["npm_config_registry"] = url
        person("run", "npx://tiny-notes", "--name", "tiny")
    assert person.workload("tiny")["version"] == "1.0.0"
    assert person.status("tiny") == "running"
