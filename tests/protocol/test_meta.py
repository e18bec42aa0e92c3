"""Claims about reading, setting and taking away `_meta`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from mooring.errors import INVALID_PARAMS, UNSUPPORTED_VERSION, RpcError
from mooring.protocol import meta

PER_REQUEST = (meta.PROTOCOL_VERSION, meta.CLIENT_CAPABILITIES, meta.CLIENT_INFO, meta.LOG_LEVEL)
MODERN_ONLY = ("inputResponses", "requestState")
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
names = texts | st.sampled_from(["name", "arguments", "cursor", "progressToken", "uri"])
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=5,
)
metas = st.dictionaries(
    st.sampled_from(["progressToken", "traceparent", "vendor/x"]) | texts, values, max_size=3
)
params = st.builds(
    lambda members, inner: {**members, "_meta": inner} if inner else members,
    st.dictionaries(names.filter(lambda name: name not in ("_meta", *MODERN_ONLY)), values, max_size=3),
    metas,
)


def compact(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def stamped(raw: bytes, log_level: bytes = b'"info"') -> bytes:
    return meta.with_request_metadata(
        raw,
        version="2026-07-28",
        capabilities=b'{"roots":{}}',
        client_info=b'{"name":"c","version":"1"}',
        log_level=log_level,
    )


@given(params)
def test_adding_request_metadata_and_taking_it_away_changes_nothing_else(value: dict[str, Any]) -> None:
    raw = compact(value) if value else b""
    after = meta.without_request_metadata(stamped(raw))
    assert (json.loads(after) if after else {}) == value
    assert list(json.loads(after) if after else {}) == list(value), "the order stays"


@given(params)
def test_request_metadata_says_who_asks_and_leaves_the_rest(value: dict[str, Any]) -> None:
    after = json.loads(stamped(compact(value)))
    added = {name: after["_meta"].pop(name) for name in PER_REQUEST}
    assert added == {
        meta.PROTOCOL_VERSION: "2026-07-28",
        meta.CLIENT_CAPABILITIES: {"roots": {}},
        meta.CLIENT_INFO: {"name": "c", "version": "1"},
        meta.LOG_LEVEL: "info",
    }
    assert after.pop("_meta") == value.get("_meta", {})
    assert after == {name: kept for name, kept in value.items() if name != "_meta"}


@given(params)
def test_adding_request_metadata_twice_is_adding_it_once(value: dict[str, Any]) -> None:
    assert stamped(stamped(compact(value))) == stamped(compact(value))


@given(params, values, values)
def test_taking_it_away_also_takes_what_only_modern_calls_carry(
    value: dict[str, Any], responses: object, state: object
) -> None:
    extended = {**value, "inputResponses": responses, "requestState": state}
    after = meta.without_request_metadata(compact(extended))
    assert (json.loads(after) if after else {}) == value


def test_what_is_unknown_of_the_client_is_not_made_up() -> None:
    raw = meta.with_request_metadata(
        b"", version="2026-07-28", capabilities=b"", client_info=b"", log_level=b""
    )
    assert json.loads(raw) == {"_meta": {meta.PROTOCOL_VERSION: "2026-07-28", meta.CLIENT_CAPABILITIES: {}}}


def test_numbers_keep_their_spelling() -> None:
    raw = b'{"arguments":{"a":1.50,"b":1e2,"c":12345678901234567890.0},"_meta":{"k":0.10}}'
    assert meta.without_request_metadata(stamped(raw)) == raw


@given(params, st.sampled_from(["progressToken", meta.RELATED_TASK, "a/b"]), values)
def test_an_entry_set_and_taken_away_leaves_the_rest(value: dict[str, Any], name: str, entry: object) -> None:
    before = {**value, "_meta": {k: v for k, v in value.get("_meta", {}).items() if k != name}}
    if not before["_meta"]:
        del before["_meta"]
    raw = meta.with_meta(compact(before), name, compact(entry))
    assert json.loads(raw)["_meta"][name] == entry
    after = meta.without_meta(raw, name)
    assert (json.loads(after) if after else {}) == before


@given(params)
def test_taking_away_an_entry_that_is_not_there_keeps_the_very_bytes(value: dict[str, Any]) -> None:
    raw = json.dumps(value, indent=1).encode()
    assert meta.without_meta(raw, "not/there") == raw


@given(params, names, values)
def test_setting_a_member_sets_only_that(value: dict[str, Any], name: str, entry: object) -> None:
    after = json.loads(meta.with_member(compact(value), name, compact(entry)))
    assert after == {**value, name: entry}
    assert list(after) == list({**value, name: entry}), "in place, if it was there"


def test_params_are_read_whatever_their_types() -> None:
    read = meta.read_params(b'{"name":5,"uri":null,"taskId":[],"_meta":{"progressToken":0},"requestId":"1"}')
    assert (bytes(read.name), bytes(read.uri), bytes(read.task_id)) == (b"5", b"null", b"[]")
    assert bytes(meta.read_meta(read).progress_token) == b"0"
    assert bytes(read.request_id) == b'"1"'
    assert meta.read_meta(meta.read_params(b"")) is meta.NO_META
    assert meta.read_meta(meta.read_params(b"{}")) is meta.NO_META


@pytest.mark.parametrize("raw", [b"[]", b"[1]", b'"text"', b"7", b"{", b'{"a":' * 5000 + b"1" + b"}" * 5000])
def test_params_that_cannot_be_read_are_invalid(raw: bytes) -> None:
    with pytest.raises(RpcError) as caught:
        meta.read_params(raw)
    assert caught.value.code == INVALID_PARAMS


@pytest.mark.parametrize("raw", [b"[]", b"5", b'"x"', b"null", b"true"])
def test_metadata_that_is_no_object_is_the_senders_fault(raw: bytes) -> None:
    with pytest.raises(RpcError) as caught:
        meta.read_meta(meta.read_params(b'{"_meta":%b}' % raw))
    assert caught.value.code == INVALID_PARAMS


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        *((b"", None), (b"5", None), (b"null", None), (b"{}", None), (b'"\xff"', None)),
        *((b'""', ""), (b'"a\\u00e9"', "aé")),
    ],
)
def test_only_strings_are_text(raw: bytes, value: str | None) -> None:
    assert meta.text(raw) == value


def require(entries: dict[str, object]) -> str:
    return meta.require_modern(meta.read_meta(meta.Params(meta=Raw(compact(entries)))))


COMPLETE: dict[str, object] = {meta.PROTOCOL_VERSION: "2026-07-28", meta.CLIENT_CAPABILITIES: {}}


def test_complete_request_metadata_tells_the_revision() -> None:
    assert require(COMPLETE) == "2026-07-28"
    assert require({**COMPLETE, "vendor": None}) == "2026-07-28"


@pytest.mark.parametrize("missing", [meta.PROTOCOL_VERSION, meta.CLIENT_CAPABILITIES])
def test_missing_request_metadata_is_named(missing: str) -> None:
    with pytest.raises(RpcError, match=missing) as caught:
        require({name: value for name, value in COMPLETE.items() if name != missing})
    assert caught.value.code == INVALID_PARAMS


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((meta.PROTOCOL_VERSION, wrong) for wrong in (5, None, [], True)),
        *((meta.CLIENT_CAPABILITIES, wrong) for wrong in (5, None, [], "x")),
    ],
)
def test_request_metadata_of_the_wrong_type_is_refused(name: str, value: object) -> None:
    with pytest.raises(RpcError, match=name) as caught:
        require({**COMPLETE, name: value})
    assert caught.value.code == INVALID_PARAMS


@pytest.mark.parametrize("version", ["2025-11-25", "2027-01-01", "", "x"])
def test_a_revision_that_is_not_spoken_is_answered_with_those_that_are(version: str) -> None:
    with pytest.raises(RpcError) as caught:
        meta.require_spoken(version)
    assert caught.value.code == UNSUPPORTED_VERSION
    assert caught.value.data == {"supported": ["2026-07-28"], "requested": version}
    meta.require_spoken("2026-07-28")


def test_metadata_of_null_is_none_where_some_is_added_or_taken_away() -> None:
    params = b'{"a":1,"_meta":null}'
    stamped = meta.with_meta(params, "x", b"1")
    assert json.loads(stamped) == {"a": 1, "_meta": {"x": 1}}
    full = meta.with_request_metadata(
        params, version="2026-07-28", capabilities=b"{}", client_info=b"", log_level=b""
    )
    assert json.loads(meta.without_request_metadata(full)) == {"a": 1}
    assert json.loads(meta.without_request_metadata(params)) == {"a": 1}
    assert meta.without_meta(params, "x") == params


@pytest.mark.parametrize(
    ("params", "named"),
    [
        (b'{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}', True),
        (b'{"_meta":{"io.modelcontextprotocol\\/protocolVersion":"2026-07-28"}}', True),
        (b'{"_meta":{"io.modelcontextprotocol/protocol\\u0056ersion":7}}', True),
        (b'{"a":"io.modelcontextprotocol/protocolVersion"}', False),
        (b'{"_meta":{"x":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}', False),
        (b'{"a":"io.modelcontextprotocol/protocolVersion","_meta":[]}', False),
        (b'{"a":"\\u0020","b":"\\/"}', False),
        (b"", False),
    ],
)
def test_only_metadata_names_the_revision_of_a_request(params: bytes, named: bool) -> None:
    assert meta.names_revision(params) is named
