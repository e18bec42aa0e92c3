"""Claims about results and errors that go from one revision to another."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.protocol import translate
from mooring.protocol.versions import LEGACY_VERSIONS

MODERN = "2026-07-28"
NEWEST, SUMMER, SPRING, OLDEST = LEGACY_VERSIONS
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=5,
)
OURS = {"resultType", "ttlMs", "cacheScope", "structuredContent", "tools"}
results = st.dictionaries(
    st.sampled_from(["content", "messages", "_meta", "isError", "nextCursor"])
    | texts.filter(lambda name: name not in OURS),
    values,
    max_size=4,
)
methods = st.sampled_from([*sorted(translate.CACHEABLE), "tools/call", "prompts/get", "vendor/own"])


def carried(method: str, result: object, target: str) -> dict[str, Any]:
    return json.loads(translate.result(method, json.dumps(result).encode(), target))


def test_nothing_is_needed_between_equals_or_towards_a_newer_legacy_revision() -> None:
    everything = (*LEGACY_VERSIONS, MODERN)
    assert not any(translate.needed(version, version) for version in everything)
    assert not translate.needed(OLDEST, NEWEST)
    assert translate.needed(NEWEST, OLDEST)
    for version in LEGACY_VERSIONS:
        assert translate.needed(version, MODERN)
        assert translate.needed(MODERN, version)


# Towards 2026-07-28


@given(methods, results)
def test_modern_clients_get_what_their_revision_requires_and_all_the_rest(
    method: str, result: dict[str, Any]
) -> None:
    after = carried(method, result, MODERN)
    assert after.pop("resultType") == "complete"
    if method in translate.CACHEABLE:
        assert (after.pop("ttlMs"), after.pop("cacheScope")) == (0, "private")
    assert after == result


@given(methods, results)
def test_making_a_result_modern_twice_is_making_it_modern_once(method: str, result: dict[str, Any]) -> None:
    once = translate.result(method, json.dumps(result).encode(), MODERN)
    assert translate.result(method, once, MODERN) == once


def test_what_a_server_already_says_is_not_overruled() -> None:
    said = {"tools": [], "resultType": "complete", "ttlMs": 5000, "cacheScope": "public"}
    assert carried("tools/list", said, MODERN) == said


@pytest.mark.parametrize("kind", ["input_required", "task", "vendor"])
def test_only_complete_results_are_given_a_lifetime(kind: str) -> None:
    assert carried("resources/read", {"resultType": kind}, MODERN) == {"resultType": kind}


def test_modern_clients_hear_nothing_of_task_support_per_tool() -> None:
    tool = {
        "name": "t",
        "execution": {"taskSupport": "optional"},
        "inputSchema": {"type": "object", "properties": {"execution": {"type": "string"}}},
        "vendor": 1,
    }
    (after,) = carried("tools/list", {"tools": [tool]}, MODERN)["tools"]
    assert after == {name: value for name, value in tool.items() if name != "execution"}


# Towards legacy revisions


@given(methods, results, st.sampled_from(LEGACY_VERSIONS))
def test_legacy_clients_get_everything_but_what_only_modern_ones_know(
    method: str, result: dict[str, Any], target: str
) -> None:
    modern = {**result, "resultType": "complete", "ttlMs": 5, "cacheScope": "public"}
    if isinstance(result.get("messages"), list):
        modern["messages"] = result["messages"] = []
    assert carried(method, modern, target) == result


@given(methods, results, st.sampled_from(LEGACY_VERSIONS))
def test_a_result_goes_to_the_modern_era_and_back_unharmed(
    method: str, result: dict[str, Any], target: str
) -> None:
    if isinstance(result.get("messages"), list):
        result["messages"] = []
    there = translate.result(method, json.dumps(result).encode(), MODERN)
    assert json.loads(translate.result(method, there, target)) == result


@pytest.mark.parametrize("target", LEGACY_VERSIONS)
@pytest.mark.parametrize(
    "schema", [{"type": "array"}, {"type": "string"}, {"anyOf": []}, {"type": ["object", "null"]}, {}, True]
)
def test_an_output_schema_of_no_object_is_dropped_and_its_tool_kept(schema: object, target: str) -> None:
    tool = {"name": "t", "inputSchema": {"$defs": {"x": {}}}, "outputSchema": schema, "vendor": None}
    (after,) = carried("tools/list", {"tools": [tool]}, target)["tools"]
    after.pop("execution", None)
    assert after == {name: value for name, value in tool.items() if name != "outputSchema"}


@pytest.mark.parametrize("target", LEGACY_VERSIONS)
def test_an_output_schema_of_an_object_stays(target: str) -> None:
    tool = {"name": "t", "outputSchema": {"type": "object", "$defs": {"a": {"$anchor": "b"}}}}
    (after,) = carried("tools/list", {"tools": [tool]}, target)["tools"]
    assert after["outputSchema"] == tool["outputSchema"]


def test_tools_may_run_as_tasks_for_clients_of_the_revision_that_has_tasks() -> None:
    for target in LEGACY_VERSIONS:
        (after,) = carried("tools/list", {"tools": [{"name": "t"}]}, target)["tools"]
        assert after.get("execution") == ({"taskSupport": "optional"} if target == NEWEST else None)
    said = {"name": "t", "execution": {"taskSupport": "forbidden"}}
    assert carried("tools/list", {"tools": [said]}, NEWEST) == {"tools": [said]}


@pytest.mark.parametrize("target", LEGACY_VERSIONS)
@pytest.mark.parametrize("structured", [[1, 2], "text", 5, None, True])
def test_structured_content_of_no_object_is_dropped_where_a_text_says_the_same(
    structured: object, target: str
) -> None:
    text = {"type": "text", "text": json.dumps(structured)}
    after = carried("tools/call", {"content": [text], "structuredContent": structured, "vendor": 1}, target)
    assert after == {"content": [text], "vendor": 1}


@pytest.mark.parametrize("target", LEGACY_VERSIONS)
@pytest.mark.parametrize(
    "content",
    [
        [],
        [{"type": "image", "data": "AA==", "mimeType": "image/png"}],
        [{"type": "resource", "resource": {"uri": "a:b", "text": "something else"}}],
    ],
)
def test_structured_content_of_no_object_becomes_a_text_where_none_is(
    content: list[dict[str, Any]], target: str
) -> None:
    after = carried("tools/call", {"content": content, "structuredContent": [1, {"a": 2}]}, target)
    *kept, text = after["content"]
    assert kept == content
    assert text["type"] == "text"
    assert json.loads(text["text"]) == [1, {"a": 2}]
    assert "structuredContent" not in after


@pytest.mark.parametrize("target", LEGACY_VERSIONS)
def test_structured_content_of_an_object_stays(target: str) -> None:
    result = {"content": [{"type": "text", "text": "{}"}], "structuredContent": {"a": [1]}}
    assert carried("tools/call", result, target) == result


LINK = {
    "type": "resource_link",
    "uri": "file:///a",
    "name": "a",
    "title": "The A",
    "description": "about a",
    "annotations": {"priority": 0.5},
}
AUDIO = {"type": "audio", "data": base64.b64encode(b"sound").decode(), "mimeType": "audio/wav"}
OTHER = [
    {"type": "text", "text": "x", "vendor": {"a": None}},
    {"type": "image", "data": "AA==", "mimeType": "image/png"},
    {"type": "resource", "resource": {"uri": "a:b", "blob": "AA=="}},
    {"type": "future"},
    {"type": 5},
    "no block",
    7,
]


@pytest.mark.parametrize("target", [SPRING, OLDEST])
def test_a_link_becomes_a_text_that_names_its_target_where_there_are_no_links(target: str) -> None:
    block = carried("tools/call", {"content": [LINK]}, target)["content"][0]
    assert block["type"] == "text"
    assert all(word in block["text"] for word in ("file:///a", "The A", "about a"))
    assert block["annotations"] == {"priority": 0.5}


@pytest.mark.parametrize("target", [NEWEST, SUMMER])
def test_a_link_stays_one_where_there_are_links(target: str) -> None:
    assert carried("tools/call", {"content": [LINK, AUDIO]}, target) == {"content": [LINK, AUDIO]}


def test_audio_becomes_a_resource_with_the_same_bytes_where_there_is_no_audio() -> None:
    block = carried("tools/call", {"content": [AUDIO]}, OLDEST)["content"][0]
    assert block["type"] == "resource"
    assert (block["resource"]["blob"], block["resource"]["mimeType"]) == (AUDIO["data"], "audio/wav")
    assert block["resource"]["uri"]
    assert carried("tools/call", {"content": [AUDIO]}, SPRING) == {"content": [AUDIO]}


@pytest.mark.parametrize("target", LEGACY_VERSIONS)
def test_other_blocks_go_everywhere_as_they_are(target: str) -> None:
    assert carried("tools/call", {"content": OTHER}, target) == {"content": OTHER}


@pytest.mark.parametrize("target", [SPRING, OLDEST])
def test_the_messages_of_a_prompt_are_made_older_too(target: str) -> None:
    messages = [
        {"role": "user", "content": LINK, "vendor": 1},
        {"role": "assistant", "content": OTHER[0]},
        {"role": "user"},
    ]
    after = carried("prompts/get", {"messages": messages, "description": "d"}, target)
    assert after["messages"][0]["content"]["type"] == "text"
    assert after["messages"][0]["vendor"] == 1
    assert after["messages"][1:] == messages[1:]
    assert after["description"] == "d"


@given(
    methods, st.sampled_from([SPRING, OLDEST]), st.lists(st.sampled_from([LINK, AUDIO, *OTHER]), max_size=5)
)
def test_making_a_result_older_twice_is_making_it_older_once(
    method: str, target: str, content: list[object]
) -> None:
    once = translate.result(method, json.dumps({"content": content}).encode(), target)
    assert translate.result(method, once, target) == once


@pytest.mark.parametrize("target", LEGACY_VERSIONS)
@pytest.mark.parametrize("own", ["a text", {"type": "text", "text": "x"}, None, 5])
def test_a_member_that_only_shares_the_name_of_content_is_left_alone(own: object, target: str) -> None:
    assert carried("vendor/own", {"content": own}, target) == {"content": own}
    assert carried("vendor/own", {"messages": own}, target) == {"messages": own}


# Errors


def error_code(method: str, code: object, source: str, target: str) -> object:
    raw = json.dumps({"code": code, "message": "m", "data": {"k": None}, "vendor": 1.5}).encode()
    after = json.loads(translate.error(method, raw, source, target))
    assert after == {"code": after["code"], "message": "m", "data": {"k": None}, "vendor": 1.5}
    return after["code"]


@pytest.mark.parametrize("legacy", LEGACY_VERSIONS)
def test_a_missing_resource_has_the_code_of_each_era(legacy: str) -> None:
    assert error_code("resources/read", -32002, legacy, MODERN) == -32602
    assert error_code("resources/read", -32602, MODERN, legacy) == -32002
    assert error_code("resources/read", -32002, legacy, legacy) == -32002
    assert error_code("resources/read", -32602, legacy, legacy) == -32602, (
        "a legacy server meant what it said"
    )
    assert error_code("tools/call", -32602, MODERN, legacy) == -32602


@pytest.mark.parametrize("legacy", LEGACY_VERSIONS)
@pytest.mark.parametrize(("code", "instead"), [(-32020, -32603), (-32021, -32602), (-32022, -32603)])
def test_codes_that_only_modern_clients_know_become_older_ones(code: int, instead: int, legacy: str) -> None:
    assert error_code("tools/call", code, MODERN, legacy) == instead
    assert error_code("tools/call", code, MODERN, MODERN) == code


@given(st.integers(-40000, 40000), st.sampled_from([*LEGACY_VERSIONS, MODERN]))
def test_every_other_code_goes_everywhere_as_it_is(code: int, target: str) -> None:
    if code not in (-32002, -32020, -32021, -32022):
        assert error_code("tools/call", code, MODERN, target) == code


@pytest.mark.parametrize("raw", [b"{}", b'{"code":"x","message":"m"}', b'{"code":1.5}', b'{"code":null}'])
def test_an_error_with_a_strange_code_goes_on_untouched(raw: bytes) -> None:
    for target in (*LEGACY_VERSIONS, MODERN):
        assert translate.error("tools/call", raw, MODERN, target) == raw


@pytest.mark.parametrize(
    ("method", "member", "key"),
    [
        ("tools/list", "tools", "name"),
        ("prompts/list", "prompts", "name"),
        ("resources/list", "resources", "uri"),
        ("resources/templates/list", "resourceTemplates", "uriTemplate"),
    ],
)
@given(order=st.permutations(["a", "b", "b2", "c", "d"]))
def test_a_modern_client_gets_a_list_in_the_same_order_however_an_older_server_shuffles_it(
    method: str, member: str, key: str, order: list[str]
) -> None:
    said = {member: [{"x": {"kept": name}, key: name} for name in order], "nextCursor": "on"}
    heard = carried(method, said, MODERN)
    assert [entry[key] for entry in heard[member]] == ["a", "b", "b2", "c", "d"]
    assert all(entry["x"] == {"kept": entry[key]} for entry in heard[member])
    assert heard["nextCursor"] == "on"
    assert [entry[key] for entry in carried(method, said, NEWEST)[member]] == order


@pytest.mark.parametrize("listed", [[1, "x", None], {"not": "a list"}, None, [{"noName": 1}, {"name": "a"}]])
def test_a_list_of_something_else_is_left_as_it_is(listed: Any) -> None:
    heard = carried("prompts/list", {"prompts": listed}, MODERN)["prompts"]
    assert heard == listed
