"""Grants survive restarts and races: several processes share them, and a refresh token is used once."""

from __future__ import annotations

import asyncio
import multiprocessing
import threading
import time
from collections.abc import Iterator
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from tests.policy.endpoint import Endpoint
from tests.policy.test_credentials import refusal

from mooring.gateway.principal import Caller, Principal
from mooring.policy.credentials.grants import Grant, GrantStore, grant_name
from mooring.policy.credentials.oauth.challenge import read_challenge
from mooring.policy.credentials.oauth.clients import Registrar
from mooring.policy.credentials.oauth.discovery import DiscoveryFailed, Reach, ServerDocument, covers
from mooring.policy.credentials.oauth.flows import LoginWanted, Party
from mooring.policy.credentials.oauth.tokens import ClientIdentity
from mooring.policy.credentials.user_grants import Grants, UserGrant

KEY = bytes(range(32))
PARTY = Party("server:notes", "notes", "https://notes.example/mcp")
ANN = Principal("ann", "ann")


class Rotating(Endpoint):
    """A token endpoint that takes each refresh token once, and is slow enough for a race."""

    def __init__(self) -> None:
        super().__init__()
        self.used: list[str] = []
        self.refused = 0
        self._lock = threading.Lock()

    def answer(self, body: bytes) -> tuple[int, dict[str, Any]]:
        token = parse_qs(body.decode())["refresh_token"][0]
        with self._lock:
            fresh = token == f"refresh-{len(self.used)}"
            if fresh:
                self.used.append(token)
            else:
                self.refused += 1
            number = len(self.used)
        if not fresh:
            return 400, {"error": "invalid_grant"}
        return 200, {
            "access_token": f"access-{number}",
            "refresh_token": f"refresh-{number}",
            "expires_in": 60,
        }


@pytest.fixture
def endpoint() -> Iterator[Rotating]:
    with Rotating() as made:
        yield made


def grant(endpoint: Rotating, expires: float) -> Grant:
    return Grant(
        PARTY.key, ANN.id, "https://issuer.example", endpoint.url, "us", "access-0", expires,
        refresh_token="refresh-0", url=PARTY.url,
    )  # fmt: skip


def store_in(folder: Path) -> GrantStore:
    return GrantStore(folder, lambda: KEY)


def _refresh(folder: Path, barrier: Barrier, found: Any) -> None:
    async def run() -> str:
        grants = Grants(PARTY, store_in(folder))
        barrier.wait(20)
        results = await asyncio.gather(*(grants.of(ANN) for _ in range(5)))
        assert len({result.access_token for result in results if result}) == 1
        assert results[0] is not None
        return results[0].access_token

    found.put(asyncio.run(run()))


