"""A server that wants to know its user: it takes the tokens of one provider that were made for it."""

from __future__ import annotations

import http.client
import http.cookiejar
import http.server
import json
import queue
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jwt
from tests.policy.provider import Provider, running_provider
from tests.policy.shelf import Shelf

SCRIPT = Path(__file__).parent / "grant_server.mjs"
METADATA = "/.well-known/oauth-protected-resource/mcp"


class Browser:
    """Opens addresses as a browser does: with its own cookies, wherever they lead."""

    def __init__(self) -> None:
        jar = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        self._opener = urllib.request.build_opener(jar)

    def open(self, url: str) -> tuple[int, str]:
        try:
            with self._opener.open(url, timeout=20) as page:
                return page.status, page.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()


class GrantProvider(Provider):
    """`oidc-provider` whose users agree to everything; it tells what it was asked."""

    def __init__(self, process: subprocess.Popen[str], issuer: str) -> None:
        super().__init__(process, issuer)
        self._lines: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._told: list[dict[str, Any]] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                self._lines.put(json.loads(line))

    def told(self) -> list[dict[str, Any]]:
        """Everything it said so far."""
        while True:
            try:
                self._told.append(self._lines.get(timeout=0.3))
            except queue.Empty:
                return self._told


@contextmanager
def running_grant_provider(token_seconds: int = 300) -> Iterator[GrantProvider]:
    with running_provider(SCRIPT, TOKEN_SECONDS=str(token_seconds)) as made:
        yield GrantProvider(made.process, made.issuer)


class Guarded:
    """Stands before a shelf server; `wanted` is the scope that calls of tools need."""

    def __init__(self, behind: str, issuer: str) -> None:
        self._behind = urlsplit(behind)
        self.issuer = issuer
        self.keys = jwt.PyJWKClient(f"{issuer}/jwks")
        self.wanted = "mcp"
        self.scheme = "Bearer"
        self.seen: list[str] = []
        """The `Authorization` of every request."""
        self.refused: set[str] = set()
        self.proofs: Callable[[str, dict[str, str]], tuple[int, str, dict[str, str]]] | None = None
        """Looks at the headers that come with a good token: a status, a challenge and further headers."""
        guard = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                if self.path == METADATA:
                    document = {
                        "resource": guard.url,
                        "authorization_servers": [guard.issuer],
                        "scopes_supported": ["mcp"],
                    }
                    self._send(200, json.dumps(document).encode())
                else:
                    self._send(405, b"")

            def do_DELETE(self) -> None:
                self._send(405, b"")

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                given = self.headers.get("Authorization", "")
                guard.seen.append(given)
                status, challenge = guard.judge(given, json.loads(body).get("method", ""))
                more: dict[str, str] = {}
                if guard.proofs is not None and status == 200:
                    status, challenge, more = guard.proofs(given, dict(self.headers))
                if status != 200:
                    self._send(status, b"{}", {"WWW-Authenticate": challenge, **more})
                    return
                self._send(*guard.forward(body, dict(self.headers)))

            def _send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
                self.send_response(status)
                for name, value in (headers or {}).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/mcp"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def judge(self, given: str, method: str) -> tuple[int, str]:
        metadata = f'resource_metadata="{self.url.removesuffix("/mcp")}{METADATA}"'
        token = given.partition(" ")[2]
        if token in self.refused:
            return 401, f'Bearer {metadata}, error="invalid_token"'
        try:
            key = self.keys.get_signing_key_from_jwt(token).key
            claims = jwt.decode(token, key, ["ES256"], audience=self.url, issuer=self.issuer)
        except jwt.PyJWTError:
            return 401, f'{self.scheme} {metadata}, scope="mcp"'
        if method == "tools/call" and self.wanted not in claims.get("scope", "").split():
            return 403, f'Bearer error="insufficient_scope", scope="{self.wanted}", {metadata}'
        return 200, ""

    def claims(self) -> dict[str, Any]:
        """What the last token says."""
        return jwt.decode(self.seen[-1].partition(" ")[2], options={"verify_signature": False})

    def forward(self, body: bytes, headers: dict[str, str]) -> tuple[int, bytes, dict[str, str]]:
        connection = http.client.HTTPConnection(self._behind.netloc, timeout=10)
        try:
            kept = {name: value for name, value in headers.items() if name.lower() != "host"}
            connection.request("POST", self._behind.path, body, kept)
            answer = connection.getresponse()
            data = answer.read()
            wanted = ("content-type", "mcp-session-id")
            return answer.status, data, {n: v for n, v in answer.getheaders() if n.lower() in wanted}
        finally:
            connection.close()


@contextmanager
def guarded(shelf: Shelf, issuer: str, era: str = "legacy") -> Iterator[Guarded]:
    with shelf.http("behind", era) as behind:
        guard = Guarded(behind["upstream"]["url"], issuer)
        try:
            yield guard
        finally:
            guard.server.shutdown()
            guard.server.server_close()
