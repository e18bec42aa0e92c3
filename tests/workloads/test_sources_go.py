"""`go://`: a program built by a real Go from modules that a server on this machine, or a folder, offers."""

from __future__ import annotations

import json
import shutil
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.workloads.daemon import Person, somebody
from tests.workloads.published import connected, text_of

from mooring.workloads.sandbox import bubblewrap

SOURCE = Path(__file__).parent / "go_server"
MODULE, VERSION = "example.com/notes", "v1.2.3"
PROGRAM = f"go://{MODULE}/cmd/notes"

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(bubblewrap.program() is None, reason="bubblewrap is not installed"),
]
needs_go = pytest.mark.skipif(
    shutil.which("go") is None, reason="Go is not installed: apt-get install golang-go"
)


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Person]:
    with somebody(tmp_path / "somebody") as found:
        found.environment |= {"GOSUMDB": "off", "GOPROXY": "off"}
        yield found


def offered(folder: Path) -> Path:
    """The module as a module proxy lays it out."""
    place = folder / MODULE / "@v"
    place.mkdir(parents=True)
    (place / "list").write_text(f"{VERSION}\n")
    (place / f"{VERSION}.info").write_text(json.dumps({"Version": VERSION, "Time": "2026-01-01T00:00:00Z"}))
    shutil.copy(SOURCE / "go.mod", place / f"{VERSION}.mod")
    with zipfile.ZipFile(place / f"{VERSION}.zip", "w") as packed:
        for file in sorted(file for file in SOURCE.rglob("*") if file.is_file()):
            packed.write(file, f"{MODULE}@{VERSION}/{file.relative_to(SOURCE)}")
    return folder


@contextmanager
def module_proxy(folder: Path) -> Iterator[int]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


@needs_go
@pytest.mark.anyio
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
async def test_a_go_program_is_built_and_runs_in_the_sandbox(
    person: Person, tmp_path: Path, host: str
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("PRIVATE")
    with module_proxy(offered(tmp_path / "modules")) as port:
        person.environment["GOPROXY"] = f"http://{host}:{port},off"
        told = json.loads(person("run", f"{PROGRAM}@{VERSION}", "--name", "notes", "--format", "json").stdout)
        assert told["version"] == VERSION
        assert told["integrity"].startswith("h1:")
        async with connected(f"http://127.0.0.1:{person.port}/mcp/notes") as client:
            own = await client.call_tool("read", {"path": "/etc/hosts"})
            assert "localhost" in text_of(own)
            kept = await client.call_tool("read", {"path": str(secret)})
            assert kept.is_error
            # What the build could reach, the program cannot.
            reached = await client.call_tool("dial", {"address": f"127.0.0.1:{port}"})
            assert "refused" in text_of(reached)
    person("restart", "notes")  # nothing is downloaded again
    assert person.status("notes") == "running"


@needs_go
def test_modules_may_come_from_a_folder(person: Person, tmp_path: Path) -> None:
    person.environment["GOPROXY"] = f"file://{offered(tmp_path / 'modules')}"
    person("run", PROGRAM, "--name", "notes")
    assert person.workload("notes")["version"] == VERSION


@needs_go
def test_a_module_that_is_not_there_is_said_so_in_the_words_of_go(person: Person, tmp_path: Path) -> None:
    person.environment["GOPROXY"] = f"file://{offered(tmp_path / 'modules')}"
    failed = person("run", f"{PROGRAM}@v9.9.9", expect=1)
    assert "v9.9.9" in failed.stderr
    assert "go install" in failed.stderr


def test_without_go_it_says_what_to_install(person: Person, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("bwrap", "env"):
        (programs / name).symlink_to(str(shutil.which(name)))
    person.environment["PATH"] = str(programs)
    failed = person("run", PROGRAM, expect=1)
    assert "`go` was not found on PATH: install Go (`apt-get install golang-go`" in failed.stderr
