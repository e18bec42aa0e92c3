"""Fields of a RunConfig that are about the proxy around a server: each has its effect, seen from outside."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.policy.caller import Caller
from tests.policy.shelf import Shelf, tool
from tests.support.certificates import write_certificate
from tests.support.gateway import Journal
from tests.support.waiting import eventually
from tests.workloads.daemon import LIMIT_SECONDS, Person, somebody
from tests.workloads.provider import token_provider
from tests.workloads.test_egress_inside import site

from mooring.config.workload_credentials import upstream_auth
from mooring.workloads.runconfig import RunConfig
from mooring.workloads.sandbox import bubblewrap

pytestmark = pytest.mark.e2e
Json = dict[str, Any]


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    folder = tmp_path_factory.mktemp("effects")
    with somebody(folder) as found:
        found.run_scripted("first", Journal(folder / "first.journal"))
        yield found


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path / "shelf", tool("a"))


def run(person: Person, name: str, shelf: Shelf, **document: Any) -> Caller:
    """The shelf's server, run with these fields."""
    extension = {"command": shelf.command("stdio", "legacy"), "sandbox": "off"}
    whole = {"name": name, "mooring": extension, **document}
    status, answer = person.ask("POST", "/api/v1/workloads", whole)
    assert status == 201, answer
    return Caller(f"http://127.0.0.1:{person.port}", name)


def test_an_idle_session_ends_after_its_own_time(person: Person, shelf: Shelf) -> None:
    caller = run(person, "short", shelf, session_ttl="1s")
    other = run(person, "long", shelf)
    for each in (caller, other):
        assert each.initialize().status == 200

    def gone() -> bool:
        sessions = {row["id"]: row["sessions"] for row in person.json("status")["servers"]}
        return sessions["short"] == 0 and sessions["long"] == 1

    eventually(gone, "the session to end")
    assert caller.request("tools/list").status == 404
    assert other.request("tools/list").status == 200


def test_clients_behind_a_proxy_hear_of_its_path(person: Person, shelf: Shelf) -> None:
    run(person, "behind", shelf, endpoint_prefix="/tools/")
    connection = http.client.HTTPConnection("127.0.0.1", person.port, timeout=LIMIT_SECONDS)
    try:
        connection.request("GET", "/mcp/behind/sse", headers={"Accept": "text/event-stream"})
        response = connection.getresponse()
        lines = [response.readline().decode().strip() for _ in range(2)]
    finally:
        connection.close()
    assert lines[0] == "event: endpoint"
    assert lines[1].startswith("data: /tools/mcp/behind/messages?")


def test_variables_come_from_the_files_of_a_folder(person: Person, shelf: Shelf, tmp_path: Path) -> None:
    folder = tmp_path / "variables"
    folder.mkdir()
    (folder / "1.env").write_text("# of the agent\nexport ONE='first'\nTWO=from the folder\n")
    (folder / "2.env").write_text('THREE="3 = 3"\n')
    (folder / ".hidden").write_text("this is no variable\n")
    told = "import os,sys; print([os.environ.get(k) for k in sys.argv[1:4]], file=sys.stderr, flush=True)"
    command = shelf.command("stdio", "legacy")
    script = f"{told}; os.execv(sys.argv[4], sys.argv[4:])"
    extension = {"command": [sys.executable, "-c", script, "ONE", "TWO", "THREE", *command], "sandbox": "off"}
    run(person, "vars", shelf, env_file_dir=str(folder), env_vars={"TWO": "said"}, mooring=extension)
    assert "['first', 'said', '3 = 3']" in person("logs", "vars").stdout
    assert "first" not in person("export", "vars").stdout


def test_a_folder_of_variables_that_cannot_be_read_is_named(person: Person, tmp_path: Path) -> None:
    (tmp_path / "x.env").write_text("hunter2\n")
    for folder, message in (
        (str(tmp_path), f"line 1 of `{tmp_path}/x.env` is not `NAME=VALUE`"),
        ("variables", "must be an absolute path"),
        (str(tmp_path / "none"), "cannot be read"),
    ):
        document = {"name": "no", "image": "uvx://x", "env_file_dir": folder}
        status, answer = person.ask("POST", "/api/v1/workloads", document)
        assert status == 422
        assert message in answer["error"]["message"]
        assert "hunter2" not in json.dumps(answer)


def test_debug_writes_every_message_into_the_log(person: Person, shelf: Shelf) -> None:
    caller = run(person, "debugged", shelf, debug=True)
    assert caller.initialize().status == 200
    assert caller.tool("a").status == 200
    logged = person("logs", "debugged").stdout
    assert "client → request tools/call" in logged
    assert "server ← request tools/call" in logged


