"""A provider of tokens: keys, the document that names them, and tokens signed with them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives.asymmetric import ec


@dataclass(frozen=True)
class Provider:
    url: str
    key: ec.EllipticCurvePrivateKey

    def token(self, subject: str, audience: str, **claims: Any) -> str:
        said = {"iss": self.url, "sub": subject, "aud": audience, "exp": int(time.time()) + 300, **claims}
        return jwt.encode(said, self.key, "ES256", headers={"kid": "one"})


@contextmanager
def token_provider() -> Iterator[Provider]:
    """One on a free port of this machine."""
    key = ec.generate_private_key(ec.SECP256R1())
    shown = json.loads(jwt.get_algorithm_by_name("ES256").to_jwk(key.public_key()))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = f"http://127.0.0.1:{server.server_port}"
            described = {"issuer": url, "jwks_uri": f"{url}/jwks"}
            keys = {"keys": [{**shown, "kid": "one", "use": "sig", "alg": "ES256"}]}
            body = json.dumps(keys if self.path == "/jwks" else described).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            """A token for a token: `exchanged for` whoever the given one was about."""
            form = parse_qs(self.rfile.read(int(self.headers["content-length"])).decode())
            about = jwt.decode(form["subject_token"][0], options={"verify_signature": False})
            issued = "urn:ietf:params:oauth:token-type:access_token"
            made = {
                "access_token": f"exchanged-for-{about['sub']}",
                "token_type": "Bearer",
                "expires_in": 300,
            }
            body = json.dumps({**made, "issued_token_type": issued}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield Provider(f"http://127.0.0.1:{server.server_port}", key)
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
