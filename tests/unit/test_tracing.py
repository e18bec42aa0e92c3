"""Claims about what a trace shows, and what it never shows."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mooring.gateway import tracing
from mooring.gateway.tracing import HISTORY, SHOWN_BYTES, Tracer, redact

SECRET = "hunter2-squeamish"
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
secret_names = st.sampled_from(
    [
        "password",
        "Authorization",
        "api_key",
        "apiKey",
        "API-KEY",
        "client_secret",
        "accessToken",
        "token",
        "Set-Cookie",
    ]
) | st.sampled_from(["private_key", "credentials", "passwd", "my secret thing"])
plain_names = st.sampled_from(["name", "text", "uri", "progressToken", "maxTokens", "cursor", "über"])
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["x", 'quote " and \\', "line\nbreak", "é"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(plain_names, inner, max_size=3),
    max_leaves=6,
)
secrets = st.sampled_from(
    [SECRET, SECRET + '"', SECRET + "\\", f'"{SECRET}', [SECRET], [SECRET, SECRET + "]"], f"é{SECRET}\n"]
)
guarded = st.recursive(
    st.dictionaries(plain_names, plain, max_size=2),
    lambda inner: (
        st.dictionaries(plain_names, inner, max_size=2)
        | st.builds(lambda value, name, secret: {**value, name: secret}, inner, secret_names, secrets)
        | st.builds(lambda value: {"text": json.dumps(value)}, inner)
        | st.lists(inner, max_size=2).map(lambda items: {"items": items})
    ),
    max_leaves=5,
)


@given(guarded, st.sampled_from([None, 1]), st.booleans())
def test_no_secret_is_shown_and_json_stays_json(
    value: dict[str, Any], indent: int | None, ascii_only: bool
) -> None:
    data = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode()
    assume(_depth(value) <= 3)
    shown = redact(data)
    assert SECRET.encode() not in shown
    json.loads(shown)


def _depth(value: object) -> int:
    """How often JSON is wrapped into a text of JSON."""
    if isinstance(value, dict):
        return max([0, *(_depth(inner) for inner in value.values())])
    if isinstance(value, list):
        return max([0, *(_depth(inner) for inner in value)])
    if isinstance(value, str) and value.startswith("{"):
        return 1 + _depth(json.loads(value))
    return 0


@given(plain)
def test_what_holds_no_secret_is_shown_as_it_is(value: object) -> None:
    data = json.dumps(value).encode()
    assert redact(data) == data


@pytest.mark.parametrize(
    "name", ["progressToken", "nextPageToken", "maxTokens", "max_tokens", "inputTokens", "outputTokens"]
)
@pytest.mark.parametrize("value", [b"5", b'"abc"'])
def test_tokens_of_the_protocol_are_no_secrets(name: str, value: bytes) -> None:
    data = b'{"_meta":{"%b": %b}}' % (name.encode(), value)
    assert redact(data) == data


@pytest.mark.parametrize("number", [b"12345", b"-3", b"1.5", b"-1.5e+10", b"0"])
def test_a_secret_number_is_blotted_out_whole(number: bytes) -> None:
    assert json.loads(redact(b'{"password":%b,"a":1}' % number)) == {"password": "[redacted]", "a": 1}


@pytest.mark.parametrize("value", [b"null", b"true", b"{}", b"[]", b"[1]"])
def test_what_cannot_be_a_secret_is_shown(value: bytes) -> None:
    data = b'{"token":%b}' % value
    assert redact(data) == data


@pytest.mark.parametrize("scheme", ["Bearer", "Basic", "bearer"])
def test_credentials_inside_texts_are_blotted_out(scheme: str) -> None:
    data = json.dumps({"text": f"curl -H 'X: {scheme} abc.def-123456' now"}).encode()
    shown = json.loads(redact(data))
    assert shown == {"text": f"curl -H 'X: {scheme} [redacted]' now"}


def test_a_secret_cut_off_by_the_limit_is_not_shown_in_part() -> None:
    whole = json.dumps({"a": json.dumps({"password": SECRET}), "api_key": SECRET}).encode()
    for cut in range(len(whole)):
        shown = redact(whole[:cut])
        assert b"hunter2" not in shown, shown


def test_noise_with_stray_quotes_is_redacted_too() -> None:
    assert SECRET.encode() not in redact(b'5" disk {"password": "%b"}' % SECRET.encode())
    assert SECRET.encode() not in redact(b'{"password": "%b' % SECRET.encode())


@pytest.mark.parametrize(
    "hostile",
    [
        b'{"a":"' + b'\\"' * (SHOWN_BYTES // 2),
        b'{"a":"token' + b'\\"' * (SHOWN_BYTES // 2),
        b'"token' * (SHOWN_BYTES // 6),
        b'"token":[' * (SHOWN_BYTES // 9),
        b'"token":["a",' * (SHOWN_BYTES // 13),
        b'"' * SHOWN_BYTES + b"token",
        b'"token"' + b" " * SHOWN_BYTES,
        b"token" * (SHOWN_BYTES // 5),
        b'{"token":"' + b"\\" * SHOWN_BYTES,
        b"Bearer " + b" " * SHOWN_BYTES,
        b"Bearer " * (SHOWN_BYTES // 7),
    ],
)
def test_a_peer_cannot_make_redaction_slow(hostile: bytes) -> None:
    started = time.process_time()
    redact(hostile)
    assert time.process_time() - started < 1.0


def watched() -> tuple[Tracer, list[dict[str, Any]]]:
    tracer, records = Tracer("files"), []
    tracer.watch(records.append)
    return tracer, records


def test_a_trace_tells_kind_method_id_size_and_time_since_the_request() -> None:
    tracer, records = watched()
    tracer.message("client", "in", "c1", b'{"jsonrpc":"2.0","id":"7","method":"tools/call"}')
    tracer.message("client", "out", "c1", b'{"jsonrpc":"2.0","method":"notifications/progress"}')
    tracer.message("client", "out", "c1", b'{"jsonrpc":"2.0","id":"7","result":{}}', note="done")
    tracer.message("client", "out", "c1", b'{"jsonrpc":"2.0","id":"8","error":{"code":1,"message":"m"}}')
    tracer.message("server", "in", "", b"Traceback: oh no")
    assert [record["kind"] for record in records] == ["request", "notification", "response", "error", "noise"]
    assert [record["method"] for record in records[:2]] == ["tools/call", "notifications/progress"]
    assert [record["id"] for record in records] == ['"7"', None, '"7"', '"8"', None]
    assert records[2]["since_request_ms"] >= 0
    assert records[3]["since_request_ms"] is None, "nobody asked that"
    assert records[2]["note"] == "done"
    assert records[0]["size"] == 48
    assert all(record["server"] == "files" for record in records)


def test_answers_are_matched_with_requests_of_the_same_leg_direction_and_peer() -> None:
    tracer, records = watched()
    tracer.message("client", "in", "c1", b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
    for leg, direction, peer in [("server", "out", "c1"), ("client", "in", "c1"), ("client", "out", "c2")]:
        tracer.message(leg, direction, peer, b'{"jsonrpc":"2.0","id":1,"result":{}}')
    assert [record["since_request_ms"] for record in records] == [None] * 4


def test_a_record_shows_the_head_of_a_large_message_without_its_secrets() -> None:
    tracer, records = watched()
    tracer.message(
        "client",
        "in",
        "",
        b'{"jsonrpc":"2.0","method":"m","params":{"token":"%b","a":"%b"}}'
        % (SECRET.encode(), b"x" * 100_000),
    )
    (record,) = records
    assert SECRET not in record["bytes"]
    assert len(record["bytes"]) <= SHOWN_BYTES
    assert record["size"] > 100_000


def test_those_who_come_late_find_the_last_messages_and_those_who_leave_hear_no_more() -> None:
    tracer, records = watched()
    for number in range(HISTORY + 5):
        tracer.noted("server", "", f"event {number}")
    assert [record["note"] for record in tracer.history()] == [f"event {n}" for n in range(5, HISTORY + 5)]
    tracer.unwatch(records.append)
    assert not tracer.active
    tracer.noted("server", "", "unheard")
    assert len(records) == HISTORY + 5


def test_a_record_is_one_line_of_json_with_or_without_the_bytes() -> None:
    tracer, records = watched()
    tracer.message("client", "in", "p", b'{"jsonrpc":"2.0",\n"method":"m"}')
    with_bytes = tracing.encode_record(records[0], with_bytes=True)
    assert with_bytes.count(b"\n") == 1
    assert json.loads(with_bytes) == records[0]
    assert set(records[0]) - set(json.loads(tracing.encode_record(records[0], with_bytes=False))) == {"bytes"}


@given(st.binary(max_size=200))
def test_any_bytes_can_be_traced(data: bytes) -> None:
    tracer, records = watched()
    tracer.message("server", "in", "", data)
    assert json.loads(tracing.encode_record(records[0], with_bytes=True)) == records[0]
