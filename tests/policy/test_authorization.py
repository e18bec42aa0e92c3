"""Cedar authorization: one decision for lists and calls, by principal, group, server, hints and arguments."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.policy.caller import Caller
from tests.policy.shelf import Shelf, tool
from tests.support.gateway import Gateway, rewrite, running_gateway
from tests.support.waiting import eventually

from mooring.config.loading import ConfigError, load
from mooring.gateway.principal import Principal
from mooring.policy.authorization.engine import Engine, Question, Verdict
from mooring.policy.authorization.sources import PolicyMistake, read_sources, split

POLICIES = """
// Everybody may look.
@id("look")
permit(principal, action == Action::"call_tool", resource in MCPGroup::"library") when {
  resource has readOnlyHint && resource.readOnlyHint
};

@id("small transfers")
permit(principal == Client::"alice", action == Action::"call_tool", resource == Tool::"transfer")
when { context has arg_amount && context.arg_amount <= 100 };

@id("never to mallory")
forbid(principal, action, resource == Tool::"transfer")
when { context has arg_to && context.arg_to like "mallory*" };

permit(principal == Client::"alice", action == Action::"read_resource", resource == Resource::"shelf://public");
permit(principal in THVGroup::"admins", action, resource);
"""


def engine(tmp_path: Path, text: str, entities: Any = None) -> Engine:
    file = tmp_path / "policies.cedar"
    file.write_text(text)
    if entities is None:
        return Engine((file,), None, group_claim="groups")
    (tmp_path / "entities.json").write_text(json.dumps(entities))
    return Engine((file,), tmp_path / "entities.json", group_claim="groups")


def ask(name: str, who: str = "alice", **more: Any) -> Question:
    claims = more.pop("claims", {})
    principal = Principal(who, who, claims=claims)
    return Question(principal, "call_tool", "Tool", name, "bank", "library", more.pop("hints", None))


def test_a_call_that_depends_on_its_arguments_is_known_as_such(tmp_path: Path) -> None:
    policies = engine(tmp_path, POLICIES)
    question = ask("transfer")
    assert policies.verdict(question) is Verdict.DEPENDS
    assert policies.decide(question, {"amount": 5, "to": "bob"}).allowed
    assert not policies.decide(question, {"amount": 500, "to": "bob"}).allowed
    assert not policies.decide(question, {"amount": 5, "to": "mallory2"}).allowed
    assert not policies.decide(question, {}).allowed


def test_what_no_arguments_can_allow_is_denied_and_what_none_can_deny_is_allowed(tmp_path: Path) -> None:
    policies = engine(tmp_path, POLICIES)
    assert policies.verdict(ask("transfer", "bob")) is Verdict.DENIED
    assert policies.verdict(ask("look_up", "bob", hints={"readOnlyHint": True})) is Verdict.ALLOWED
    assert policies.verdict(ask("look_up", "bob", hints={"readOnlyHint": False})) is Verdict.DENIED
    assert policies.verdict(ask("look_up", "bob")) is Verdict.DENIED


def test_groups_of_callers_come_from_their_claims(tmp_path: Path) -> None:
    policies = engine(tmp_path, POLICIES)
    assert policies.verdict(ask("anything", "root", claims={"groups": ["admins"]})) is Verdict.ALLOWED
    assert policies.verdict(ask("transfer", "root", claims={"groups": ["admins"]})) is Verdict.DEPENDS


def test_entities_of_the_file_and_of_the_request_are_one(tmp_path: Path) -> None:
    text = 'permit(principal in Team::"red", action, resource) when { principal.level > 2 };'
    entities = [
        {
            "uid": {"type": "Client", "id": "alice"},
            "attrs": {"level": 3},
            "parents": [{"type": "Team", "id": "red"}],
        },
        {"uid": {"type": "Team", "id": "red"}, "attrs": {}, "parents": []},
    ]
    policies = engine(tmp_path, text, entities)
    assert policies.verdict(ask("x")) is Verdict.ALLOWED
    assert policies.verdict(ask("x", "bob")) is Verdict.DENIED


def test_a_forbid_that_fails_still_forbids(tmp_path: Path) -> None:
    text = (
        "permit(principal, action, resource); forbid(principal, action, resource) when { context.nothing };"
    )
    assert engine(tmp_path, text).verdict(ask("x")) is Verdict.DENIED


def test_a_permit_that_fails_permits_nothing_and_spoils_nothing(tmp_path: Path) -> None:
    text = (
        "permit(principal, action, resource) when { context.nothing }; permit(principal, action, resource);"
    )
    assert engine(tmp_path, text).verdict(ask("x")) is Verdict.ALLOWED


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "permit(principal, action, resource);\n\npermit(principal, action, resource) when { foo };",
            ":3: invalid",
        ),
        (
            '// ; a comment\npermit(principal, action == Action::"cal_tool", resource);',
            ":2: there is no action",
        ),
        ('\nforbid(principal, action, resource in Group::"prod");', ":2: no resource is a `Group`"),
        ("permit(principal is User, action, resource);", ":1: no principal is a `User`"),
        ("permit(principal, action, resource)", ":1: "),
    ],
)
def test_a_mistake_is_reported_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "p.cedar"
    file.write_text(text)
    with pytest.raises(PolicyMistake, match=said):
        read_sources((file,), None)
    config = tmp_path / "mooring.yaml"
    config.write_text("mooring: 1\nauthorization: {type: cedarv1, policies: p.cedar}\n")
    with pytest.raises(ConfigError, match="p.cedar" + said):
        load(config)


def test_types_and_actions_of_the_entities_count(tmp_path: Path) -> None:
    file, entities = tmp_path / "p.cedar", tmp_path / "e.json"
    file.write_text('permit(principal in Team::"red", action in Action::"use", resource);')
    entities.write_text(
        json.dumps(
            [
                {
                    "uid": {"type": "Client", "id": "ann"},
                    "attrs": {},
                    "parents": [{"type": "Team", "id": "red"}],
                },
                {
                    "uid": {"type": "Action", "id": "call_tool"},
                    "attrs": {},
                    "parents": [{"type": "Action", "id": "use"}],
                },
            ]
        )
    )
    assert Engine((file,), entities).verdict(ask("x", "ann")) is Verdict.ALLOWED
    assert Engine((file,), entities).verdict(ask("x", "ben")) is Verdict.DENIED


def test_the_file_of_toolhive_is_read_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "authz.json"
    cedar = {
        "policies": ['permit(principal in Crew::"deck", action, resource);'],
        "entities_json": "[]",
        "group_claim_name": "crew",
        "group_entity_type": "Crew",
    }
    file.write_text(json.dumps({"version": "1.0", "type": "cedarv1", "cedar": cedar}))
    policies = Engine((file,), None, group_claim="groups")
    assert policies.verdict(ask("x", claims={"crew": ["deck"]})) is Verdict.ALLOWED
    assert policies.verdict(ask("x", claims={"groups": ["deck"]})) is Verdict.DENIED


def test_policies_are_split_where_they_end() -> None:
    first = '@id("a;b") permit(principal, action, resource); // x; y'
    second = 'forbid(principal, action, resource) when { context.a == "\\";" };'
    text = f"{first}\n{second}"
    assert [line for _, line in split(text)] == [1, 2]


TESTS = ["context has arg_a && context.arg_a == 1", 'context has arg_b && context.arg_b like "x*"', "true"]
CONDITIONS = st.recursive(
    st.sampled_from([*TESTS, 'principal.claim_team == "red"', "false", "context has arg_c"]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda pair: f"(({pair[0]}) && ({pair[1]}))"),
        st.tuples(inner, inner).map(lambda pair: f"(({pair[0]}) || ({pair[1]}))"),
        inner.map(lambda one: f"(!({one}))"),
        st.tuples(inner, inner, inner).map(lambda t: f"(if ({t[0]}) then ({t[1]}) else ({t[2]}))"),
    ),
    max_leaves=5,
)
RULE = st.tuples(st.sampled_from(["permit", "forbid"]), st.sampled_from(["when", "unless"]), CONDITIONS)
ARGUMENTS = st.fixed_dictionaries(
    {}, optional={"a": st.sampled_from([1, 2]), "b": st.sampled_from(["x1", "y"]), "c": st.just(True)}
)


@settings(deadline=None, max_examples=60)
@given(
    rules=st.lists(RULE, min_size=1, max_size=4), arguments=ARGUMENTS, team=st.sampled_from(["red", "blue"])
)
def test_what_is_said_before_the_arguments_holds_for_all_of_them(
    tmp_path_factory: pytest.TempPathFactory, rules: Any, arguments: Any, team: str
) -> None:
    text = "\n".join(
        f"{effect}(principal, action, resource) {kind} {{ {body} }};" for effect, kind, body in rules
    )
    policies = engine(tmp_path_factory.mktemp("p"), text)
    question = ask("x", claims={"team": team})
    allowed = policies.decide(question, arguments).allowed
    match policies.verdict(question):
        case Verdict.ALLOWED:
            assert allowed
        case Verdict.DENIED:
            assert not allowed
        case Verdict.DEPENDS:
            pass


# Through a gateway


class Bank:
    def __init__(self, gateway: Gateway, shelf: Shelf, folder: Path) -> None:
        self.gateway = gateway
        self.shelf = shelf
        self.folder = folder
        self._keys: dict[str, str] = {}

    def caller(self, name: str) -> Caller:
        if name not in self._keys:
            self._keys[name] = self.gateway.command("key", "create", name).stdout.strip()
        caller = Caller(self.gateway.address, "bank", {"Authorization": f"Bearer {self._keys[name]}"})
        eventually(lambda: caller.initialize().status == 200, "the key to be known")
        return caller

    def modern(self, name: str) -> Caller:
        caller = self.caller(name)
        caller.session = {}
        return caller


TOOLS = [tool("look_up", annotations={"readOnlyHint": True}), tool("transfer"), tool("erase")]


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bank]:
    folder = tmp_path_factory.mktemp("bank")
    (folder / "p.cedar").write_text(POLICIES)
    shelf = Shelf(folder / "shelf", *TOOLS, resources=["shelf://public", "shelf://vault"])
    section = {"type": "cedarv1", "policies": "p.cedar"}
    with (
        shelf.http("bank", group="library") as server,
        running_gateway(folder, [server], auth={"mode": "api_key"}, authorization=section) as gateway,
    ):
        yield Bank(gateway, shelf, folder)


@pytest.mark.e2e
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_everybody_sees_what_they_may_call(bank: Bank, era: str) -> None:
    expected = {"alice": ["look_up", "transfer"], "bob": ["look_up"]}
    for name, names in expected.items():
        caller = bank.caller(name)
        if era == "modern":
            caller.session = {}
            listed = caller.modern("tools/list").result
            assert listed["cacheScope"] == "private"
        else:
            listed = caller.request("tools/list").result
        assert [entry["name"] for entry in listed["tools"]] == names


@pytest.mark.e2e
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_call_is_judged_by_its_arguments(bank: Bank, era: str) -> None:
    caller = bank.caller("alice")
    call = caller.tool
    if era == "modern":
        caller.session = {}
        call = caller.modern_tool
    assert "result" in call("transfer", {"amount": 5, "to": "bob"}).message
    refused = call("transfer", {"amount": 500, "to": "bob"})
    assert refused.error["message"] == "`transfer` may not be used with these arguments"
    assert refused.status == (403 if era == "modern" else 200)
    assert call("erase").error["message"] == "Unknown tool: erase"


@pytest.mark.e2e
def test_the_first_call_of_a_caller_who_never_listed_is_judged_by_the_hints_too(bank: Bank) -> None:
    assert "result" in bank.caller("fresh").tool("look_up").message


@pytest.mark.e2e
def test_an_argument_given_twice_is_judged_and_sent_once(bank: Bank) -> None:
    caller = bank.caller("alice")
    bank.shelf.journal.forget()
    for arguments, fine in (
        (b'{"amount":500,"amount":5,"to":"bob"}', True),
        (b'{"amount":5,"amount":500,"to":"bob"}', False),
        (b'{"amount":5,"to":"bob","to":"mallory"}', False),
    ):
        params = b'{"name":"transfer","arguments":%b}' % arguments
        said = caller.post(b'{"jsonrpc":"2.0","id":9,"method":"tools/call","params":%b}' % params)
        assert ("result" in said.message) is fine
    sent = bank.shelf.journal.raw("tools/call")
    assert len(sent) == 1
    assert sent[0].count("amount") == 1


@pytest.mark.e2e
def test_a_resource_that_may_not_be_read_is_one_that_is_not_there(bank: Bank) -> None:
    caller = bank.caller("alice")
    assert caller.request("resources/read", {"uri": "shelf://public"}).result["contents"]
    assert [entry["uri"] for entry in caller.request("resources/list").result["resources"]] == [
        "shelf://public"
    ]
    admin = caller.request("resources/read", {"uri": "shelf://vault"}).error
    absent = caller.request("resources/read", {"uri": "shelf://vaulx"}).error
    assert admin["data"] == {"uri": "shelf://vault"}
    assert {**admin, "data": None} == {**absent, "data": None}
    assert (
        caller.request("resources/subscribe", {"uri": "shelf://vault"}).error["message"]
        == "Resource not found"
    )


@pytest.mark.e2e
def test_a_method_that_no_policy_knows_is_not_passed_on(bank: Bank) -> None:
    bank.shelf.journal.forget()
    assert bank.caller("alice").request("vendor/doAnything").error["code"] == -32601
    assert bank.shelf.journal.messages("vendor/doAnything") == []


@pytest.mark.e2e
def test_changed_policies_are_taken_up_and_broken_ones_are_not(bank: Bank) -> None:
    caller = bank.caller("bob")
    file = bank.folder / "p.cedar"
    try:
        file.write_text(POLICIES + 'permit(principal == Client::"bob", action, resource == Tool::"erase");')
        eventually(lambda: "result" in caller.tool("erase").message, "the new policy to count")
        file.write_text("permit(principal, action, resource) when {")
        eventually(lambda: "were not reloaded" in bank.gateway.log(), "the mistake to be noticed")
        assert "result" in caller.tool("erase").message
    finally:
        file.write_text(POLICIES)
    eventually(lambda: "error" in caller.tool("erase").message, "the old policy to count again")


@pytest.mark.e2e
def test_the_group_of_a_server_counts_however_it_came_there(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "s", tool("look"))
    (tmp_path / "p.cedar").write_text('permit(principal, action, resource in MCPGroup::"open");')
    settings: Any = {"authorization": {"type": "cedarv1", "policies": [str(tmp_path / "p.cedar")]}}

    def seen(gateway: Gateway, server: str) -> list[str]:
        caller = Caller(gateway.address, server)
        assert caller.initialize().status == 200
        return [entry["name"] for entry in caller.request("tools/list").result["tools"]]

    with running_gateway(tmp_path, [shelf.stdio("filed")], **settings) as gateway:
        assert seen(gateway, "filed") == []
        rewrite(gateway, servers=[shelf.stdio("filed", group="open")])
        assert seen(gateway, "filed") == ["look"]
        line = ["run", "--name", "run", "--group", "open", "--sandbox", "off", "--"]
        started = gateway.command(*line, *shelf.command("stdio", "legacy"))
        assert started.returncode == 0, started.stderr
        caller = Caller(gateway.address, "run")
        caller.initialize()
        assert "result" in caller.tool("look").message
        assert gateway.command("group", "create", "closed").returncode == 0
        assert gateway.command("group", "move", "closed", "run").returncode == 0
        assert caller.tool("look").error["message"] == "Unknown tool: look"
        assert gateway.command("group", "move", "open", "run").returncode == 0
        assert "result" in caller.tool("look").message
