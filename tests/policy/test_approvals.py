"""Approvals: a person's yes for exactly this call, once, asked on the spot or given at the terminal."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.policy.caller import Caller
from tests.policy.shelf import Shelf, tool
from tests.support.gateway import Gateway, running_gateway
from tests.support.peers import ModernHttpPeer, RpcRefused, StreamablePeer
from tests.support.waiting import eventually

from mooring.policy.approvals import Request, Requests

pytestmark = pytest.mark.e2e
Json = dict[str, Any]


class Bank:
    def __init__(self, gateway: Gateway, shelf: Shelf) -> None:
        self.gateway = gateway
        self.shelf = shelf


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bank]:
    folder: Path = tmp_path_factory.mktemp("approvals")
    shelf = Shelf(folder / "s", tool("transfer"), tool("balance"))
    with (
        shelf.http("bank", approvals={"tools": ["trans*"]}) as server,
        running_gateway(folder, [server]) as gateway,
    ):
        yield Bank(gateway, shelf)


@pytest.mark.parametrize("peer", [StreamablePeer, ModernHttpPeer], ids=lambda peer: peer.__name__)
def test_a_client_that_can_be_asked_is_asked(bank: Bank, peer: Any) -> None:
    asked: list[Json] = []
    replies = iter([{"approve": True}, {"approve": False}, None])

    def person(params: Json) -> Json:
        asked.append(params)
        content = next(replies)
        return {"action": "accept", "content": content} if content is not None else {"action": "decline"}

    with peer(bank.gateway, "bank", handlers={"elicitation/create": person}) as client:
        assert client.tool("balance")["structuredContent"]["called"] == "balance"
        assert asked == []
        done = client.tool("transfer", {"text": "10 to bob"})
        assert done["structuredContent"]["arguments"] == {"text": "10 to bob"}
        assert 'with {"text":"10 to bob"}?' in asked[0]["message"]
        for _ in range(2):
            with pytest.raises(RpcRefused, match="was not approved"):
                client.tool("transfer", {"text": "10 to bob"})
        assert len(asked) == 3


def test_without_a_way_to_ask_a_person_decides_at_the_terminal(bank: Bank) -> None:
    caller = Caller(bank.gateway.address, "bank")
    bank.shelf.journal.forget()
    refused = caller.modern_tool("transfer", {"text": "x"})
    assert refused.status == 403
    number = refused.error["data"]["approvalId"]
    waiting = json.loads(bank.gateway.command("approve", "--format", "json").stdout)
    assert [(entry["id"], entry["tool"]) for entry in waiting] == [(number, "transfer")]
    assert bank.gateway.command("approve", number).returncode == 0
    assert "error" in caller.modern_tool("transfer", {"text": "y"}).message
    assert "result" in caller.modern_tool("transfer", {"text": "x"}).message
    assert "error" in caller.modern_tool("transfer", {"text": "x"}).message
    assert [call["arguments"] for call in bank.shelf.calls()] == [{"text": "x"}]
    assert bank.gateway.command("approve", "--deny", number).returncode == 0
    assert bank.gateway.command("approve", number).returncode == 1


def test_who_is_asked_knows_when_not_everything_is_shown(bank: Bank) -> None:
    caller = Caller(bank.gateway.address, "bank")
    number = caller.modern_tool("transfer", {"text": "x" * 5_000 + "to mallory"}).error["data"]["approvalId"]
    waiting = json.loads(bank.gateway.command("approve", "--format", "json").stdout)
    shown = next(entry["arguments"] for entry in waiting if entry["id"] == number)
    assert "only the first 2000 of 5021 bytes are shown" in shown
    assert bank.gateway.command("approve", "--deny", number).returncode == 0


def test_a_made_up_state_is_no_approval(bank: Bank) -> None:
    caller = Caller(bank.gateway.address, "bank")
    bank.shelf.journal.forget()
    params = {"name": "transfer", "arguments": {}, "requestState": "made up"}
    assert "error" in caller.modern("tools/call", params).message
    caller.initialize()
    assert "error" in caller.request("tools/call", params).message
    assert bank.shelf.calls() == []


def test_a_yes_is_for_one_caller_one_definition_and_a_while(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "s", tool("transfer"))
    servers = [shelf.stdio("bank", approvals={"tools": ["transfer"]})]
    with running_gateway(tmp_path, servers, auth={"mode": "api_key"}) as gateway:
        keys = [gateway.command("key", "create", name).stdout.strip() for name in ("anna", "berta")]

        def caller(key: str) -> Caller:
            made = Caller(gateway.address, "bank", {"Authorization": f"Bearer {key}"})
            eventually(lambda: made.initialize().status == 200, "the key to be known")
            return made

        def wanted(who: Caller) -> str:
            return who.tool("transfer", {"text": "x"}).error["data"]["approvalId"]

        anna, berta = (caller(key) for key in keys)
        assert wanted(anna) != wanted(berta)
        number = wanted(anna)
        assert gateway.command("approve", number).returncode == 0
        assert wanted(berta) != number
        shelf.put(tool("transfer", "and tells everybody"))
        anna.request("tools/list")
        assert wanted(anna) != number
        shelf.put(tool("transfer"))
        anna.request("tools/list")
        assert "result" in anna.tool("transfer", {"text": "x"}).message

        number = wanted(anna)
        assert gateway.command("approve", number).returncode == 0
        file = tmp_path / "data" / "approvals" / f"{number}.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), "expires": time.time() - 1}))
        assert "error" in anna.tool("transfer", {"text": "x"}).message
    assert len(shelf.calls()) == 1


def test_a_call_made_to_have_the_id_of_another_is_not_what_was_approved(tmp_path: Path) -> None:
    requests = Requests(tmp_path)
    harmless, harmful = (
        Request("0" * 12, "0" * 12 + rest, "anna", "bank", "transfer", rest, "", time.time() + 60)
        for rest in ("harmless", "harmful")
    )
    requests.put(harmless)
    requests.put(harmful)
    assert [request.arguments for request in requests.all()] == ["harmless"]
    requests.decide(harmless.id, approved=True)
    assert not requests.take(harmful.digest)
    assert requests.take(harmless.digest)


def test_a_tool_with_another_name_is_approved_under_either(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "s", tool("transfer"), tool("erase"))
    tools = {"override": {"transfer": {"name": "pay"}, "erase": {"name": "wipe"}}}
    servers = [shelf.stdio("bank", approvals={"tools": ["pay", "erase"]}, tools=tools)]
    with running_gateway(tmp_path, servers) as gateway:
        for name in ("pay", "wipe"):
            said = Caller(gateway.address, "bank").modern_tool(name).error["message"]
            assert said.startswith(f"the call of `{name}` needs a person's approval")
    assert shelf.calls() == []
