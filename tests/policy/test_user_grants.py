"""Servers that want to know their user: each user signs in at a real provider, once, and stays signed in."""

from __future__ import annotations

import http.cookiejar
import json
import os
import re
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.policy.caller import Caller
from tests.policy.guarded import Browser, GrantProvider, Guarded, guarded, running_grant_provider
from tests.policy.shelf import Shelf, tool
from tests.support.gateway import Gateway, program, rewrite, running_gateway
from tests.support.peers import ModernHttpPeer, RpcRefused, StreamablePeer
from tests.support.waiting import eventually

pytestmark = pytest.mark.e2e
Json = dict[str, Any]


@pytest.fixture(scope="module")
def provider() -> Iterator[GrantProvider]:
    with running_grant_provider() as made:
        yield made


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path / "shelf", tool("say"))


@pytest.fixture
def server(shelf: Shelf, provider: GrantProvider) -> Iterator[Guarded]:
    with guarded(shelf, provider.issuer) as made:
        yield made


def entry(server: Guarded, **auth: Any) -> Json:
    return {"id": "notes", "upstream": {"url": server.url, "auth": {"type": "oauth", **auth}}}


def sign_in(params: Json) -> Json:
    """A user who opens the address and agrees."""
    assert params["mode"] == "url"
    status, page = Browser().open(params["url"])
    assert (status, "is connected" in page) == (200, True), page
    return {"action": "accept"}


class Legacy(StreamablePeer):
    """A client of 2025-11-25 that can show its user an address."""

    @property
    def capabilities(self) -> Json:
        return {"elicitation": {"url": {}}}


class Modern(ModernHttpPeer):
    """One of 2026-07-28."""

    @property
    def capabilities(self) -> Json:
        return {"elicitation": {"url": {}}}


@pytest.mark.parametrize("peer", [Legacy, Modern], ids=lambda peer: peer.__name__)
def test_a_client_that_can_show_an_address_signs_its_user_in_and_goes_on(
    tmp_path: Path, server: Guarded, shelf: Shelf, peer: Any
) -> None:
    asked: list[Json] = []

    def user(params: Json) -> Json:
        asked.append(params)
        return sign_in(params)

    with running_gateway(tmp_path, [entry(server)]) as gateway:
        handlers = {"elicitation/create": user}
        with peer(gateway, "notes", handlers=handlers) as client:
            assert client.tool("say", {"text": "hello"})["structuredContent"]["called"] == "say"
            assert client.tool("say", {"text": "again"})["structuredContent"]["called"] == "say"
        assert len(asked) == 1
        assert asked[0]["url"].startswith(f"{gateway.address}/oauth/login/")
        assert [call["arguments"]["text"] for call in shelf.calls()] == ["hello", "again"]
        assert server.claims()["sub"] == "ada"


def test_a_client_that_cannot_gets_the_address_in_its_answer(tmp_path: Path, server: Guarded) -> None:
    with running_gateway(tmp_path, [entry(server)]) as gateway:
        caller = Caller(gateway.address, "notes")
        assert caller.initialize().status == 200
        refused = caller.request("tools/list").error
        assert refused["data"]["elicitations"][0]["mode"] == "url"
        told = caller.tool("say").result
        assert told["isError"] is True
        url = re.search(r"http://\S+/oauth/login/\S+", told["content"][0]["text"])
        assert url is not None
        assert Browser().open(url[0])[0] == 200
        assert caller.tool("say").result["structuredContent"]["called"] == "say"
        assert Browser().open(url[0])[0] == 404  # good once


def test_the_answer_counts_only_from_the_browser_that_was_sent(tmp_path: Path, server: Guarded) -> None:
    class Stop(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *arguments: Any) -> None:
            return None

    def location(opener: Any, url: str) -> str:
        with pytest.raises(urllib.error.HTTPError) as caught:
            opener.open(url, timeout=20)
        with caught.value as answer:
            assert answer.code in (302, 303), answer.read()
            found = answer.headers["Location"]
        return found if found.startswith("http") else server.issuer + found

    with running_gateway(tmp_path, [entry(server)]) as gateway:
        caller = Caller(gateway.address, "notes")
        caller.initialize()
        url = caller.request("tools/list").error["data"]["elicitations"][0]["url"]
        jar = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        opener = urllib.request.build_opener(jar, Stop())
        for _ in range(6):
            url = location(opener, url)
            if url.startswith(f"{gateway.address}/oauth/callback"):
                break
        status, page = Browser().open(url)
        assert status == 400
        assert "another browser" in page
        assert "error" in caller.request("tools/list").message
        assert Browser().open(f"{gateway.address}/oauth/callback?state=made-up&code=x")[0] == 400


