"""Claims about finding the members of an object whose bytes come in pieces."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import Raw

from mooring.errors import InvalidRequest, ParseFailed, RpcError
from mooring.protocol.spans import MAX_DEPTH, MAX_MEMBERS, SHORT_BYTES, ObjectScanner

texts = st.text(st.sampled_from('ab"\\{}[],: é😀\n\u2028'), max_size=12)
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)
objects = st.dictionaries(st.sampled_from(["jsonrpc", "id", "result"]) | texts, values, max_size=6)
cuts = st.lists(st.integers(1, 30), min_size=1, max_size=10)
styles = st.tuples(st.booleans(), st.sampled_from([None, 1]))


def scanned(data: bytes, sizes: list[int], inside: str | None = None) -> ObjectScanner:
    scanner = ObjectScanner(inside)
    place, turn = 0, 0
    while place < len(data):
        size = sizes[turn % len(sizes)]
        scanner.feed(data[place : place + size])
        place, turn = place + size, turn + 1
    scanner.finish()
    return scanner


def slices(data: bytes, scanner: ObjectScanner) -> dict[str, bytes]:
    return {name: data[span.start : span.end] for name, span in scanner.members.items()}


def strictly(data: bytes) -> dict[str, bytes]:
    return {name: bytes(raw) for name, raw in msgspec.json.decode(data, type=dict[str, Raw]).items()}


@given(objects, cuts, styles)
@example({"result": {"a": '\\"}', "b": [[{}], "]"]}, "id": '"'}, [1], (True, None))
def test_every_member_is_found_wherever_the_bytes_are_cut(
    value: dict[str, Any], sizes: list[int], style: tuple[bool, int | None]
) -> None:
    data = json.dumps(value, ensure_ascii=style[0], indent=style[1]).encode()
    found = scanned(data, sizes, "result")
    assert slices(data, found) == strictly(data)
    if isinstance(value.get("result"), dict):
        assert found.inner is not None
        assert slices(data, found.inner) == strictly(strictly(data)["result"])
    else:
        assert found.inner is None
    for name, raw in strictly(data).items():
        is_plain = raw[:1] not in b"{["
        assert found.short.get(name) == (raw if is_plain and len(raw) <= SHORT_BYTES else None)


@given(st.binary(max_size=40) | st.text(st.sampled_from('{}[]":,\\ 1a'), max_size=30).map(str.encode), cuts)
def test_what_is_taken_for_an_object_is_the_same_however_it_is_cut(data: bytes, sizes: list[int]) -> None:
    outcomes: list[object] = []
    for cut in (sizes, [len(data) or 1]):
        try:
            outcomes.append(slices(data, scanned(data, cut, "result")))
        except RpcError as error:
            outcomes.append(type(error))
    assert outcomes[0] == outcomes[1]
    try:
        expected = strictly(data) if data.lstrip()[:1] == b"{" else None
    except (msgspec.DecodeError, UnicodeDecodeError):
        expected = None
    if expected is not None:
        assert outcomes[0] == expected, "every object that a decoder takes is taken"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[1]",
        b'{"a":1',
        b'{"a":[1}',
        b'{"a":{]}',
        b'{"a":[1]]}',
        b'{"a":1}}',
        b'{"a":1} x',
        b'{"a" 1}',
        b'{"a":}',
        b'{"a":"\xff"}',
        b'{"a":"\xc3',
        b'{"a":1,}',
        b'{"a":1 "b":2}',
    ],
)
def test_what_is_no_object_is_refused(data: bytes) -> None:
    for sizes in ([1], [1000]):
        with pytest.raises(ParseFailed):
            scanned(data, sizes)


def test_a_name_given_twice_counts_once_with_its_last_value() -> None:
    data = b'{"id":1,"result":{"x":1},"id":2,"result":"y"}'
    found = scanned(data, [5], "result")
    assert found.short == {"id": b"2", "result": b'"y"'}
    assert found.inner is None


@pytest.mark.parametrize("sizes", [[7], [10_000]])
def test_depth_and_number_of_members_have_limits(sizes: list[int]) -> None:
    deep = b"[" * (MAX_DEPTH + 10) + b"]" * (MAX_DEPTH + 10)
    with pytest.raises(InvalidRequest, match="deeply"):
        scanned(b'{"a":%b}' % deep, sizes)
    many = b",".join(b'"%d":1' % number for number in range(MAX_MEMBERS + 1))
    with pytest.raises(InvalidRequest, match="members"):
        scanned(b"{%b}" % many, sizes)
    data = b'{"result":{%b},"id":7}' % many
    found = scanned(data, sizes, "result")
    assert found.inner is None, "a result may have many; they are just not listed"
    assert slices(data, found) == strictly(data)
