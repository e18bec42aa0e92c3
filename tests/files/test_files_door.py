"""Files come in through the same door as calls: credentials, limits, policies and audit count there, too."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.files.conftest import Answered, file_server, form, http_request, post, said, serving, upload_url
from tests.support.gateway import Gateway
from tests.support.peers import ModernHttpPeer, ModernStdioPeer, Peer, RpcRefused, StreamablePeer

from mooring.policy.authentication.api_keys import KeyStore

pytestmark = pytest.mark.e2e
Json = dict[str, Any]
POLICIES = """
permit(principal == Client::"alice", action, resource);
permit(principal == Client::"bob", action, resource);
permit(principal == Client::"carol", action == Action::"call_tool", resource == Tool::"measure");
permit(principal == Client::"dave", action == Action::"call_tool", resource == Tool::"plain");
permit(principal == Client::"erin", action == Action::"call_tool", resource == Tool::"measure");
permit(principal == Client::"erin", action == Action::"call_tool", resource == Tool::"write");
forbid(principal == Client::"bob", action, resource == Tool::"files_get_upload_url");
"""


class Keyed:
    """A gateway that wants keys, and the keys of some people."""

    def __init__(self, gateway: Gateway, keys: dict[str, str]) -> None:
        self.gateway = gateway
        self.keys = keys

    def headers(self, who: str | None) -> dict[str, str]:
        return {} if who is None else {"Authorization": f"Bearer {self.keys[who]}"}

    def peer(self, era: str, who: str) -> Peer:
        made = {"legacy": KeyedLegacyPeer, "modern": KeyedModernPeer}[era]
        return made(self.gateway, self.headers(who))

    def put(self, who: str | None, query: str = "", **headers: str) -> Answered:
        url = f"{self.gateway.address}/upload/files{query}"
        return http_request("PUT", url, b"data", {**self.headers(who), **headers})

    def audit(self) -> list[Json]:
        lines = (self.gateway.folder / "data" / "audit.log").read_text().splitlines()
        return [event for event in map(json.loads, lines) if event["type"].startswith(("file_", "http_"))]


class KeyedLegacyPeer(StreamablePeer):
    def __init__(self, gateway: Gateway, headers: dict[str, str]) -> None:
        self.credential = headers
        super().__init__(gateway, "files")

    def headers_for(self, message: Json) -> Json:
        return {**super().headers_for(message), **self.credential}


class KeyedModernPeer(ModernHttpPeer):
    def __init__(self, gateway: Gateway, headers: dict[str, str]) -> None:
        self.credential = headers
        super().__init__(gateway, "files")

    def headers_for(self, message: Json) -> Json:
        return {**super().headers_for(message), **self.credential}


def keys_in(folder: Path, *names: str) -> dict[str, str]:
    store = KeyStore(folder / "data" / "keys.json")
    return {name: store.create(name, scopes=(), servers=(), expires=None)[1] for name in names}


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    folder = tmp_path_factory.mktemp("door")
    keys = keys_in(folder, "alice", "bob", "carol", "dave", "erin")
    (folder / "rules.cedar").write_text(POLICIES)
    guard: Json = {
        "auth": {"mode": "api_key"},
        "audit": {"enabled": True},
        "authorization": {"type": "cedarv1", "policies": ["rules.cedar"]},
        "results": {"max_inline_bytes": 2000},
    }
    with serving(folder, file_server(), **guard) as gateway:
        yield Keyed(gateway, keys)


@pytest.fixture(params=["legacy", "modern"])
def era(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
def test_without_a_credential_every_upload_address_challenges(keyed: Keyed, method: str) -> None:
    path = "/upload/files/resumable/00" if method in ("PATCH", "DELETE") else "/upload/files"
    answered = http_request(method, keyed.gateway.address + path, b"")
    assert answered.status == 401
    assert answered.headers["WWW-Authenticate"].startswith('Bearer realm="mooring"')
    wrong = http_request(method, keyed.gateway.address + path, b"", {"Authorization": "Bearer wrong"})
    assert wrong.status == 401
    assert 'error="invalid_token"' in wrong.headers["WWW-Authenticate"]


def test_a_key_alone_uploads_into_the_place_of_its_principal(keyed: Keyed) -> None:
    handle = keyed.put("alice").json["upload_handle"]
    with keyed.peer("modern", "alice") as alice:
        assert said(alice.tool("measure", {"path": handle})).startswith("4 ")
    with keyed.peer("modern", "carol") as carol:
        assert "not found" in said(carol.tool("measure", {"path": handle}))


def test_the_upload_url_works_without_the_key_and_not_with_another(keyed: Keyed, era: str) -> None:
    with keyed.peer(era, "alice") as alice, keyed.peer(era, "carol") as carol:
        about = upload_url(alice)
        handle = post(about, ("a.txt", b"four")).json["upload_handle"]
        assert said(alice.tool("measure", {"path": handle})).startswith("4 ")
        assert "not found" in said(carol.tool("measure", {"path": handle}))
        body, kind = form(("a.txt", b"four"))
        sent = {**about["headers"], "Content-Type": kind}
        mine = http_request("POST", about["upload_url"], body, {**sent, **keyed.headers("alice")})
        assert mine.status == 200
        foreign = http_request("POST", about["upload_url"], body, {**sent, **keyed.headers("carol")})
        assert foreign.status == 404
        assert "not found" in foreign.json["error"]
        broken = http_request("POST", about["upload_url"], body, {**sent, "Authorization": "Bearer no"})
        assert broken.status == 401


def test_nobody_uploads_into_the_session_of_another(keyed: Keyed) -> None:
    with keyed.peer("legacy", "alice") as alice:
        assert isinstance(alice, StreamablePeer)
        session = {"Mcp-Session-Id": alice.channel.session or ""}
        assert keyed.put("alice", **session).status == 201
        assert keyed.put("carol", **session).status == 403
        assert keyed.put(None, **session).status == 401


def test_a_signed_download_needs_no_key(keyed: Keyed, era: str) -> None:
    with keyed.peer(era, "alice") as alice, keyed.peer(era, "bob") as bob:
        artifact = alice.tool("write", {"filename": "a.txt", "text": "made"})["_meta"]["artifact"]
        answered = http_request("GET", artifact["download_url"])
        assert (answered.status, answered.body) == (200, b"made")
        other = artifact["download_url"].replace("&for=", "&for=0")
        assert http_request("GET", other).status == 403
        with pytest.raises(RpcRefused, match=r"[Nn]ot found"):
            bob.request("resources/read", {"uri": artifact["artifact_uri"]})


def test_links_may_need_the_credential_too(tmp_path: Path) -> None:
    keys = keys_in(tmp_path, "alice", "bob")
    auth = {"mode": "api_key", "links_need_credentials": True}
    with serving(tmp_path, file_server(), auth=auth) as gateway:
        keyed = Keyed(gateway, keys)
        with keyed.peer("modern", "alice") as alice:
            link = alice.tool("write", {"filename": "a.txt"})["_meta"]["artifact"]["download_url"]
            url = upload_url(alice)["upload_url"]
        for who, status in ((None, 401), ("bob", 404), ("alice", 200)):
            assert http_request("GET", link, None, keyed.headers(who)).status == status
            assert http_request("GET", url, None, keyed.headers(who)).status == status


def test_our_own_tools_follow_the_tools_that_they_are_there_for(keyed: Keyed, era: str) -> None:
    def names(who: str) -> set[str]:
        with keyed.peer(era, who) as peer:
            return {tool["name"] for tool in peer.request("tools/list")["tools"]}

    results = {f"files_result_{word}" for word in ("read", "search", "query", "list")}
    assert names("carol") == {"measure", "files_get_upload_url"} | results
    assert names("dave") == {"plain"} | results
    assert "files_get_upload_url" not in names("bob")
    with keyed.peer(era, "carol") as carol, keyed.peer(era, "dave") as dave, keyed.peer(era, "bob") as bob:
        handle = post(upload_url(carol), ("a.txt", b"four")).json["upload_handle"]
        assert said(carol.tool("measure", {"path": handle})).startswith("4 ")
        for forbidden in (dave, bob):
            with pytest.raises(RpcRefused, match="Unknown tool"):
                forbidden.tool("files_get_upload_url")
    assert keyed.put("carol").status == 201
    assert keyed.put("dave").status == 404
    assert keyed.put("bob").status == 404


def test_what_an_allowed_call_made_may_be_read(keyed: Keyed, era: str) -> None:
    with keyed.peer(era, "erin") as erin:
        uri = erin.tool("write", {"filename": "a.txt", "text": "made"})["_meta"]["artifact"]["artifact_uri"]
        assert erin.request("resources/read", {"uri": uri})["contents"][0]["text"] == "made"
        assert uri in [entry["uri"] for entry in erin.request("resources/list")["resources"]]
        with pytest.raises(RpcRefused, match="Resource not found"):
            erin.request("resources/read", {"uri": "file:///etc/passwd"})


def test_the_audit_knows_who_sent_and_fetched_what(keyed: Keyed) -> None:
    with keyed.peer("modern", "alice") as alice:
        made = post(upload_url(alice), ("a.txt", b"four")).json["upload_handle"]
        link = alice.tool("write", {"filename": "b.txt"})["_meta"]["artifact"]
    http_request("GET", link["download_url"])
    http_request("GET", link["download_url"] + "0")
    keyed.put(None)
    events = keyed.audit()
    uploads = [event for event in events if event["type"] == "file_upload"]
    [sent] = [event for event in uploads if event["metadata"]["extra"].get("uris") == [made]]
    assert sent["outcome"] == "success"
    assert sent["subjects"]["user_id"].startswith("key:")
    fetched = [event for event in events if event["type"] == "file_download"]
    assert [link["artifact_uri"]] in [event["metadata"]["extra"].get("uris") for event in fetched]
    assert fetched[-1]["outcome"] == "denied"
    assert (events[-1]["type"], events[-1]["outcome"]) == ("http_request", "denied")


def test_rates_count_uploads_and_downloads(tmp_path: Path) -> None:
    limits = {
        "rate": [
            {"count": 2, "seconds": 600, "methods": ["files/upload"], "per": ["principal"]},
            {"count": 1, "seconds": 600, "methods": ["files/download"], "per": ["address"]},
        ]
    }
    keys = keys_in(tmp_path, "alice", "bob")
    with serving(tmp_path, file_server(), auth={"mode": "api_key"}, limits=limits) as gateway:
        keyed = Keyed(gateway, keys)
        with keyed.peer("modern", "alice") as alice:
            about = upload_url(alice)
            link = alice.tool("write", {"filename": "a.txt"})["_meta"]["artifact"]["download_url"]
        assert keyed.put("alice").status == 201
        assert post(about, ("a", b"a")).status == 200, "the link counts for whom it was made"
        refused = keyed.put("alice")
        assert refused.status == 429
        assert int(refused.headers["Retry-After"]) > 0
        assert keyed.put("bob").status == 201
        assert http_request("GET", link).status == 200
        assert http_request("GET", link).status == 429


def test_the_terminal_uploads_for_its_own_user(tmp_path: Path) -> None:
    file = tmp_path / "note.txt"
    file.write_text("four")
    with serving(tmp_path, file_server(), auth={"mode": "api_key"}) as gateway:
        done = gateway.command("upload", "--server", "files", str(file))
        assert done.returncode == 0, done.stderr
        with ModernStdioPeer(gateway, "files") as peer:
            assert said(peer.tool("measure", {"path": done.stdout.strip()})).startswith("4 ")