@pytest.mark.skipif(bubblewrap.program() is None, reason="bubblewrap is not installed")
@pytest.mark.parametrize("allowed", [True, False])
def test_the_machine_itself_is_reached_where_that_is_allowed(
    person: Person, shelf: Shelf, allowed: bool
) -> None:
    fetch = (
        "import os,sys,urllib.request as u\n"
        "try: print('got', u.urlopen(sys.argv[1], timeout=20).read().decode(), file=sys.stderr, flush=True)\n"
        "except OSError as e: print('not', e, file=sys.stderr, flush=True)\n"
        "os.execv(sys.argv[2], sys.argv[2:])"
    )
    with site() as port:
        address = f"http://host.docker.internal:{port}/"
        command = [sys.executable, "-c", fetch, address, *shelf.command("stdio", "legacy")]
        run(
            person,
            f"gateway-{allowed}".lower(),
            shelf,
            allow_docker_gateway=allowed,
            mooring={"command": command},
            permission_profile={"write": [str(shelf.path.parent)], "read": [str(Path(__file__).parents[2])]},
        )
        logged = person("logs", f"gateway-{allowed}".lower()).stdout
    assert (f"got hello from host.docker.internal:{port}" in logged) is allowed, logged


@contextmanager
def behind_tls(url: str, certificate: Path) -> Iterator[tuple[str, list[bytes]]]:
    """The same server with a certificate that nobody knows; and what was sent to it."""
    there, heard = urlsplit(url), list[bytes]()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    listening = socket.create_server(("127.0.0.1", 0))

    def carry(source: socket.socket, target: socket.socket, note: list[bytes] | None) -> None:
        try:
            while data := source.recv(65536):
                if note is not None:
                    note.append(data)
                target.sendall(data)
        except OSError:
            pass
        finally:
            target.close()

    def serve() -> None:
        while True:
            try:
                accepted = listening.accept()[0]
            except OSError:
                return
            try:
                near = context.wrap_socket(accepted, server_side=True)
            except OSError:  # whoever it was does not believe us
                accepted.close()
                continue
            far = socket.create_connection((there.hostname or "", there.port or 80))
            threading.Thread(target=carry, args=(near, far, heard), daemon=True).start()
            threading.Thread(target=carry, args=(far, near, None), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"https://127.0.0.1:{listening.getsockname()[1]}{there.path}", heard
    finally:
        listening.close()


def test_a_remote_server_of_an_own_authority_is_believed(
    person: Person, shelf: Shelf, tmp_path: Path
) -> None:
    certificate = write_certificate(tmp_path)
    with (
        shelf.http("one", "modern") as server,
        behind_tls(server["upstream"]["url"], certificate) as (url, _),
    ):
        document = {"remote_url": url, "transport": "streamable-http"}
        status, answer = person.ask("POST", "/api/v1/workloads", {"name": "unknown", **document})
        assert (status, "certificate" in answer["error"]["message"]) == (422, True)
        body = {"name": "known", **document, "thv_ca_bundle": str(certificate)}
        assert person.ask("POST", "/api/v1/workloads", body)[0] == 201
        assert "result" in Caller(f"http://127.0.0.1:{person.port}", "known").modern_tool("a").message
        person("rm", "known")


def test_a_providers_authority_and_the_token_for_its_keys(
    person: Person, shelf: Shelf, tmp_path: Path
) -> None:
    certificate = write_certificate(tmp_path)
    (tmp_path / "token").write_text("for-the-keys\n")
    with token_provider() as provider, behind_tls(f"{provider.url}/jwks", certificate) as (keys, heard):
        caller = run(
            person,
            "trusting",
            shelf,
            oidc_config={"Issuer": provider.url, "Audience": "ours", "JWKSURL": keys},
            thv_ca_bundle=str(certificate),
            jwks_auth_token_file=str(tmp_path / "token"),
        )
        assert caller.initialize().status == 401
        caller.headers["Authorization"] = f"Bearer {provider.token('ada', 'ours')}"
        assert caller.initialize().status == 200
        assert b"authorization: Bearer for-the-keys" in b"".join(heard)


@pytest.mark.parametrize("name", ["middleware_configs", "additional_middleware_configs"])
def test_on_behalf_of_is_a_middleware_of_toolhive(name: str) -> None:
    parameters = {
        "tenant_id": "t",
        "client_id": "m",
        "client_secret": "k,target=client_secret",
        "scopes": ["s"],
    }
    entry = {"type": "obo", "parameters": {"config": parameters}}
    config = RunConfig.read({"remote_url": "https://x.example.com/mcp", name: [entry]})
    made = upstream_auth(config, lambda secret: f"value of {secret}")
    assert (made.type, made.client_id, made.client_secret) == ("on_behalf_of", "m", "value of k")
    assert made.token_url == "https://login.microsoftonline.com/t/oauth2/v2.0/token"


def test_what_cannot_be_used_is_named(person: Person) -> None:
    for field, value, message in (
        ("session_ttl", "soon", "`session_ttl`: `soon` must be a duration"),
        ("endpoint_prefix", "tools", "`endpoint_prefix`"),
        ("thv_ca_bundle", "/nowhere.pem", "`thv_ca_bundle`: `/nowhere.pem` cannot be used"),
        ("thv_ca_bundle", __file__, "it holds no certificate"),
    ):
        status, answer = person.ask(
            "POST", "/api/v1/workloads", {"name": "no", "image": "uvx://x", field: value}
        )
        assert (status, message in answer["error"]["message"]) == (422, True), answer
