"""A tool that wants a file gets one, in both eras."""

from __future__ import annotations

import hashlib
import json
import re

import pytest
from tests.files.conftest import form, http_request, post, said, upload, upload_url
from tests.support.gateway import Gateway
from tests.support.peers import ModernHttpPeer, Peer, StreamablePeer

from mooring.files.quotas import too_large

DATA = b"some bytes\n" * 100
DIGEST = hashlib.sha256(DATA).hexdigest()


def test_an_upload_reaches_the_tool_as_a_file(peer: Peer) -> None:
    about = upload_url(peer)
    assert {"upload_url", "method", "headers", "field_name", "expires_in_seconds"} <= about.keys()
    answered = post(about, ("Bericht für März.txt", DATA))
    assert answered.status == 200
    [made] = answered.json["uploads"]
    assert made["filename"] == "Bericht für März.txt"
    assert (made["size_bytes"], made["sha256"], made["mime_type"]) == (len(DATA), DIGEST, "text/plain")
    assert re.fullmatch(r"upload://sessions/[0-9a-f]{32}/[0-9a-f]{32}", made["upload_handle"])
    size, digest, path = said(peer.tool("measure", {"path": made["upload_handle"]})).split(" ", 2)
    assert (int(size), digest) == (len(DATA), DIGEST)
    assert path.endswith("/Bericht für März.txt")


@pytest.mark.parametrize("name", ["Dockerfile", "scan"])
def test_a_file_keeps_its_name(peer: Peer, name: str) -> None:
    [made] = post(upload_url(peer), (name, b"FROM scratch\n")).json["uploads"]
    assert made["filename"] == name
    path = said(peer.tool("measure", {"path": made["upload_handle"]})).split(" ", 2)[2]
    assert path.endswith(f"/{name}")


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("filename*=utf-8''Bericht%20%C3%BC.txt", "Bericht ü.txt"),
        ("filename=\"=?utf-8?B?w7w=?=\"; filename*=utf-8''%C3%BC.txt", "ü.txt"),  # as .NET writes it
        ("filename*=ISO-8859-1'de'%FC.txt", "ü.txt"),
        ("filename=\"x; filename*=utf-8''y.txt\"", "x; filename_=utf-8''y.txt"),
    ],
)
def test_a_name_may_come_in_the_extended_form(peer: Peer, given: str, name: str) -> None:
    body = f'--b\r\nContent-Disposition: form-data; name="file"; {given}\r\n\r\nx\r\n--b--\r\n'.encode()
    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    [made] = http_request("POST", upload_url(peer)["upload_url"], body, headers).json["uploads"]
    assert made["filename"] == name


def test_hashes_without_end_are_not_gathered(peer: Peer) -> None:
    answered = post(upload_url(peer), ("a.txt", b"a"), hashes=("0" * 64,) * 101)
    assert (answered.status, "at most 100" in answered.json["error"]) == (400, True)


def test_the_answer_also_stands_in_the_text(peer: Peer) -> None:
    result = peer.tool("files_get_upload_url")
    assert json.loads(said(result)) == result["structuredContent"]


def test_lists_and_deep_arguments_take_handles(peer: Peer) -> None:
    answered = post(upload_url(peer), ("a.txt", b"a"), ("b.txt", b"bb"))
    one, two = answered.json["upload_handles"]
    lines = said(peer.tool("measure_all", {"paths": [two, one]})).splitlines()
    assert [line.split()[0] for line in lines] == ["2", "1"]
    lines = said(peer.tool("measure_deep", {"items": [{"path": one}, {"path": two}]})).splitlines()
    assert [line.split()[0] for line in lines] == ["1", "2"]


def test_tools_say_that_they_take_handles(peer: Peer) -> None:
    tools = {tool["name"]: tool for tool in peer.request("tools/list")["tools"]}
    assert "files_get_upload_url" in tools
    measure = tools["measure"]
    assert "upload://" in measure["description"]
    assert "files_get_upload_url" in measure["description"]
    argument = measure["inputSchema"]["properties"]["path"]
    assert "upload://" in argument["description"]
    assert "pattern" not in argument
    assert tools["plain"]["description"] == "The tool plain."
    assert "filename" not in tools["write"]["inputSchema"]["required"]


@pytest.mark.parametrize("value", ["/etc/passwd", "https://example.com/x", "upload://nonsense", 7, {"a": 1}])
def test_anything_but_a_handle_is_refused_with_the_next_step(peer: Peer, value: object) -> None:
    result = peer.tool("measure", {"path": value})
    assert result["isError"]
    assert "files_get_upload_url" in said(result)
    assert "root:" not in said(result)


