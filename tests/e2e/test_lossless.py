"""What is not ours to read comes out as it went in: byte by byte in the same era, member by member across."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.e2e.conftest import Harbour
from tests.support.channels import http_request
from tests.support.peers import META, ModernHttpPeer, ModernStdioPeer, SsePeer, StdioPeer, StreamablePeer
from tests.support.scripted_tools import RAW_RESULT
from tests.support.waiting import eventually

ODD_ARGUMENTS = (
    '{"z":1.0,"a":1e3,"big":123456789012345678901234567890,"n":null,"neg":-0.0,"frac":0.10,'
    '"e":"\\u00e9\\/\\ud83d\\ude00 é","nested":{"$defs":{"b":{"$ref":"#/$defs/b"}},"empty":{},"list":[]},'
    '"half":"\\ud800x\\udc00","b":2,"aa":1}'
)


def raw_params(name: str, meta: str = "") -> str:
    return f'{{"vendorField":{{"y":1,"x":null}},"name":"{name}","arguments":{ODD_ARGUMENTS}{meta}}}'


def modern_meta() -> str:
    own = {META + "protocolVersion": "2026-07-28", META + "clientCapabilities": {}}
    return ',"_meta":' + json.dumps(own | {"example.com/trace": {"kept": None}})


def post(peer: Any, body: str) -> bytes:
    message = json.loads(body)
    answer = http_request(peer.channel.url, "POST", body.encode(), peer.headers_for(message))
    return answer.body or answer.events[-1].data.encode()


def written(name: str, meta: str = "") -> str:
    return f'{{"jsonrpc":"2.0","id":"odd","method":"tools/call","params":{raw_params(name, meta)}}}'


def arrived(harbour: Harbour, server: str) -> str:
    """The params of the last call, exactly as the server received them."""
    line = harbour.journals[server].raw("tools/call")[-1]
    start = line.index('"params":') + len('"params":')
    return line[start:].strip()[:-1]


@pytest.mark.parametrize("server", ["stdio-legacy", "sse", "http-legacy"])
@pytest.mark.parametrize("spaced", [False, True])
def test_params_of_a_legacy_client_reach_a_legacy_server_untouched(
    harbour: Harbour, server: str, spaced: bool
) -> None:
    with StreamablePeer(harbour.gateway, server) as peer:
        body = written("echo")
        post(peer, body.replace('"method"', '  "method"') if spaced else body)
        assert arrived(harbour, server) == raw_params("echo")


@pytest.mark.parametrize("server", ["stdio-modern", "http-modern"])
def test_params_of_a_modern_client_reach_a_modern_server_untouched(harbour: Harbour, server: str) -> None:
    with ModernHttpPeer(harbour.gateway, server) as peer:
        post(peer, written("echo", modern_meta()))
        assert arrived(harbour, server) == raw_params("echo", modern_meta())


@pytest.mark.parametrize("server", ["stdio-legacy", "sse", "http-legacy"])
def test_a_result_reaches_a_legacy_client_untouched(harbour: Harbour, server: str) -> None:
    with StreamablePeer(harbour.gateway, server) as peer:
        assert RAW_RESULT in post(peer, written("raw"))
    with SsePeer(harbour.gateway, server, "2025-11-25") as peer:
        peer.tool("raw")
        assert any(RAW_RESULT.decode() in event.data for event in peer.channel.stream.events)
    with StdioPeer(harbour.gateway, server) as peer:
        peer.tool("raw")
        assert any(RAW_RESULT in line for line in peer.channel.lines)


@pytest.mark.parametrize("server", ["stdio-modern", "http-modern"])
def test_a_result_reaches_a_modern_client_untouched(harbour: Harbour, server: str) -> None:
    expected = b'{"resultType":"complete",' + RAW_RESULT[1:]
    with ModernHttpPeer(harbour.gateway, server) as peer:
        assert expected in post(peer, written("raw", modern_meta()))
    with ModernStdioPeer(harbour.gateway, server) as peer:
        peer.tool("raw")
        assert any(expected in line for line in peer.channel.lines)


@pytest.mark.parametrize("server", ["stdio-legacy", "http-legacy", "sse"])
def test_unknown_members_cross_from_modern_to_legacy(harbour: Harbour, server: str) -> None:
    with ModernHttpPeer(harbour.gateway, server) as peer:
        answer = post(peer, written("raw", modern_meta()))
        assert arrived(harbour, server) == raw_params("raw", ',"_meta":{"example.com/trace":{"kept": null}}')
        check_crossed(answer)
        assert json.loads(answer)["result"]["resultType"] == "complete"


@pytest.mark.parametrize("server", ["stdio-modern", "http-modern"])
def test_unknown_members_cross_from_legacy_to_modern(harbour: Harbour, server: str) -> None:
    with StreamablePeer(harbour.gateway, server) as peer:
        answer = post(peer, written("raw"))
        params = arrived(harbour, server)
        assert ODD_ARGUMENTS in params
        assert params.startswith('{"vendorField":{"y":1,"x":null},"name":"raw"')
        check_crossed(answer)
        assert "resultType" not in json.loads(answer)["result"]


def check_crossed(answer: bytes) -> None:
    """Each member of the result kept its spelling, whatever stands around it."""
    for part in (
        b'{"z":1.0,"a":1e3,"big":123456789012345678901234567890,"n":null,"neg":-0.0,',
        b"\\u00e9\\u2028\\ud83d\\ude00\\ud83d",
        b'"futureField":[1,2.50]',
        b'"vendorField":{"b":1,"a":null}',
        b'"_meta":{"example.com/x":null}',
    ):
        assert part in answer


def test_errors_and_notifications_keep_what_we_do_not_know(harbour: Harbour) -> None:
    with StreamablePeer(harbour.gateway, "stdio-legacy") as peer:
        peer.notify("notifications/vendor/thing", {"x": [1, {"y": None}]})
        eventually(
            lambda: harbour.journals["stdio-legacy"].messages("notifications/vendor/thing"),
            "the notification",
        )
        sent = harbour.journals["stdio-legacy"].messages("notifications/vendor/thing")[0]
        assert sent["params"] == {"x": [1, {"y": None}]}


def test_a_member_given_twice_means_one_thing_to_everybody(harbour: Harbour) -> None:
    """What was checked is what is sent: a second `method` must not smuggle another call past the gateway."""
    with StreamablePeer(harbour.gateway, "http-legacy") as peer:
        harbour.journals["http-legacy"].forget()
        body = (
            '{"jsonrpc":"2.0","id":"x","method":"tools/list","method":"tools/call","params":{"name":"echo"}}'
        )
        post(peer, body)
        received = [entry["raw"] for entry in harbour.journals["http-legacy"].entries() if "raw" in entry]
        assert received[-1].count('"method"') == 1
