"""Hostile bytes and hostile cuts through codec and framing; `make fuzz` tries fifty times as many of each."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from mooring.errors import RpcError
from mooring.gateway import tasks, tracing
from mooring.protocol import jsonrpc, meta, routing_headers, subscriptions, translate
from mooring.protocol.lines import LineReader, Message, encode_line
from mooring.protocol.sse import Event, EventReader, EventTooLarge, encode_event

pieces = st.sampled_from(
    [
        *(
            b'{"jsonrpc":"2.0"',
            b',"id":1',
            b',"id":"1"',
            b',"id":null',
            b',"id":1.5',
            b',"id":-',
            b',"id":"\\ud800"',
        ),
        *(
            b',"method":"tools/call"',
            b',"method":5',
            b',"method":null',
            b',"params":{',
            b',"params":[',
            b',"params":null',
        ),
        *(
            b',"result":{}',
            b',"error":{"code":-1,"message":"m"}',
            b',"error":null',
            b'"_meta":{',
            b'"progressToken":0',
        ),
        *(
            b'"name":"x"',
            b'"uri":"\xff"',
            b'"task":{"ttl":1}',
            b'"io.modelcontextprotocol/protocolVersion":"x"',
        ),
        *(
            b'"content":[',
            b'{"type":"audio","data":5}',
            b'"structuredContent":[1]',
            b'"tools":[{"outputSchema":{}}]',
        ),
        *(
            b"{",
            b"}",
            b"[",
            b"]",
            b",",
            b":",
            b'"',
            b"\\",
            b"\\u",
            b"0",
            b"-",
            b"1e9",
            b"true",
            b" ",
            b"\n",
            b"\r",
            b"\0",
        ),
        *(
            b'{"a":' * 300,
            b"[" * 1200,
            b"}" * 300,
            b"9" * 600,
            "é😀".encode(),
            b"\xed\xa0\x80",
            b"\xef\xbb\xbf",
        ),
        *(
            b"data: ",
            b"data:",
            b"id: 1\n",
            b"retry: 5\n",
            b"event: x\n",
            b": comment\n",
            b"\n\n",
            b"\r\n",
            b"\r\r",
        ),
    ]
)
streams = st.lists(pieces | st.binary(max_size=5), max_size=25).map(b"".join)
cuts = st.lists(st.integers(1, 40), min_size=1, max_size=8)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**25), 10**25) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
messages = st.builds(
    lambda method, params: {"jsonrpc": "2.0", "method": method, "params": params},
    texts,
    st.dictionaries(texts, values, max_size=3),
)


def cut(stream: bytes, sizes: list[int]) -> list[bytes]:
    parts, start, turn = [], 0, 0
    while start < len(stream):
        parts.append(stream[start : start + sizes[turn % len(sizes)]])
        start, turn = start + sizes[turn % len(sizes)], turn + 1
    return parts


def attempt(work: Callable[..., Any], *arguments: Any) -> Any:
    """An error of ours is an answer; anything else is a bug."""
    try:
        return work(*arguments)
    except RpcError as error:
        json.loads(error.encode())
        return None


@settings(max_examples=300)
@given(streams)
@example(b'{"jsonrpc":"2.0","id":"\xff","method":"m"}')
@example(b'{"jsonrpc":"2.0","id":1,"method":"m","\xff":1}')
def test_bytes_of_any_kind_are_read_or_refused(data: bytes) -> None:
    if jsonrpc.is_batch(data):
        for raw in attempt(jsonrpc.split_batch, data) or ():
            attempt(jsonrpc.decode, raw)
    envelope = attempt(jsonrpc.decode, data)
    if envelope is None:
        return
    if envelope.id:
        key = jsonrpc.id_key(envelope.id)
        assert type(key) in (int, str)
    if envelope.method is not None:
        forwarded = attempt(jsonrpc.forwardable, data, envelope)
        if forwarded is not None:
            again = jsonrpc.decode(forwarded)
            assert (again.method, bytes(again.id), bytes(again.params)) == (
                envelope.method,
                bytes(envelope.id),
                bytes(envelope.params),
            )
    read_everything(bytes(envelope.params or envelope.result or envelope.error))


def read_everything(raw: bytes) -> None:
    """Whatever is done with params, results and errors without looking at their types first."""
    params = attempt(meta.read_params, raw)
    if params is not None:
        attempt(meta.read_meta, params)
        attempt(meta.text, params.name)
    attempt(meta.without_request_metadata, raw)
    attempt(meta.with_meta, raw, "a/b", b"1")
    attempt(tasks.wish_of, raw)
    subscriptions.subject_of(raw)


@settings(max_examples=200)
@given(streams)
def test_bytes_of_any_kind_can_be_traced_and_redacted_twice(data: bytes) -> None:
    once = tracing.redact(data)
    assert tracing.redact(once) == once
    tracing.Tracer("x").message("client", "in", "", data)


@settings(max_examples=200)
@given(
    st.sampled_from(["tools/list", "tools/call", "prompts/get"]),
    st.dictionaries(texts, values, max_size=3),
    st.data(),
)
def test_results_of_any_shape_are_carried_or_refused(
    method: str, result: dict[str, Any], data: st.DataObject
) -> None:
    for name in ("tools", "content", "messages", "structuredContent", "resultType"):
        if data.draw(st.booleans()):
            result[name] = data.draw(values)
    raw = json.dumps(result).encode()
    for target in ("2024-11-05", "2025-06-18", "2025-11-25", "2026-07-28"):
        carried = attempt(translate.result, method, raw, target)
        if carried is not None:
            assert isinstance(json.loads(carried), dict)
        json.loads(translate.error(method, raw, "2026-07-28", target))


@settings(max_examples=200)
@given(st.lists(messages, max_size=5), st.lists(st.binary(max_size=9), max_size=5), cuts)
def test_messages_survive_lines_of_noise_and_any_cut(
    sent: list[dict[str, Any]], noise: list[bytes], sizes: list[int]
) -> None:
    stream = b""
    for number, message in enumerate(sent):
        if number < len(noise):
            stream += b"#" + noise[number].replace(b"\n", b"") + b"\n"
        stream += encode_line(json.dumps(message, indent=number % 2 or None).encode())
    reader = LineReader(1 << 20)
    lines = [line for part in cut(stream, sizes) for line in reader.feed(part)] + reader.finish()
    read = [jsonrpc.decode(line.data) for line in lines if isinstance(line, Message)]
    assert [(envelope.method, json.loads(bytes(envelope.params))) for envelope in read] == [
        (message["method"], message["params"]) for message in sent
    ]


@settings(max_examples=200)
@given(st.lists(messages, max_size=5), st.integers(0, 3), cuts)
def test_messages_survive_an_event_stream_and_any_cut(
    sent: list[dict[str, Any]], retry: int, sizes: list[int]
) -> None:
    stream = b"".join(
        b": ping\n\n"
        + encode_event(json.dumps(message, indent=retry or None).encode(), id=b"%d" % number, retry=retry)
        for number, message in enumerate(sent)
    )
    reader = EventReader(1 << 20)
    events = [event for part in cut(stream, sizes) for event in reader.feed(part)]
    assert [json.loads(event.data) for event in events if isinstance(event, Event)] == sent
    assert [event.id for event in events] == [str(number) for number in range(len(sent))]


@settings(max_examples=200)
@given(streams, cuts, st.integers(1, 200))
def test_framing_of_any_bytes_is_the_same_however_they_are_cut(
    data: bytes, sizes: list[int], limit: int
) -> None:
    def lines(parts: list[bytes]) -> list[Any]:
        reader = LineReader(limit)
        return [line for part in parts for line in reader.feed(part)] + reader.finish()

    def events(parts: list[bytes]) -> tuple[list[Any], bool]:
        reader, seen = EventReader(limit), []
        try:
            for part in parts:
                seen += reader.feed(part)
        except EventTooLarge as error:
            return seen + error.events, True
        return seen, False

    parts = cut(data, sizes)
    assert lines(parts) == lines([data])
    assert events(parts) == events([data])


@settings(max_examples=200)
@given(values)
def test_schemas_of_any_shape_have_annotations_or_break_a_rule(schema: object) -> None:
    def disguised(value: object) -> object:
        """The same with some names that mean something."""
        words = ["properties", "x-mcp-header", "type", "items", "default"]
        if isinstance(value, dict):
            return {words[len(key) % len(words)]: disguised(inner) for key, inner in value.items()}
        return [disguised(inner) for inner in value] if isinstance(value, list) else value

    for shape in (schema, disguised(schema)):
        try:
            found = routing_headers.annotated(shape)
        except routing_headers.InvalidHeaderAnnotation:
            continue
        assert all(path and name for path, name in found.items())
