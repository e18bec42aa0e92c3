"""Ways around a rule that must lead nowhere: other spellings, other places, forged lines and identities."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.policy.caller import META, Caller
from tests.policy.shelf import Shelf, tool
from tests.support.gateway import Gateway, running_gateway

pytestmark = pytest.mark.e2e
Json = dict[str, Any]
POLICY = 'permit(principal, action == Action::"call_tool", resource == Tool::"read");'


class Vault:
    def __init__(self, gateway: Gateway, shelf: Shelf) -> None:
        self.gateway = gateway
        self.shelf = shelf

    def caller(self, **headers: str) -> Caller:
        caller = Caller(self.gateway.address, "vault", headers)
        caller.initialize()
        return caller

    def reached(self) -> list[str]:
        return [call["name"] for call in self.shelf.calls()]

    def events(self) -> list[Json]:
        lines = (self.gateway.folder / "data" / "audit.log").read_text().splitlines()
        return [json.loads(line) for line in lines]


@pytest.fixture(scope="module", params=["legacy", "modern"])
def vault(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vault]:
    folder = tmp_path_factory.mktemp("vault")
    (folder / "p.cedar").write_text(POLICY)
    shelf = Shelf(folder / "s", *(tool(name) for name in ("read", "open", "Open", "open2", "café")))
    settings: Json = {
        "authorization": {"type": "cedarv1", "policies": [str(folder / "p.cedar")]},
        "audit": {"enabled": True},
    }
    with (
        shelf.http("vault", request.param) as server,
        running_gateway(folder, [server], **settings) as gateway,
    ):
        yield Vault(gateway, shelf)


OTHER_SPELLINGS = {
    "another case": "OPEN",
    "a prefix": "ope",
    "a longer name": "open2",
    "a space": "open ",
    "a full-width letter": "\uff4fpen",
    "a combining mark": "cafe\u0301",
    "an invisible character": "op\u200ben",
    "a null": "open\x00",
    "a path": "read/../open",
    "a wildcard": "*",
}


@pytest.mark.parametrize("spelling", OTHER_SPELLINGS)
def test_no_other_spelling_leads_to_a_tool_that_is_not_allowed(vault: Vault, spelling: str) -> None:
    vault.shelf.journal.forget()
    name = OTHER_SPELLINGS[spelling]
    said = vault.caller().tool(name)
    assert said.error["message"] == f"Unknown tool: {name}"
    raw = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name}})
    escaped = raw.replace("open", "\\u006fpen").encode()
    assert "error" in vault.caller().post(escaped).message
    assert vault.reached() == []


@pytest.mark.parametrize("second", ['"Name":"open"', '"NAME":"open"', '"argument\u017f":{"path":"x"}'])
def test_a_member_in_another_case_is_no_second_one(vault: Vault, second: str) -> None:
    vault.shelf.journal.forget()
    params = '{"name":"read","arguments":{},' + second + "}"
    call = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":' + params + "}"
    said = vault.caller().post(call.encode())
    assert "is not a member of params" in said.message["error"]["message"]
    assert vault.reached() == []


def test_two_arguments_that_differ_in_case_only_are_refused(vault: Vault) -> None:
    vault.shelf.journal.forget()
    said = vault.caller().tool("read", {"path": "a", "Path": "b"})
    assert "two arguments differ in case only" in said.error["message"]
    assert vault.reached() == []


def test_metadata_names_neither_tool_nor_caller(vault: Vault) -> None:
    vault.shelf.journal.forget()
    caller = vault.caller()
    for meta in (
        {"name": "read"},
        {META + "name": "read"},
        {"principal": "admin", "claims": {"sub": "admin"}},
    ):
        said = caller.request("tools/call", {"name": "open", "arguments": {}, "_meta": meta})
        assert said.error["message"] == "Unknown tool: open"
    assert vault.reached() == []


def test_headers_that_name_another_tool_than_the_body_are_refused(vault: Vault) -> None:
    vault.shelf.journal.forget()
    caller = Caller(vault.gateway.address, "vault")
    for headers in ({"Mcp-Name": "read"}, {"Mcp-Method": "tools/list"}, {"Mcp-Name": "READ"}):
        said = caller.modern("tools/call", {"name": "open", "arguments": {}}, **headers)
        assert said.status == 400
        assert said.error["code"] == -32020
    assert vault.reached() == []


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_hidden_and_absent_cannot_be_told_apart(vault: Vault, era: str) -> None:
    def seen(name: str) -> tuple[int, bytes, list[str]]:
        caller = vault.caller() if era == "legacy" else Caller(vault.gateway.address, "vault")
        caller._number = 7
        said = caller.tool(name) if era == "legacy" else caller.modern_tool(name)
        return said.status, said.body.replace(name.encode(), b"X"), sorted(said.headers)

    seen("warm")
    assert seen("open") == seen("oper")


def test_a_name_with_a_line_break_forges_no_line_in_the_audit(vault: Vault) -> None:
    forged = 'x\n{"seq":0,"prev":"","type":"mcp_tool_call","outcome":"success"}\r\n\u2028'
    before = len(vault.events())
    caller = vault.caller(**{"User-Agent": 'agent", "outcome": "success'})
    caller.tool(forged)
    found = vault.events()[before:]
    assert [event["target"].get("name") for event in found if event["type"] == "mcp_tool_call"] == [forged]
    assert [event["seq"] for event in vault.events()] == list(range(len(vault.events())))
    verified = vault.gateway.command(
        "audit", "verify", "--file", str(vault.gateway.folder / "data/audit.log")
    )
    assert verified.returncode == 0, verified.stdout + verified.stderr


def test_headers_that_claim_an_identity_change_nothing_in_the_audit(vault: Vault) -> None:
    before = len(vault.events())
    claims = {"X-Forwarded-User": "root", "X-Forwarded-For": "9.9.9.9", "X-Principal": "root"}
    vault.caller(**claims).tool("read")
    events = vault.events()[before:]
    assert {event["subjects"]["user"] for event in events} == {"anonymous"}
    assert {event["source"]["value"] for event in events} == {"127.0.0.1"}


ONE_OF_TWO = {
    "the name": '{"name":"read","name":"open","arguments":{}}',
    "the arguments": '{"name":"open","arguments":{"text":"1"},"arguments":{"text":"2"}}',
    "an argument": '{"name":"open","arguments":{"text":"1","text":"2"}}',
}
WATCHING: dict[str, Json] = {
    "rates": {"limits": {"rate": [{"count": 99, "seconds": 9, "per": ["tool"], "methods": ["tools/call"]}]}},
    "concurrency": {"limits": {"concurrency": [{"count": 9, "per": ["tool"]}]}},
    "audit": {"audit": {"enabled": True}},
    "metrics": {"telemetry": {"prometheus": True}},
}


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("watching", WATCHING)
def test_what_is_counted_and_written_down_is_what_the_server_reads(
    tmp_path: Path, watching: str, era: str
) -> None:
    """A server may take the first of two members of one name where we take the last."""
    shelf = Shelf(tmp_path / "s", tool("read"), tool("open"))
    with (
        shelf.http("one", era) as server,
        running_gateway(tmp_path, [server], **WATCHING[watching]) as gateway,
    ):
        caller = Caller(gateway.address, "one")
        caller.initialize()
        for params in ONE_OF_TWO.values():
            for _ in range(2):  # the second may take a shorter way
                call = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":' + params + "}"
                assert "result" in caller.post(call.encode()).message
        raw = shelf.journal.raw("tools/call")
        assert len(raw) == 2 * len(ONE_OF_TWO)
        for text in raw:
            assert text.count('"name"') == (2 if era == "modern" and "clientInfo" in text else 1), text
            assert text.count('"arguments"') == 1
            assert text.count('"text"') <= 1


def test_arguments_that_differ_in_case_are_nobodys_business_where_no_rule_reads_them(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "s", tool("read"))
    settings = WATCHING["audit"] | WATCHING["metrics"]
    with shelf.http("one") as server, running_gateway(tmp_path, [server], **settings) as gateway:
        caller = Caller(gateway.address, "one")
        caller.initialize()
        assert "result" in caller.tool("read", {"x": "a", "X": "b"}).message
        assert shelf.calls()[-1]["arguments"] == {"x": "a", "X": "b"}