def test_a_handle_of_another_scope_is_not_found(gateway: Gateway, peer: Peer) -> None:
    handle = upload(peer, DATA)
    with StreamablePeer(gateway, "files") as stranger:
        result = stranger.tool("measure", {"path": handle})
    assert result["isError"]
    assert "not found" in said(result)


def test_a_handle_of_another_server_is_not_found(gateway: Gateway, peer: Peer) -> None:
    handle = upload(peer, DATA)
    with ModernHttpPeer(gateway, "others") as elsewhere:
        result = elsewhere.tool("measure", {"path": handle})
    assert result["isError"]
    assert "not found" in said(result)


def test_a_tampered_handle_is_not_found(peer: Peer) -> None:
    handle = upload(peer, DATA)
    last = "0" if handle[-1] != "0" else "1"
    result = peer.tool("measure", {"path": handle[:-1] + last})
    assert result["isError"]
    assert "not found" in said(result)


def test_the_session_id_never_shows_in_what_a_model_reads(gateway: Gateway) -> None:
    with StreamablePeer(gateway, "files") as peer:
        secret = peer.channel.session
        assert secret
        shown = json.dumps(upload_url(peer)) + upload(peer, DATA)
    assert secret not in shown


def test_hashes_are_checked(peer: Peer) -> None:
    about = upload_url(peer)
    assert post(about, ("a", b"a"), hashes=(hashlib.sha256(b"a").hexdigest(),)).status == 200
    wrong = post(about, ("a", b"a"), hashes=("0" * 64,))
    assert wrong.status == 422
    assert "SHA-256" in wrong.json["error"]


def test_if_one_file_fails_none_remains(gateway: Gateway, peer: Peer) -> None:
    before = _stored(gateway)
    hashes = (hashlib.sha256(b"a").hexdigest(), "0" * 64)
    assert post(upload_url(peer), ("a", b"a"), ("b", b"b"), hashes=hashes).status == 422
    assert not _stored(gateway) - before


def _stored(gateway: Gateway) -> set[str]:
    folder = gateway.folder / "data" / "files"
    found = [*(folder / "blobs").rglob("*"), *(folder / "incoming").rglob("*")]
    return {path.name for path in found if path.is_file()}


def test_a_body_that_ends_too_early_leaves_nothing(gateway: Gateway, peer: Peer) -> None:
    before = _stored(gateway)
    about = upload_url(peer)
    body, kind = form(("a.txt", DATA))
    cut = http_request("POST", about["upload_url"], body[:-30], {"Content-Type": kind})
    assert cut.status == 400
    assert not _stored(gateway) - before


def test_a_raw_body_can_be_put(peer: Peer) -> None:
    about = upload_url(peer)
    url = about["upload_url"].replace("?", "/notes%20of%20today.md?", 1)
    answered = http_request("PUT", url + f"&sha256={DIGEST}", DATA)
    assert answered.status == 201
    assert answered.json["uploads"][0]["filename"] == "notes of today.md"
    size = said(peer.tool("measure", {"path": answered.json["upload_handle"]})).split()[0]
    assert int(size) == len(DATA)


def test_a_session_may_upload_without_a_ticket(gateway: Gateway) -> None:
    with StreamablePeer(gateway, "files") as peer:
        body, kind = form(("a.txt", DATA))
        headers = {"Content-Type": kind, "Mcp-Session-Id": str(peer.channel.session)}
        answered = http_request("POST", f"{gateway.address}/upload/files", body, headers)
        assert answered.status == 200
        assert not peer.tool("measure", {"path": answered.json["upload_handle"]}).get("isError")


@pytest.mark.parametrize("session", [None, "made-up", "../../state/evil", "a" * 300])
def test_without_ticket_and_session_nothing_is_taken(gateway: Gateway, session: str | None) -> None:
    before = _stored(gateway)
    body, kind = form(("a.txt", DATA))
    headers = {"Content-Type": kind} | ({"Mcp-Session-Id": session} if session else {})
    answered = http_request("POST", f"{gateway.address}/upload/files", body, headers)
    assert answered.status == 403
    assert "files_get_upload_url" in answered.json["error"]
    assert not _stored(gateway) - before


def test_tools_without_adapters_pass_untouched(peer: Peer) -> None:
    text = "upload://sessions/0123456789abcdef/0123456789abcdef and /etc/passwd"
    assert said(peer.tool("plain", {"text": text})) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (50 * 1024**2, "50 MiB"),
        (1024, "1 KiB"),
        (3 * 1024**3, "3 GiB"),
        (1000, "1,000 bytes"),
        (0, "0 bytes"),
    ],
)
def test_limits_are_said_as_they_are_configured(size: int, text: str) -> None:
    assert f"at most {text} here" in str(too_large(size))
