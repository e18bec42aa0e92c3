"""Claims about the JSON-RPC envelope."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mooring.errors import INVALID_REQUEST, PARSE_ERROR, RpcError
from mooring.protocol import jsonrpc
from mooring.protocol.jsonrpc import MAX_ID_BYTES

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
scalars = st.none() | st.booleans() | st.integers(-(10**20), 10**20) | texts
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(texts, values, max_size=4)
ids = st.integers(-(10**30), 10**30) | texts
blanks = st.text(" \t\r\n", max_size=2)
envelope_names = st.sampled_from(["jsonrpc", "id", "method", "params", "other", "Method", "_meta", ""])


def compact(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def first_wins(data: bytes) -> dict[str, Any]:
    def keep_first(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for name, value in pairs:
            kept.setdefault(name, value)
        return kept

    return json.loads(data, object_pairs_hook=keep_first)


@st.composite
def spelled_strings(draw: st.DrawFn, text: str) -> str:
    """A JSON string with some of its characters escaped for no reason."""
    quoted = json.dumps(text)
    if quoted.isascii() and "\\" not in quoted and text and draw(st.booleans()):
        at = draw(st.integers(0, len(text) - 1))
        return f'"{text[:at]}\\u{ord(text[at]):04x}{text[at + 1 :]}"'
    return quoted


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    """A legal request or notification with any white space, order, further members and repeated names.

    The last of each name is legal; those before it may be anything.
    """
    last: list[tuple[str, object]] = [("jsonrpc", "2.0"), ("method", draw(texts))]
    if draw(st.booleans()):
        last.append(("id", draw(ids)))
    if draw(st.booleans()):
        last.append(("params", draw(objects)))
    last = draw(st.permutations(last))
    pairs: list[tuple[str, object]] = []
    for pair in last:
        for _ in range(draw(st.integers(0, 1))):
            name = draw(envelope_names)
            legal_later = any(other == name for other, _ in last[last.index(pair) :])
            if legal_later or name not in {"jsonrpc", "id", "method", "params"}:
                pairs.append((name, _of_the_right_type(draw, name)))
        pairs.append(pair)
    around = [draw(blanks) for _ in range(4)]
    body = ",".join(
        f"{around[0]}{draw(spelled_strings(name))}{around[1]}:{around[2]}{json.dumps(value)}{around[3]}"
        for name, value in pairs
    )
    return f"{around[0]}{{{body}}}{around[1]}".encode()


def _of_the_right_type(draw: st.DrawFn, name: str) -> object:
    return draw(texts if name in {"jsonrpc", "method"} else values)


@given(messages())
@example(b'{"jsonrpc":"2.0","method":"a","id":1,"method":"b"}')
@example(b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{},"m\\u0065thod":"tools/call"}')
@example(b'{"jsonrpc":"2.0","id":1,"method":"a","params":{"n":1},"params":null}')
def test_every_parser_reads_from_the_forwarded_bytes_what_we_read(data: bytes) -> None:
    envelope = jsonrpc.decode(data)
    forwarded = jsonrpc.forwardable(data, envelope)
    for reading in (json.loads(forwarded), first_wins(forwarded)):
        assert reading["jsonrpc"] == "2.0"
        assert reading["method"] == envelope.method
        assert ("id" in reading) == bool(envelope.id)
        if envelope.id:
            assert reading["id"] == jsonrpc.id_key(envelope.id)
            assert type(reading["id"]) is type(jsonrpc.id_key(envelope.id))
        params = json.loads(bytes(envelope.params)) if envelope.params else None
        assert reading.get("params") == params
    assert json.loads(forwarded) == json.loads(data), "unknown members stay"


@given(st.text("abc/_-. 1", max_size=12), st.none() | ids, st.none() | objects, st.randoms())
def test_a_compact_message_goes_on_untouched(
    method: str, request_id: int | str | None, params: dict[str, Any] | None, random: Any
) -> None:
    parts: list[tuple[str, object]] = [("jsonrpc", "2.0"), ("method", method)]
    if request_id is not None:
        parts.append(("id", request_id))
    if params is not None:
        parts.append(("params", params))
    random.shuffle(parts)
    data = compact(dict(parts))
    assert jsonrpc.forwardable(data, jsonrpc.decode(data)) is data


def test_the_slices_of_a_spaced_message_keep_their_spelling() -> None:
    data = b'{ "jsonrpc": "2.0", "id": 7, "x": 1.50, "method": "m", "params": {"a": 1e2,  "b":null} }'
    forwarded = jsonrpc.forwardable(data, jsonrpc.decode(data))
    assert forwarded == b'{"jsonrpc":"2.0","id":7,"x":1.50,"method":"m","params":{"a": 1e2,  "b":null}}'


@given(ids, texts, objects)
def test_a_request_survives_being_written_and_read(
    request_id: int | str, method: str, params: dict[str, Any]
) -> None:
    raw = compact(params)
    envelope = jsonrpc.decode(jsonrpc.request(compact(request_id), method, raw))
    assert envelope.is_request
    assert not envelope.is_notification
    assert not envelope.is_response
    assert (jsonrpc.id_key(envelope.id), envelope.method, bytes(envelope.params)) == (request_id, method, raw)


@given(texts, objects)
def test_a_notification_survives_being_written_and_read(method: str, params: dict[str, Any]) -> None:
    envelope = jsonrpc.decode(jsonrpc.notification(method, compact(params)))
    assert envelope.is_notification
    assert not envelope.is_request
    assert (envelope.method, json.loads(bytes(envelope.params))) == (method, params)
    assert not jsonrpc.decode(jsonrpc.notification(method)).params


@given(ids, values)
def test_answers_survive_being_written_and_read(request_id: int | str, value: object) -> None:
    written = jsonrpc.result(compact(request_id), compact(value))
    envelope = jsonrpc.decode(written)
    assert envelope.is_response
    assert jsonrpc.id_key(envelope.id) == request_id
    assert bytes(envelope.result) == compact(value)
    failure = jsonrpc.decode(jsonrpc.error(compact(request_id), b'{"code":-1,"message":"m"}'))
    assert failure.is_response
    assert bytes(failure.error) == b'{"code":-1,"message":"m"}'


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"   ",
        b"nonsense",
        b"{",
        b'{"jsonrpc":"2.0","id":1,"method":"m"',
        b'{"jsonrpc":"2.0","id":1,"method":"m"} {}',
        b"{'jsonrpc':'2.0'}",
        b'{"jsonrpc":"2.0","id":01,"method":"m"}',
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":NaN}}',
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":"\\q"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":"\n"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1,}}',
        b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"m"}',
        b'{"jsonrpc":"2.0","id":1,"method":"\xff"}',
        b'{"jsonrpc":"2.0","id":"\xff","method":"m"}',
        '{"jsonrpc":"2.0","id":1,"method":"m"}'.encode("utf-16"),
    ],
)
def test_what_is_not_json_is_a_parse_error(data: bytes) -> None:
    with pytest.raises(RpcError) as caught:
        jsonrpc.decode(data)
    assert caught.value.code == PARSE_ERROR


@pytest.mark.parametrize(
    "data",
    [
        b"null",
        b"1",
        b'"text"',
        b"[]",
        b"{}",
        b'{"id":1,"method":"m"}',
        b'{"jsonrpc":"1.0","id":1,"method":"m"}',
        b'{"jsonrpc":2.0,"id":1,"method":"m"}',
        b'{"jsonrpc":"2.0"}',
        b'{"jsonrpc":"2.0","id":1}',
        b'{"jsonrpc":"2.0","id":1,"method":5}',
        b'{"jsonrpc":"2.0","id":1,"method":["m"]}',
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":[1]}',
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":"p"}',
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":5}',
        b'{"jsonrpc":"2.0","id":1,"method":"m","result":{}}',
        b'{"jsonrpc":"2.0","id":1,"method":"m","error":{}}',
        b'{"jsonrpc":"2.0","id":1,"result":{},"error":{}}',
        b'{"jsonrpc":"2.0","result":{}}',
        b'{"jsonrpc":"2.0","id":null,"result":{}}',
    ],
)
def test_json_that_is_no_message_is_an_invalid_request(data: bytes) -> None:
    with pytest.raises(RpcError) as caught:
        jsonrpc.decode(data)
    assert caught.value.code == INVALID_REQUEST


@pytest.mark.parametrize(
    "raw",
    [
        *(b"null", b"true", b"false", b"1.0", b"1.5", b"-1.0", b"1e3", b"1E3", b"[1]", b'{"a":1}', b"[]"),
        b"9" * (MAX_ID_BYTES + 1),
        b'"' + b"a" * MAX_ID_BYTES + b'"',
    ],
)
def test_only_strings_and_integers_of_some_length_are_ids(raw: bytes) -> None:
    with pytest.raises(RpcError) as caught:
        jsonrpc.decode(b'{"jsonrpc":"2.0","id":%b,"method":"m"}' % raw)
    assert caught.value.code == INVALID_REQUEST
    assert not jsonrpc.is_request_id(raw)


@pytest.mark.parametrize(
    ("raw", "key"),
    [
        (b"0", 0),
        (b"-0", 0),
        (b"-7", -7),
        (b"12345678901234567890", 12345678901234567890),
        (b"9" * MAX_ID_BYTES, int("9" * MAX_ID_BYTES)),
        (b'""', ""),
        (b'"1"', "1"),
        (b'"true"', "true"),
        (b'"' + b"a" * (MAX_ID_BYTES - 2) + b'"', "a" * (MAX_ID_BYTES - 2)),
    ],
)
def test_ids_keep_their_type_value_and_spelling(raw: bytes, key: int | str) -> None:
    envelope = jsonrpc.decode(b'{"jsonrpc":"2.0","id":%b,"method":"m"}' % raw)
    assert bytes(envelope.id) == raw
    assert jsonrpc.id_key(envelope.id) == key
    assert type(jsonrpc.id_key(envelope.id)) is type(key)


def test_two_spellings_of_a_string_are_one_id_but_a_number_is_another() -> None:
    assert jsonrpc.id_key(b'"a/1"') == jsonrpc.id_key(b'"\\u0061\\/1"')
    assert jsonrpc.id_key(b"1") != jsonrpc.id_key(b'"1"')


def test_an_error_may_come_without_an_id_or_with_null_and_we_write_it_without() -> None:
    for spelling in (b'"id":null,', b""):
        envelope = jsonrpc.decode(b'{"jsonrpc":"2.0",%b"error":{"code":-32700,"message":"m"}}' % spelling)
        assert not envelope.id
        assert envelope.is_response
    assert "id" not in json.loads(jsonrpc.error(b"", b"{}"))


def test_params_of_null_count_as_none() -> None:
    assert not jsonrpc.decode(b'{"jsonrpc":"2.0","id":1,"method":"m","params":null}').params


@pytest.mark.parametrize("opener", [b'{"a":', b"["])
def test_deep_nesting_is_refused_not_crashed_on(opener: bytes) -> None:
    closer = b"}" if opener == b'{"a":' else b"]"
    deep = opener * 100_000 + b"1" + closer * 100_000
    for message in (
        b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":%b}}' % deep,
        b'{"jsonrpc":"2.0","id":1,"method":"m","unknown":%b}' % deep,
    ):
        with pytest.raises(RpcError) as caught:
            jsonrpc.decode(message)
        assert caught.value.code == INVALID_REQUEST
    with pytest.raises(RpcError):
        jsonrpc.split_batch(b"[%b]" % deep)
    with pytest.raises(RpcError):
        jsonrpc.members(b'{"a":%b}' % deep)


def test_a_message_too_deep_for_where_it_is_written_anew_is_refused() -> None:
    """Nesting is bounded by the stack: what could just be read may be too deep a few calls further down."""

    def deeper(calls: int, data: bytes, envelope: jsonrpc.Envelope) -> bytes:
        return deeper(calls - 1, data, envelope) if calls else jsonrpc.forwardable(data, envelope)

    data = b'{"jsonrpc":"2.0", "id":1,"method":"m","params":%b1%b}' % (b'{"a":' * 600, b"}" * 600)
    envelope = jsonrpc.decode(data)
    assert jsonrpc.forwardable(data, envelope) == data.replace(b" ", b"")
    with pytest.raises(RpcError):
        deeper(400, data, envelope)


@given(st.lists(objects, min_size=1, max_size=4), blanks, blanks)
def test_a_batch_is_split_into_its_messages(batch: list[dict[str, Any]], before: str, between: str) -> None:
    body = f",{between}".join(json.dumps(message) for message in batch)
    data = f"{before}[{between}{body}]".encode()
    assert jsonrpc.is_batch(data)
    assert [json.loads(bytes(raw)) for raw in jsonrpc.split_batch(data)] == batch


def test_one_message_is_no_batch() -> None:
    assert not jsonrpc.is_batch(b' {"jsonrpc":"2.0","method":"m","params":{"a":[1]}}')
    assert not jsonrpc.is_batch(b"")


@pytest.mark.parametrize(
    ("data", "code"), [(b"[]", INVALID_REQUEST), (b"[ ]", INVALID_REQUEST), (b"[1", PARSE_ERROR)]
)
def test_an_empty_batch_is_invalid_and_a_broken_one_does_not_parse(data: bytes, code: int) -> None:
    with pytest.raises(RpcError) as caught:
        jsonrpc.split_batch(data)
    assert caught.value.code == code


def test_a_broken_message_in_a_batch_spoils_only_itself() -> None:
    good, bad = jsonrpc.split_batch(b'[{"jsonrpc":"2.0","id":1,"method":"m"},7]')
    assert jsonrpc.decode(good).method == "m"
    with pytest.raises(RpcError):
        jsonrpc.decode(bad)


@given(st.binary(max_size=40))
def test_text_is_checked_as_python_checks_it(data: bytes) -> None:
    try:
        data.decode()
    except UnicodeDecodeError:
        with pytest.raises(RpcError) as caught:
            jsonrpc.check_text(data)
        assert caught.value.code == PARSE_ERROR
    else:
        jsonrpc.check_text(data)


@pytest.mark.parametrize("text", [b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82"])
def test_overlong_surrogate_and_cut_forms_are_not_text(text: bytes) -> None:
    with pytest.raises(RpcError):
        jsonrpc.check_text(b'{"a":"%b"}' % text)


@given(objects)
def test_an_object_taken_apart_and_put_together_is_the_same(value: dict[str, Any]) -> None:
    again = json.loads(jsonrpc.assemble(jsonrpc.members(compact(value))))
    assert list(again.items()) == list(value.items())


def test_no_object_has_no_members_and_anything_else_is_refused() -> None:
    assert jsonrpc.members(b"") == {}
    for raw in (b"[]", b"null", b"1", b"{", b'{"\xff":1}'):
        with pytest.raises(RpcError):
            jsonrpc.members(raw)
