"""A plain HTTP caller for the tests: says exactly what it is told to say, and shows what came back."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"


@dataclass(frozen=True)
class Said:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> bytes:
        """The JSON-RPC answer as it was written, whether it came as JSON or as an event."""
        if not self.headers.get("content-type", "").startswith("text/event-stream"):
            return self.body
        events = [
            b"\n".join(line[5:].strip() for line in event.split(b"\n") if line.startswith(b"data:"))
            for event in self.body.split(b"\n\n")
        ]
        messages = [(json.loads(event), event) for event in events if event.strip()]
        return next(event for message, event in messages if "id" in message and "method" not in message)

    @property
    def message(self) -> Json:
        return json.loads(self.text)

    @property
    def result(self) -> Json:
        assert "result" in self.message, self.message
        return self.message["result"]

    @property
    def error(self) -> Json:
        assert "error" in self.message, self.message
        return self.message["error"]


class Caller:
    """Somebody with certain headers, at one server of a gateway."""

    def __init__(self, address: str, server: str, headers: Json | None = None) -> None:
        self.host = address.removeprefix("http://")
        self.path = f"/mcp/{server}"
        self.headers: Json = dict(headers or {})
        self.session: Json = {}
        self._number = 0

    def send(self, method: str, path: str, body: bytes, headers: Any) -> Said:
        connection = http.client.HTTPConnection(self.host, timeout=20)
        try:
            connection.putrequest(method, path, skip_accept_encoding=True)
            pairs = headers.items() if isinstance(headers, dict) else headers
            for name, value in pairs:
                connection.putheader(name, value)
            connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Said(response.status, found, response.read())
        finally:
            connection.close()

    def post(self, message: Any, **more: str) -> Said:
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            **self.headers,
            **self.session,
            **more,
        }
        return self.send("POST", self.path, body, headers)

    # Legacy

    def initialize(self, version: str = "2025-11-25") -> Said:
        params = {
            "protocolVersion": version,
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        }
        said = self.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
        if said.status == 200 and "mcp-session-id" in said.headers:
            self.session = {
                "Mcp-Session-Id": said.headers["mcp-session-id"],
                "MCP-Protocol-Version": version,
            }
            self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return said

    def request(self, method: str, params: Json | None = None) -> Said:
        self._number += 1
        return self.post({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params or {}})

    def tool(self, name: str, arguments: Json | None = None) -> Said:
        return self.request("tools/call", {"name": name, "arguments": arguments or {}})

    # Modern

    def modern(self, method: str, params: Json | None = None, **headers: str) -> Said:
        self._number += 1
        stamp = {META + "protocolVersion": MODERN, META + "clientCapabilities": {}}
        full = {**(params or {}), "_meta": {**stamp, **(params or {}).get("_meta", {})}}
        routing = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
        named = full.get("name") or full.get("uri")
        if method in ("tools/call", "prompts/get", "resources/read") and named:
            routing["Mcp-Name"] = named
        message = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": full}
        return self.post(message, **{**routing, **headers})

    def modern_tool(self, name: str, arguments: Json | None = None) -> Said:
        return self.modern("tools/call", {"name": name, "arguments": arguments or {}})