def test_processes_that_refresh_at_the_same_time_use_the_refresh_token_once(
    tmp_path: Path, endpoint: Rotating
) -> None:
    asyncio.run(store_in(tmp_path).write(grant_name(PARTY.key, ANN.id), grant(endpoint, time.time() - 1)))
    context = multiprocessing.get_context("spawn")
    barrier, found = context.Barrier(3), context.SimpleQueue()
    processes = [context.Process(target=_refresh, args=(tmp_path, barrier, found)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert {found.get() for _ in processes} == {"access-1"}
    assert (endpoint.used, endpoint.refused) == (["refresh-0"], 0)
    again = asyncio.run(store_in(tmp_path).read(grant_name(PARTY.key, ANN.id), Grant))
    assert again is not None
    assert again.refresh_token == "refresh-1"


def test_a_grant_that_cannot_be_renewed_is_forgotten_and_its_user_asked(
    tmp_path: Path, endpoint: Rotating
) -> None:
    endpoint.used.append("refresh-0")  # somebody else has used it

    async def run() -> None:
        store = store_in(tmp_path)
        await store.write(grant_name(PARTY.key, ANN.id), grant(endpoint, time.time() - 1))
        credential = UserGrant(Grants(PARTY, store))
        assert await credential.headers(Caller(ANN), b"POST", b"/", b"") == b""
        assert await store.read(grant_name(PARTY.key, ANN.id), Grant) is None
        with pytest.raises(LoginWanted):
            await credential.refused(Caller(ANN), b"", refusal(401))
        assert not await credential.refused(Caller(ANN), b"", refusal(403, b'Bearer error="other"'))

    asyncio.run(run())


class Registering(Endpoint):
    """An authorization server that registers whoever asks, with secrets that expire."""

    def __init__(self, seconds: list[float]) -> None:
        super().__init__()
        self.seconds = seconds
        self.registered = 0

    def answer(self, body: bytes) -> tuple[int, dict[str, Any]]:
        del body
        seconds = self.seconds[self.registered]
        self.registered += 1
        return 201, {
            "client_id": f"us-{self.registered}",
            "client_secret": "secret",
            "client_secret_expires_at": int(time.time() + seconds) if seconds else 0,
            "token_endpoint_auth_method": "client_secret_basic",
        }


@pytest.mark.parametrize(
    ("seconds", "known_as"),
    [([3600.0], ["us-1", "us-1"]), ([0.0], ["us-1", "us-1"]), ([5.0, 3600.0], ["us-1", "us-2", "us-2"])],
    ids=["not yet", "never", "expired"],
)
def test_where_our_secret_expired_we_register_anew(
    tmp_path: Path, seconds: list[float], known_as: list[str]
) -> None:
    async def run(office: Registering) -> list[str | None]:
        document = ServerDocument(office.url, registration_endpoint=office.url)
        registrar = Registrar(store_in(tmp_path), "http://127.0.0.1/oauth/callback", None)
        return [(await registrar.identity(document, ClientIdentity())).client_id for _ in known_as]

    with Registering(seconds) as office:
        assert asyncio.run(run(office)) == known_as


def test_another_key_or_another_place_opens_nothing(tmp_path: Path, endpoint: Rotating) -> None:
    name = grant_name(PARTY.key, ANN.id)

    async def run() -> None:
        await store_in(tmp_path).write(name, grant(endpoint, 0))
        assert await GrantStore(tmp_path, lambda: bytes(32)).read(name, Grant) is None
        file = next(tmp_path.glob("*.grant"))
        file.rename(store_in(tmp_path)._path(grant_name(PARTY.key, "eve")))
        assert await store_in(tmp_path).read(grant_name(PARTY.key, "eve"), Grant) is None

    asyncio.run(run())


@pytest.mark.parametrize(
    ("header", "scopes", "metadata", "error"),
    [
        ('Bearer resource_metadata="https://a/b", scope="x y"', ("x", "y"), "https://a/b", None),
        ('Basic realm="Bearer scope=no", Bearer error="insufficient_scope", scope=z', ("z",), None,
         "insufficient_scope"),
        ("Bearer", None, None, None),
        ('Negotiate abc==, bearer scope=""', (), None, None),
        ('Digest realm="x"', None, None, None),
    ],
)  # fmt: skip
def test_challenges_are_read_as_they_are_written(
    header: str, scopes: Any, metadata: str | None, error: str | None
) -> None:
    found = read_challenge([header])
    assert (found.scopes, found.resource_metadata, found.error) == (scopes, metadata, error)


def test_a_resource_is_the_server_or_a_place_above_it() -> None:
    url = "https://notes.example/team/mcp"
    assert covers(url, url)
    assert covers("https://notes.example", url)
    assert covers("https://NOTES.example/team/", url)
    assert not covers("https://notes.example/te", url)
    assert not covers("https://evil.example/team/mcp", url)
    assert not covers("http://notes.example/team/mcp", url)


@pytest.mark.parametrize(
    "url", ["http://169.254.169.254/", "https://127.0.0.1/x", "https://10.0.0.1/", "ftp://example.com/"]
)
def test_a_server_elsewhere_leads_nobody_into_our_network(url: str) -> None:
    with pytest.raises(DiscoveryFailed):
        asyncio.run(Reach("https://8.8.8.8/mcp", allow_http=False).check(url))
