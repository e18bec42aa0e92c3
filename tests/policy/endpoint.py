"""A small service of somebody else's, on a free port: what is posted to it is answered with JSON."""

from __future__ import annotations

import http.server
import json
import threading
from typing import Any, Self


class Endpoint:
    """A context manager; each kind says in `answer` what it answers."""

    def __init__(self) -> None:
        endpoint = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                status, content = endpoint.answer(self.rfile.read(int(self.headers["Content-Length"])))
                body = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/token"

    def answer(self, body: bytes) -> tuple[int, dict[str, Any]]:
        """Status and content of an answer."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