def test_each_user_has_a_grant_of_their_own_and_the_client_s_token_stays_here(
    tmp_path: Path, server: Guarded
) -> None:
    with running_gateway(tmp_path, [entry(server)], auth={"mode": "api_key"}) as gateway:
        keys = {name: gateway.command("key", "create", name).stdout.strip() for name in ("ann", "ben")}
        callers = {
            name: Caller(gateway.address, "notes", {"Authorization": f"Bearer {key}"})
            for name, key in keys.items()
        }
        eventually(lambda: callers["ben"].initialize().status == 200, "the keys to be known")
        callers["ann"].initialize()
        url = callers["ann"].request("tools/list").error["data"]["elicitations"][0]["url"]
        browser = Browser()
        page = browser.open(url)[1]
        assert "Go on only if you are ann" in " ".join(page.split())
        assert browser.open(f"{url}?go=1")[0] == 200
        assert "result" in callers["ann"].request("tools/list").message
        assert "error" in callers["ben"].request("tools/list").message
        assert all(key not in given for given in server.seen for key in keys.values())


def test_more_scopes_are_asked_for_when_the_server_wants_them(tmp_path: Path, server: Guarded) -> None:
    asked: list[Json] = []

    def user(params: Json) -> Json:
        asked.append(params)
        return sign_in(params)

    server.wanted = "write"
    with running_gateway(tmp_path, [entry(server)]) as gateway:
        handlers = {"elicitation/create": user}
        with Legacy(gateway, "notes", handlers=handlers) as client:
            client.request("tools/list")
            assert client.tool("say")["structuredContent"]["called"] == "say"
        assert ["more than before" in question["message"] for question in asked] == [False, True]
        assert set(server.claims()["scope"].split()) == {"mcp", "write"}


def test_a_user_who_declines_is_told_so_and_nothing_runs(
    tmp_path: Path, server: Guarded, shelf: Shelf
) -> None:
    with running_gateway(tmp_path, [entry(server)]) as gateway:
        handlers = {"elicitation/create": lambda _: {"action": "decline"}}
        with (
            Legacy(gateway, "notes", handlers=handlers) as client,
            pytest.raises(RpcRefused, match="the user did not"),
        ):
            client.tool("say")
        assert shelf.calls() == []


