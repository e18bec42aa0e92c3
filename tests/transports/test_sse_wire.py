"""HTTP+SSE servers that answer on the stream and forget the POST."""

import asyncio
import json
import re

from mooring.protocol.jsonrpc import Envelope
from mooring.transports.http_client import ClientPool, Origin
from mooring.transports.sse_wire import SseWire
from mooring.transports.wire import Answer, Leg


class Events:
    tracing = False

    def on_traffic(self, direction: str, data: bytes) -> None: ...
    def on_unsolicited(self, envelope: Envelope, data: bytes) -> None: ...
    def on_noise(self, data: bytes, why: str) -> None: ...
    def on_lost(self, reason: str) -> None: ...


def ignore(_envelope: Envelope, _data: bytes) -> None: ...


async def ask_a_server_that_never_ends_a_post() -> Answer:
    streams: list[asyncio.StreamWriter] = []
    over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if head.startswith(b"GET"):
            streams.append(writer)
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
            writer.write(b"event: endpoint\ndata: /post\n\n")
        else:
            length = re.search(rb"content-length: (\d+)", head)
            assert length is not None
            message = json.loads(await reader.readexactly(int(length[1])))
            answer = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {}})
            streams[0].write(b"data: %b\n\n" % answer.encode())
        await over.wait()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/sse"
        pool = ClientPool(Origin.of(url))
        wire = SseWire(pool, url, b"", Events(), label="s", max_message_bytes=1 << 20)
        try:
            await wire.open()
            return await asyncio.wait_for(wire.request(Leg("tools/list", b"", ignore)), 3)
        finally:
            await wire.close()
            over.set()


def test_an_answer_on_the_stream_is_not_held_up_by_its_post() -> None:
    answer = asyncio.run(ask_a_server_that_never_ends_a_post())
    assert bytes(answer.result) == b"{}"
