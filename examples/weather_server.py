"""Made-up weather, stateless, as 2026-07-28 has it: no handshake, no session, every request stands alone.

`compare_cities` streams progress; `plan_trip` needs an answer of the person and therefore returns
`input_required`: the client asks and sends the call again, with the answer and the state it was given.

    python weather_server.py --port 7443
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import hmac
import json
import secrets
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

VERSION = "2026-07-28"
META = "io.modelcontextprotocol"
INFO = {f"{META}/serverInfo": {"name": "weather", "version": "1.0"}}
STATE_SECONDS = 600
NAME_FIELD = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
SKIES = ["sunny", "cloudy", "rainy", "windy", "foggy"]
CITIES = ["Bergen", "Lisbon", "Kobe", "Valparaíso"]

Object = dict[str, Any]


class Refused(Exception):
    """Becomes a JSON-RPC error with its HTTP status."""

    def __init__(self, status: int, code: int, message: str, data: Object | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.error: Object = {"code": code, "message": message} | ({"data": data} if data else {})


def tool(name: str, description: str, required: list[str], **properties: Object) -> Object:
    schema = {"type": "object", "properties": properties, "required": required}
    return {
        "name": name,
        "description": description,
        "inputSchema": schema,
        "annotations": {"readOnlyHint": True},
    }


TOOLS = [
    tool("forecast", "Tell tomorrow's weather in a city.", ["city"], city={"type": "string"}),
    tool("compare_cities", "Compare the weather of all known cities, with progress.", []),
    tool("plan_trip", "Plan a trip. The person is asked for the day.", ["city"], city={"type": "string"}),
]
CACHED = {"ttlMs": 60_000, "cacheScope": "public"}
QUESTION = {
    "type": "object",
    "properties": {"day": {"type": "string", "title": "Day", "enum": ["saturday", "sunday"]}},
    "required": ["day"],
}


def weather(city: str, day: str = "tomorrow") -> str:
    """The same answer for the same question, without asking anybody."""
    return f"{city}, {day}: {SKIES[hashlib.sha256((city + day).encode()).digest()[0] % len(SKIES)]}"


def text(words: str) -> Object:
    return {"content": [{"type": "text", "text": words}]}


class States:
    """`requestState` goes through the client's hands: it is signed, bound to its call, and expires."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def seal(self, city: str) -> str:
        content = json.dumps({"city": city, "expires": time.time() + STATE_SECONDS}).encode()
        return base64.urlsafe_b64encode(self._mark(content) + content).decode()

    def is_good(self, state: object, city: str) -> bool:
        try:
            raw = base64.urlsafe_b64decode(str(state))
        except ValueError:
            return False
        mark, content = raw[:32], raw[32:]
        if not hmac.compare_digest(mark, self._mark(content)):
            return False
        found = json.loads(content)
        return found["city"] == city and found["expires"] > time.time()

    def _mark(self, content: bytes) -> bytes:
        return hmac.digest(self._key, content, "sha256")