def logged_in(gateway: Gateway, *options: str) -> str:
    """`mooring auth login` with a user who opens the printed address."""
    command = [program(), "auth", "login", "notes", "--no-browser", "--socket", str(gateway.socket), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            assert Browser().open(url)[0] == 200
            assert process.wait(20) == 0
        finally:
            process.kill()
    return url


def test_signed_in_at_the_terminal_and_kept_encrypted_over_a_restart(
    tmp_path: Path, server: Guarded, provider: GrantProvider
) -> None:
    with running_gateway(tmp_path, [entry(server)]) as gateway:
        states = json.loads(gateway.command("auth", "status", "--format", "json").stdout)
        assert [(state["name"], state["state"]) for state in states] == [("notes", "unauthenticated")]
        logged_in(gateway)
        caller = Caller(gateway.address, "notes")
        caller.initialize()
        assert "result" in caller.tool("say").message
        token = server.seen[-1].removeprefix("Bearer ")
    written = [tmp_path / "gateway.log", *(tmp_path / "data").rglob("*")]
    kept = [file for file in written if file.is_file() and token.encode() in file.read_bytes()]
    assert kept == []
    with running_gateway(tmp_path, [entry(server)]) as gateway:
        caller = Caller(gateway.address, "notes")
        caller.initialize()
        assert "result" in caller.tool("say").message
        # The server has had enough of this token: it is refreshed, and the refresh token with it.
        for _ in range(2):
            server.refused.add(server.seen[-1].removeprefix("Bearer "))
            eventually(
                lambda: not caller.tool("say").result["isError"], "a fresh token", limit=15
            )  # a token that is refused while it is new is not refreshed again at once
        assert [line for line in provider.told() if line.get("refused")] == []
        assert gateway.command("auth", "logout", "notes").returncode == 0
        assert caller.tool("say").result["isError"] is True
        assert gateway.command("auth", "logout", "notes").returncode == 1


def test_a_link_to_nowhere_and_a_foreign_resource_are_refused(tmp_path: Path, server: Guarded) -> None:
    server.issuer = "http://169.254.169.254"
    with running_gateway(tmp_path, [entry(server)]) as gateway:
        caller = Caller(gateway.address, "notes")
        caller.initialize()
        assert "not an `https://` address" in caller.request("tools/list").error["message"]


def test_a_provider_that_is_changed_in_the_file_is_asked_at_once(
    tmp_path: Path, server: Guarded, shelf: Shelf, provider: GrantProvider
) -> None:
    auth = {"type": "upstream_swap", "provider": "corp"}
    servers = [{"id": "one", "upstream": {"url": server.url, "auth": auth}}, shelf.stdio("plain")]

    def shown(gateway: Gateway) -> str:
        """The token that the server is shown for the user, who signs in if need be."""
        caller = Caller(gateway.address, "one")
        caller.initialize()
        answer = caller.request("tools/list").message
        if "elicitations" in answer.get("error", {}).get("data", {}):
            assert Browser().open(answer["error"]["data"]["elicitations"][0]["url"])[0] == 200
            caller.request("tools/list")
        return server.seen[-1].removeprefix("Bearer ")

    def sign_ins(at: GrantProvider) -> int:
        return sum(line.get("grant") == "authorization_code" for line in at.told())

    with running_grant_provider() as other:
        corp = {"issuer": provider.issuer, "scopes": ["mcp"]}
        with running_gateway(tmp_path, servers, providers={"corp": corp}) as gateway:
            before = sign_ins(provider)
            first = shown(gateway)
            assert (sign_ins(provider), sign_ins(other)) == (before + 1, 0)
            untouched = Caller(gateway.address, "plain")
            untouched.initialize()
            rewrite(gateway, providers={"corp": {**corp, "issuer": other.issuer}})
            assert "was reloaded: changed one" in gateway.log()
            states = json.loads(gateway.command("auth", "status", "--format", "json").stdout)
            assert [(state["name"], state["state"]) for state in states] == [("corp", "unauthenticated")]
            assert shown(gateway) != first
            assert (sign_ins(provider), sign_ins(other)) == (before + 1, 1)
            assert "result" in untouched.tool("say").message  # its session goes on
            rewrite(gateway, servers=servers[1:], providers={})
            assert gateway.command("auth", "logout", "corp").returncode == 0
            assert json.loads(gateway.command("auth", "status", "--format", "json").stdout) == []


def test_a_grant_counts_for_the_address_it_was_given_for(
    tmp_path: Path, server: Guarded, shelf: Shelf
) -> None:
    with guarded(shelf, server.issuer) as elsewhere, running_gateway(tmp_path, [entry(server)]) as gateway:
        logged_in(gateway)
        caller = Caller(gateway.address, "notes")
        caller.initialize()
        assert "result" in caller.tool("say").message
        rewrite(gateway, servers=[entry(elsewhere)])
        caller = Caller(gateway.address, "notes")
        caller.initialize()
        assert caller.tool("say").result["isError"] is True
        assert set(elsewhere.seen) == {""}


def test_one_grant_serves_every_server_that_swaps_for_it(
    tmp_path: Path, server: Guarded, provider: GrantProvider
) -> None:
    auth = {"type": "upstream_swap", "provider": "corp"}
    servers = [{"id": name, "upstream": {"url": server.url, "auth": auth}} for name in ("one", "two")]
    providers = {"corp": {"issuer": provider.issuer, "scopes": ["mcp"]}}
    with running_gateway(tmp_path, servers, providers=providers) as gateway:
        caller = Caller(gateway.address, "one")
        caller.initialize()
        url = caller.request("tools/list").error["data"]["elicitations"][0]["url"]
        assert Browser().open(url)[0] == 200
        other = Caller(gateway.address, "two")
        other.initialize()
        other.request("tools/list")
        assert server.seen[-1].startswith("Bearer ")


def test_a_locked_secret_store_is_said_with_the_next_step(
    tmp_path: Path, server: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    password = {**os.environ, "MOORING_SECRETS_PASSWORD": "long enough for this"}
    made = subprocess.run(
        [program(), "secret", "setup", "--key", "password"], env=password, timeout=30, check=False
    )
    assert made.returncode == 0
    servers = [{"id": "notes", "upstream": {"url": server.url, "auth": {"type": "oauth"}}}]
    with running_gateway(tmp_path, servers) as gateway:
        caller = Caller(gateway.address, "notes")
        caller.initialize()
        said = caller.tool("say").error["message"]
        assert "set MOORING_SECRETS_PASSWORD" in said
        assert "internal error" not in gateway.log()
