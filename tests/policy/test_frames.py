"""However a server cuts or dresses its lists, what is hidden stays hidden: no frame slips past the rules."""

from __future__ import annotations

import gzip
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.policy.caller import Caller
from tests.policy.shelf import tool
from tests.support.gateway import Gateway, running_gateway

pytestmark = pytest.mark.e2e
Json = dict[str, Any]
POLICY = 'permit(principal, action == Action::"call_tool", resource == Tool::"read");'
STREAM = "text/event-stream"


class Cutter:
    """A server that sends the answer to `tools/list` exactly as the test wants it sent."""

    def __init__(self) -> None:
        self.kind = STREAM
        self.coding: str | None = None
        self.pieces: list[bytes] = []
        self.called: list[str] = []
        cutter = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if message["method"] == "tools/list":
                    self._send(cutter.kind, [piece.replace(b"@@", _id(message)) for piece in cutter.pieces])
                elif "id" not in message:
                    self._head(202, {"Content-Length": "0"})
                else:
                    body = json.dumps(
                        {"jsonrpc": "2.0", "id": message["id"], "result": cutter.answer(message)}
                    )
                    self._send("application/json", [body.encode()])

            def do_GET(self) -> None:
                self._head(405, {"Content-Length": "0"})

            def do_DELETE(self) -> None:
                self._head(200, {"Content-Length": "0"})

            def _send(self, kind: str, pieces: list[bytes]) -> None:
                more = {"Content-Encoding": cutter.coding} if cutter.coding and kind == cutter.kind else {}
                self._head(200, {"Content-Type": kind, "Transfer-Encoding": "chunked", **more})
                for piece in (*pieces, b""):
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                    self.wfile.flush()

            def _head(self, status: int, headers: dict[str, str]) -> None:
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/mcp"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, message: Json) -> Json:
        if message["method"] == "tools/call":
            self.called.append(message["params"]["name"])
            return {"content": []}
        info = {"name": "cutter", "version": "1"}
        return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}


def _id(message: Json) -> bytes:
    return json.dumps(message["id"]).encode()


@pytest.fixture(scope="module", params=["filter", "policy"])
def guarded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Cutter, Gateway]]:
    folder: Path = tmp_path_factory.mktemp("frames")
    (folder / "p.cedar").write_text(POLICY)
    cutter = Cutter()
    upstream = {"url": cutter.url, "transport": "streamable_http", "era": "legacy"}
    entry: Json = {"id": "cut", "upstream": upstream}
    settings: Json = {}
    if request.param == "filter":
        entry["tools"] = {"allow": ["read"]}
    else:
        settings["authorization"] = {"type": "cedarv1", "policies": [str(folder / "p.cedar")]}
    with running_gateway(folder, [entry], **settings) as gateway:
        yield cutter, gateway
    cutter.server.shutdown()
    cutter.server.server_close()


LISTED: Json = {"tools": [tool("secret"), tool("read"), tool("hush", "another secret")]}
ANSWER = b'{"jsonrpc": "2.0", "id": @@, "result": %b}' % json.dumps(LISTED).encode()
HARMLESS = b'{"jsonrpc": "2.0", "id": @@, "result": {"tools": []}}'
EVENT = b"data: %b\n\n" % ANSWER
READ = json.dumps(tool("read")).encode()
LARGE = json.dumps(
    {"tools": [*LISTED["tools"], *(tool(f"secret{n}", "x" * 9_000) for n in range(60))]}
).encode()


def event(members: bytes) -> bytes:
    return b'data: {"jsonrpc":"2.0","id":@@,%b}\n\n' % members


def bytewise(data: bytes) -> list[bytes]:
    """Every byte apart, but for the mark of where the id goes."""
    head, _, tail = data.partition(b"@@")
    return [
        *(head[at : at + 1] for at in range(len(head))),
        b"@@",
        *(tail[at : at + 1] for at in range(len(tail))),
    ]


