"""A server that speaks both eras, and can do different things in each. It prints its URL."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]
MODERN = "2026-07-28"
LEGACY_CAPABILITIES: Json = {"tools": {}, "prompts": {}}
MODERN_CAPABILITIES: Json = {"tools": {}, "resources": {}, "extensions": {"example.com/modern": {}}}
INFO = {"name": "dual", "version": "1"}


class Dual(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        if "id" not in message:
            return self.reply(202, None)
        method = message.get("method")
        if self.headers.get("MCP-Protocol-Version") == MODERN:
            result: Json = {"resultType": "complete", "content": [{"type": "text", "text": "modern"}]}
            if method == "server/discover":
                result |= {"supportedVersions": [MODERN], "capabilities": MODERN_CAPABILITIES}
                result |= {"ttlMs": 0, "cacheScope": "public"}
                result["_meta"] = {"io.modelcontextprotocol/serverInfo": INFO}
            return self.reply(200, {"id": message["id"], "result": result})
        if method == "initialize":
            result = {
                "protocolVersion": "2025-11-25",
                "capabilities": LEGACY_CAPABILITIES,
                "serverInfo": INFO,
            }
            return self.reply(200, {"id": message["id"], "result": result}, {"Mcp-Session-Id": "one"})
        result = {"content": [{"type": "text", "text": "legacy"}]}
        return self.reply(200, {"id": message["id"], "result": result})

    def do_GET(self) -> None:
        self.reply(405, None)

    def do_DELETE(self) -> None:
        self.reply(200, None)

    def reply(self, status: int, message: Json | None, headers: Json | None = None) -> None:
        body = b"" if message is None else json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
        """Quiet."""


if __name__ == "__main__":
    listener = ThreadingHTTPServer(("127.0.0.1", 0), Dual)
    listener.daemon_threads = True
    print(f"http://127.0.0.1:{listener.server_port}/mcp", flush=True)
    listener.serve_forever()
