"""A compressed stream is a stream: what a server says reaches its client at once, not when it is worth it."""

from __future__ import annotations

import http.client
import json
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
import zstandard
from tests.e2e.conftest import SERVERS, Harbour
from tests.support.channels import http_request
from tests.support.peers import StreamablePeer, tool_params

Json = dict[str, Any]
DECODERS: dict[str, Callable[[], Any]] = {
    "gzip": lambda: zlib.decompressobj(wbits=31),
    "zstd": lambda: zstandard.ZstdDecompressor().decompressobj(),
}


def messages(response: http.client.HTTPResponse, coding: str) -> Iterator[Json]:
    """As they arrive; nothing is asked for that has not been sent yet."""
    decoder, text = DECODERS[coding](), b""
    while data := response.read1(65_536):
        text += decoder.decompress(data)
        *events, text = text.split(b"\n\n")
        for event in events:
            lines = [line[5:].strip() for line in event.split(b"\n") if line.startswith(b"data:")]
            if any(lines):
                yield json.loads(b"\n".join(lines))


@pytest.mark.parametrize("coding", DECODERS)
@pytest.mark.parametrize("server", SERVERS)
def test_a_question_in_a_compressed_stream_can_be_answered(
    harbour: Harbour, server: str, coding: str
) -> None:
    """The call goes on only when its question was read: a stream that holds anything back would hang."""
    handlers = {"elicitation/create": lambda _: {}}
    with StreamablePeer(harbour.gateway, server, handlers=handlers) as peer:
        headers = {
            **peer.headers_for({}),
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "Accept-Encoding": coding,
        }
        call = {"jsonrpc": "2.0", "id": 77, "method": "tools/call"}
        params = tool_params("ask", {"kind": "elicitation"}, progressToken="p")
        connection = http.client.HTTPConnection(harbour.gateway.host, harbour.gateway.port, timeout=20)
        with closing(connection):
            connection.request("POST", f"/mcp/{server}", json.dumps({**call, "params": params}), headers)
            response = connection.getresponse()
            assert response.getheader("Content-Encoding") == coding
            for message in messages(response, coding):
                if message.get("method") == "elicitation/create":
                    answer = {"action": "accept", "content": {"colour": "blue"}}
                    reply = {"jsonrpc": "2.0", "id": message["id"], "result": answer}
                    assert http_request(peer.channel.url, "POST", reply, peer.headers_for({})).status == 202
                elif message.get("id") == 77:
                    assert message["result"]["structuredContent"]["heard"]["content"] == {"colour": "blue"}
                    return
    pytest.fail("the call was not answered")