CUTS: dict[str, list[bytes]] = {
    "one event": [EVENT],
    "one byte at a time": bytewise(EVENT),
    "a data line per word": [b"data: " + ANSWER.replace(b", ", b",\ndata: ") + b"\n\n"],
    "carriage returns": [EVENT.replace(b"\n", b"\r")],
    "all kinds of line ends": [b": x\r\nevent: message\rid: 1\ndata:" + ANSWER + b"\r\n\r\n"],
    "a byte order mark": [b"\xef\xbb\xbf" + EVENT],
    "in the middle of a line end": [b"data: " + ANSWER + b"\r", b"\n\r", b"\n"],
    "after a notification": [
        b'data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}\n\n',
        EVENT,
    ],
    "and the same once more": [EVENT + EVENT],
    "a large one": [event(b'"result":' + LARGE)],
    "a result given twice": [event(b'"result":{"tools":[{"name":"secret"}]},"result":{"tools":[%b]}' % READ)],
    "tools given twice": [event(b'"result":{"tools":[{"name":"secret"}],"tools":[%b]}' % READ)],
    "a name given twice": [event(b'"result":{"tools":[{"name":"secret","name":"read"}]}')],
    "a text given twice": [
        event(b'"result":{"tools":[{"name":"read","x":[{"description":"secret","description":""}]}]}')
    ],
    "an escaped key": [EVENT.replace(b'"tools"', b'"t\\u006fols"')],
}  # fmt: skip
"""Strange, and yet a list: it is shown, without what is hidden."""

LIES: dict[str, list[bytes]] = {
    "an event that is no message": [b'data: {"tools": [{"name": "secret"}]}\n\n', EVENT],
    "the answer to something else": [EVENT.replace(b"@@", b'"other"'), EVENT],
    "a second answer": [b"data: %b\n\n" % HARMLESS, EVENT],
    "answers in a batch": [b"data: [%b]\n\n" % ANSWER],
    "an answer with an error, too": [
        EVENT.replace(b'"result"', b'"error":{"code":1,"message":"no"},"result"')
    ],
    "an error that tells": [
        event(b'"error":{"code":1,"message":"no"},"result":{"tools":[{"name":"secret"}]}')
    ],
    "an event that does not end": [EVENT.rstrip()],
    "a list that is no list": [event(b'"result":{"tools":{"0":{"name":"secret"}}}')],
    "a name that is no name": [event(b'"result":{"tools":[{"name":["secret"]},{"description":"secret"}]}')],
}
"""What no client may be shown as it came: nothing of it, or only what is not hidden."""


@pytest.mark.parametrize("cut", CUTS)
def test_a_list_is_judged_however_it_is_cut(guarded: tuple[Cutter, Gateway], cut: str) -> None:
    cutter, gateway = guarded
    cutter.kind, cutter.pieces = STREAM, CUTS[cut]
    said = listed(gateway)
    assert [entry["name"] for entry in said.result["tools"]] == ["read"]
    assert b"secret" not in said.body


@pytest.mark.parametrize("lie", LIES)
def test_nothing_hidden_is_told_beside_the_list(guarded: tuple[Cutter, Gateway], lie: str) -> None:
    cutter, gateway = guarded
    cutter.kind, cutter.pieces = STREAM, LIES[lie]
    assert b"secret" not in listed(gateway).body


@pytest.mark.parametrize(
    ("kind", "coding", "body"),
    [
        ("Text/Event-Stream; charset=utf-8", None, EVENT),
        ("application/json; charset=utf-8", None, ANSWER),
        ("application/json", None, b'{"jsonrpc":"2.0","id":@@,"result":' + LARGE + b"}"),
        ("application/json", None, b"[%b]" % ANSWER),
        ("application/json", None, EVENT),
        ("text/html", None, ANSWER),
        ("application/json", "gzip", gzip.compress(ANSWER.replace(b"@@", b"1"))),
    ],
    ids=["spelled otherwise", "json", "large json", "batch", "events called json", "page", "compressed"],
)
def test_the_kind_of_answer_changes_nothing(
    guarded: tuple[Cutter, Gateway], kind: str, coding: str | None, body: bytes
) -> None:
    cutter, gateway = guarded
    cutter.kind, cutter.coding, cutter.pieces = kind, coding, [body]
    try:
        assert b"secret" not in listed(gateway).body
    finally:
        cutter.coding = None


def listed(gateway: Gateway) -> Any:
    caller = Caller(gateway.address, "cut")
    assert caller.initialize().status == 200
    return caller.request("tools/list")
