"""Remote servers that are run: what a RunConfig or a registry says about their credentials counts."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.policy.caller import Caller
from tests.policy.shelf import Shelf, tool
from tests.workloads.daemon import LIMIT_SECONDS, Person, somebody
from tests.workloads.provider import token_provider

from mooring.ecosystem.registry.reading import read_catalogue
from mooring.ecosystem.registry.running import run_config

pytestmark = pytest.mark.e2e
Json = dict[str, Any]


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    with somebody(tmp_path_factory.mktemp("remote")) as found:
        yield found


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[tuple[Shelf, str]]:
    found = Shelf(tmp_path / "shelf", tool("a"))
    with found.http("one", "modern") as server:
        yield found, server["upstream"]["url"]


def run(person: Person, document: Json) -> Json:
    file = person.folder / f"{document['name']}.json"
    file.write_text(json.dumps(document))
    return json.loads(person("run", "--from-config", str(file), "--format", "json").stdout)


def shown(shelf: Shelf) -> set[str | None]:
    return {headers.get("authorization") for headers in shelf.headers()}


def test_a_bearer_token_is_a_stored_secret(person: Person, shelf: tuple[Shelf, str]) -> None:
    person("secret", "setup", "--key", "file")
    subprocess.run(
        person.command("secret", "set", "tok"),
        input="s3cret",
        text=True,
        env=person.environment,
        cwd=person.folder,
        timeout=LIMIT_SECONDS,
        check=True,
    )
    auth = {"bearer_token": "tok,target=bearer_token", "use_pkce": True, "callback_port": 8666}
    run(person, {"name": "bearer", "remote_url": shelf[1], "remote_auth_config": auth})
    assert "result" in Caller(f"http://127.0.0.1:{person.port}", "bearer").modern_tool("a").message
    assert shown(shelf[0]) == {"Bearer s3cret"}
    assert "s3cret" not in person("export", "bearer").stdout


def test_the_callers_token_is_exchanged(person: Person, shelf: tuple[Shelf, str]) -> None:
    with token_provider() as provider:
        document = {
            "name": "exchanged",
            "remote_url": shelf[1],
            "oidc_config": {"Issuer": provider.url, "Audience": "ours"},
            "token_exchange_config": {"token_url": f"{provider.url}/token", "client_id": "m"},
        }
        assert run(person, document)["status"] == "running", "although we ourselves are not let in"
        token = provider.token("alice", "ours")
        caller = Caller(f"http://127.0.0.1:{person.port}", "exchanged", {"Authorization": f"Bearer {token}"})
        assert "result" in caller.modern_tool("a").message
        assert shown(shelf[0]) == {"Bearer exchanged-for-alice"}


@contextmanager
def closed_server() -> Iterator[str]:
    """Lets in nobody without a token."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.refuse(404)  # it does not say who it trusts: the RunConfig does

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.refuse(401)

        def refuse(self, status: int) -> None:
            self.send_response(status)
            self.send_header("www-authenticate", "Bearer")
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/mcp"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def test_a_server_that_users_must_agree_to_says_where(person: Person) -> None:
    auth = {"authorize_url": "http://127.0.0.1:1/a", "token_url": "http://127.0.0.1:1/t", "client_id": "m"}
    with closed_server() as url:
        told = run(person, {"name": "agreed", "remote_url": url, "remote_auth_config": auth})
        assert told["status"] == "unauthenticated"
        assert told["status_context"] == "sign in with `mooring auth login agreed`"
        refused = Caller(f"http://127.0.0.1:{person.port}", "agreed").modern_tool("a")
    assert f"http://127.0.0.1:{person.port}/oauth/login/" in json.dumps(refused.message)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"remote_auth_config": {"bearer_token": "plain"}}, "holds the token itself"),
        ({"remote_auth_config": {"client_id": "m", "client_secret": "plain"}}, "holds the secret itself"),
        (
            {"remote_auth_config": {"bearer_token_file": "/x"}},
            "bearer_token_file` is not supported",
        ),
        ({"aws_sts_config": {"service": "x"}}, "`aws_sts_config`"),
        ({"remote_auth_config": {"client_id": "m"}, "aws_sts_config": {"region": "r"}}, "one credential"),
    ],
)
def test_what_cannot_be_shown_is_refused_by_name(person: Person, document: Json, message: str) -> None:
    whole = {"name": "no", "remote_url": "http://127.0.0.1:1/mcp", **document}
    status, answer = person.ask("POST", "/api/v1/workloads", whole)
    assert status == 422
    assert message in answer["error"]["message"]


def test_a_registry_brings_the_oauth_settings_of_a_remote_server() -> None:
    oauth = {"issuer": "https://id.example.com", "client_id": "m", "scopes": ["read"], "use_pkce": True}
    entry = {"description": "x", "transport": "streamable-http", "url": "https://x.example.com/mcp"}
    text = json.dumps(
        {"version": "1", "servers": {}, "remote_servers": {"x": {**entry, "oauth_config": oauth}}}
    )
    [found] = read_catalogue(text.encode(), "mine").entries
    made = run_config(found, found.offer(), {}, lambda name, _: name)
    assert made["remote_auth_config"] == oauth


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_two_users_never_share_what_a_remote_server_is_shown(
    person: Person, tmp_path: Path, era: str
) -> None:
    shelf = Shelf(tmp_path / "two", tool("a"))
    with token_provider() as provider, shelf.http("one", era) as server:
        document = {
            "name": f"two-{era}",
            "remote_url": server["upstream"]["url"],
            "oidc_config": {"Issuer": provider.url, "Audience": "ours"},
            "token_exchange_config": {"token_url": f"{provider.url}/token", "client_id": "m"},
            "mooring": {"share": "global"},
        }
        run(person, document)
        for name in ("alice", "bob", "alice"):
            headers = {"Authorization": f"Bearer {provider.token(name, 'ours')}"}
            caller = Caller(f"http://127.0.0.1:{person.port}", document["name"], headers)
            assert "result" in caller.modern_tool("a").message
            assert shelf.headers()[-1]["authorization"] == f"Bearer exchanged-for-{name}"
