"""Claims about half characters in strings: passed on as they came, refused where we must read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.errors import InvalidParams, InvalidRequest, ParseFailed
from mooring.protocol import jsonrpc, meta, surrogates

HALVES = [rb"\ud800", rb"\uDFFF", rb"x\udc00y", rb"\ud83d\ud83d\ude00", rb"\ude00\ud83d", rb"\\\ud800\\"]
LEGAL = [rb"\ud83d\ude00", rb"\\ud800", rb"\\\\ud800", rb"\u00e9\u2028", "é😀".encode(), b"plain"]


@pytest.mark.parametrize("text", HALVES)
def test_a_request_with_half_a_character_in_its_params_is_read_and_its_bytes_are_kept(text: bytes) -> None:
    params = b'{"name":"t", "arguments" : {"a":["%b"],"%b":1},"_meta":{"progressToken":3,"v":"%b"}}' % (
        text,
        text,
        text,
    )
    data = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":%b}' % params
    envelope = jsonrpc.decode(data)
    assert (envelope.method, bytes(envelope.id), bytes(envelope.params)) == ("tools/call", b"1", params)
    assert jsonrpc.forwardable(data, envelope) == data
    read = meta.read_params(envelope.params)
    assert meta.text(read.name) == "t"
    assert bytes(meta.read_meta(read).progress_token) == b"3"
    changed = meta.with_meta(envelope.params, "progressToken", b"4")
    assert b'{"a":["%b"],"%b":1}' % (text, text) in changed
    assert b'"v":"%b"' % text in changed
    assert jsonrpc.decode_plain_request(data) is None


@pytest.mark.parametrize("text", HALVES)
def test_a_result_and_an_error_keep_it_and_so_does_a_batch(text: bytes) -> None:
    result = b'{"jsonrpc":"2.0","id":"a","result":{"content":[{"type":"text","text":"%b"}]}}' % text
    error = b'{"jsonrpc":"2.0","id":2,"error":{"code":-1,"message":"%b"}}' % text
    assert text in bytes(jsonrpc.decode(result).result)
    assert text in bytes(jsonrpc.decode(error).error)
    found = jsonrpc.split_batch(b"[ %b , %b,%b ]" % (result, error, error))
    assert [bytes(raw) for raw in found] == [result, error, error]
    assert jsonrpc.result_of(result, jsonrpc.decode(result).id) is None, "the long way sees to it"


@pytest.mark.parametrize(
    "message",
    [
        rb'{"jsonrpc":"2.0","id":"\ud800","method":"ping"}',
        rb'{"jsonrpc":"2.0","id":1,"method":"\ud800"}',
        rb'{"jsonrpc":"2.0","id":1,"method":"ping","\ud800":1}',
        rb'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\ud800",}}',
        rb'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\ud80"}}',
        rb'{"jsonrpc":"2.0","id":1,"method":7,"params":{"a":"\ud800"}}',
        rb'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\ud800"}} x',
    ],
)
def test_what_we_must_read_has_to_be_text_and_the_rest_has_to_be_json(message: bytes) -> None:
    with pytest.raises((InvalidRequest, ParseFailed)):
        jsonrpc.decode(message)


def test_a_name_that_is_no_text_is_refused_where_the_object_is_written_anew() -> None:
    with pytest.raises(InvalidRequest):
        jsonrpc.members(rb'{"\ud800":1}')
    with pytest.raises(InvalidParams):
        meta.read_params(rb'{"\ud800":1}')


@pytest.mark.parametrize("text", LEGAL)
def test_whole_characters_are_left_alone(text: bytes) -> None:
    assert surrogates.readable(b'"%b"' % text) is None


@given(
    st.lists(st.sampled_from(HALVES + LEGAL), max_size=8).map(b"".join), st.lists(st.integers(), max_size=5)
)
def test_the_copy_is_as_long_and_decodes_to_the_same_but_for_the_halves(
    text: bytes, numbers: list[int]
) -> None:
    whole = b'{"text":"%b","numbers":%b}' % (text, json.dumps(numbers).encode())
    copy = surrogates.readable(whole)
    if copy is not None:
        assert len(copy) == len(whole)

    def readable(value: Any) -> str:
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    found = json.loads(copy or whole)
    assert found["numbers"] == numbers
    assert found["text"].replace("\ufffd", "") == readable(json.loads(whole)["text"]).replace("\ufffd", "")