class Handler(BaseHTTPRequestHandler):
    """POST only: there is no stream to open and no session to end."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    states = States()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        number: str | int | None = None
        try:
            message = decoded(body)
            number = message.get("id")
            params = message.get("params") or {}
            self.check_headers(message, params)
            if number is None:
                self.reply(202)
            elif params.get("name") == "compare_cities" and message["method"] == "tools/call":
                self.compare_cities(number, params)
            else:
                result = self.result(message["method"], params)
                self.reply(200, {"id": number, "result": {"resultType": "complete", "_meta": INFO, **result}})
        except Refused as error:
            self.reply(error.status, ({} if number is None else {"id": number}) | {"error": error.error})

    def do_GET(self) -> None:
        self.reply(405)

    do_DELETE = do_GET  # noqa: N815 - the name that the base class looks for

    def check_headers(self, message: Object, params: Object) -> None:
        """Headers repeat what the body says, for those who route by them; they must agree."""
        meta = params.get("_meta") or {}
        version = meta.get(f"{META}/protocolVersion")
        if message.get("method") == "initialize":
            raise Refused(400, -32022, f"this server speaks {VERSION} only", versions("initialize"))
        if message.get("id") is not None and (version is None or f"{META}/clientCapabilities" not in meta):
            raise Refused(400, -32602, "`_meta` needs the protocol version and the client's capabilities")
        if version is not None and version != VERSION:
            raise Refused(400, -32022, f"this server speaks {VERSION} only", versions(version))
        if version is not None and self.headers.get("MCP-Protocol-Version") != version:
            raise Refused(400, -32020, "MCP-Protocol-Version and the body disagree")
        if self.headers.get("Mcp-Method") != message.get("method"):
            raise Refused(400, -32020, "Mcp-Method and the body disagree")
        field = NAME_FIELD.get(str(message.get("method")))
        if field and header_text(self.headers.get("Mcp-Name")) != params.get(field):
            raise Refused(400, -32020, "Mcp-Name and the body disagree")

    def result(self, method: str, params: Object) -> Object:
        match method:
            case "server/discover":
                capabilities = {"tools": {}, "resources": {}}
                return {"supportedVersions": [VERSION], "capabilities": capabilities, **CACHED}
            case "tools/list":
                return {"tools": TOOLS, **CACHED}
            case "tools/call":
                return self.call_tool(params)
            case "resources/list":
                entry = {"uri": "weather://cities", "name": "Known cities", "mimeType": "application/json"}
                return {"resources": [entry], **CACHED}
            case "resources/templates/list":
                return {"resourceTemplates": [], **CACHED}
            case "resources/read" if params.get("uri") == "weather://cities":
                contents = {
                    "uri": "weather://cities",
                    "mimeType": "application/json",
                    "text": json.dumps(CITIES),
                }
                return {"contents": [contents], **CACHED}
            case "resources/read":
                raise Refused(400, -32602, f"there is no resource `{params.get('uri')}`")
            case _:
                raise Refused(404, -32601, f"there is no method `{method}`")

    def call_tool(self, params: Object) -> Object:
        city = str((params.get("arguments") or {}).get("city", ""))
        match params.get("name"):
            case "forecast" | "plan_trip" if not city:
                return text("`city` is missing") | {"isError": True}
            case "forecast":
                return text(weather(city))
            case "plan_trip":
                return self.plan_trip(city, params)
            case name:
                raise Refused(400, -32602, f"there is no tool `{name}`")

    def plan_trip(self, city: str, params: Object) -> Object:
        if "elicitation" not in params["_meta"][f"{META}/clientCapabilities"]:
            needed = {"requiredCapabilities": {"elicitation": {}}}
            raise Refused(400, -32021, "`plan_trip` has to ask the person", needed)
        answer = (params.get("inputResponses") or {}).get("day")
        if answer is None or not self.states.is_good(params.get("requestState"), city):
            question = {"mode": "form", "message": f"Which day in {city}?", "requestedSchema": QUESTION}
            return {
                "resultType": "input_required",
                "inputRequests": {"day": {"method": "elicitation/create", "params": question}},
                "requestState": self.states.seal(city),
            }
        if answer.get("action") != "accept":
            return text("no trip then")
        return text(f"trip planned. {weather(city, answer['content']['day'])}")

    def compare_cities(self, number: str | int, params: Object) -> None:
        token = params["_meta"].get("progressToken")
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("X-Accel-Buffering", "no")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for count, city in enumerate(CITIES, 1):
                time.sleep(0.1)
                if token is not None:
                    progress = {
                        "progressToken": token,
                        "progress": count,
                        "total": len(CITIES),
                        "message": city,
                    }
                    self.event({"method": "notifications/progress", "params": progress})
            report = text("\n".join(weather(city) for city in CITIES))
            self.event({"id": number, "result": {"resultType": "complete", "_meta": INFO, **report}})
            self.chunk(b"")
        except OSError:
            self.close_connection = True  # closing the stream is how a client cancels

    def event(self, message: Object) -> None:
        self.chunk(b"event: message\ndata: " + json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n\n")

    def chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def reply(self, status: int, message: Object | None = None) -> None:
        body = b"" if message is None else json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if body:
            self.send_header("Content-Type", "application/json")
        self.end_headers()
        if body:
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
        """Stay quiet: the gateway's trace shows more."""


def decoded(body: bytes) -> Object:
    try:
        message = json.loads(body)
    except ValueError as error:
        raise Refused(400, -32700, "the body is not JSON") from error
    if not isinstance(message, dict) or not isinstance(message.get("method"), str):
        raise Refused(400, -32600, "the body is not a request or a notification")
    return message


def versions(requested: str) -> Object:
    return {"supported": [VERSION], "requested": requested}


def header_text(value: str | None) -> str | None:
    """Names that do not fit into a header travel as `=?base64?...?=`."""
    if value is not None and value.startswith("=?base64?") and value.endswith("?="):
        return base64.b64decode(value[9:-2]).decode()
    return value


def main() -> None:
    parser = argparse.ArgumentParser(description="Made-up weather over stateless MCP.")
    parser.add_argument("--port", type=int, default=7443, help="0 takes a free one")
    server = ThreadingHTTPServer(("127.0.0.1", parser.parse_args().port), Handler)
    server.daemon_threads = True
    print(f"http://127.0.0.1:{server.server_port}/mcp", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
