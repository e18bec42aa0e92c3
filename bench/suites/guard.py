"""What the guard costs: tokens, policies, audit, metrics and a filter, before the same upstream as nginx."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from bench import load
from bench.run import Run
from bench.suites.suite import Figure, Suite
from bench.targets import SERVER, Stage, Target
from bench.wire import Session

_CALL = 'principal, action == Action::"call_tool", resource == Tool::"{}"'
_OTHERS = "".join(
    f'permit({_CALL.format(f"other{number}")}) when {{ context.arg_text != "forbidden" }};\n'
    for number in range(9)
)
PLAIN = f"permit({_CALL.format('echo')});\n"
ARGUMENTS = f'permit({_CALL.format("echo")}) when {{ context.arg_text != "forbidden" }};\n'
_FORBIDDING = "".join(
    f'forbid({_CALL.format("echo")}) when {{ context.arg_text == "forbidden{number}" }};\n'
    for number in range(9)
)
POLICIES = {
    "guarded": PLAIN,
    "ten": PLAIN + _OTHERS,
    "arguments": ARGUMENTS,
    "ten-arguments": ARGUMENTS + _FORBIDDING,
}
"""Nine of the first ten are about arguments of other tools, which do not matter to the call."""
_AUDIENCE = "bench"
_SECONDS = 3600


def guard(run: Run) -> None:
    """32 connections as fast as they go: nginx, Mooring bare, and Mooring with everything on."""
    _compare(run, "guard", ("nginx", "mooring", "guarded"))


def policies(run: Run) -> None:
    """The same calls under more policies, and under some about their arguments."""
    _compare(run, "policies", ("guarded", "ten", "arguments", "ten-arguments"))


def _compare(run: Run, suite: str, names: Sequence[str]) -> None:
    with provider() as (keys_url, issuer, token):
        opened: dict[str, tuple[Target, list[Session]]] = {}

        def start(name: str) -> Target:
            if name in POLICIES:
                return guarded(run.stage, name, POLICIES[name], keys_url, issuer, token)
            return run.stage.kept(name)

        def visit(name: str, number: int) -> None:
            if name not in opened:
                target = start(name)
                sessions = load.open_sessions(target.endpoint, load.CONNECTIONS)
                load.use_sessions(sessions)
                opened[name] = (target, sessions)
            target, sessions = opened[name]
            burst, cost = run.calls(target, sessions)
            run.record.add(
                suite,
                name,
                number,
                cpu_us=cost / burst.calls * 1e6,
                per_second=burst.per_second,
                p50_us=burst.p50_us,
            )

        run.rounds(suite, names, visit)
        for name, (_, sessions) in opened.items():
            run.attempt(suite, name, partial(load.end_sessions, sessions))


def guarded(stage: Stage, name: str, policy: str, keys_url: str, issuer: str, token: str) -> Target:
    """A gateway with JWT, Cedar, audit, metrics and a filter."""
    file = Path(stage.folder) / f"{name}.cedar"
    file.write_text(policy)
    settings: dict[str, Any] = {
        "auth": {
            "mode": "oidc",
            "issuer": issuer,
            "jwks_url": keys_url,
            "audience": [_AUDIENCE],
            "algorithms": ["ES256"],
        },
        "authorization": {"type": "cedarv1", "policies": [str(file)]},
        "audit": {"enabled": True},
        "telemetry": {"prometheus": True},
    }
    entry = {**stage.remote(SERVER), "tools": {"deny": ["large"]}}
    return stage.mooring([entry], headers=(("Authorization", f"Bearer {token}"),), **settings)


@contextmanager
def provider() -> Iterator[tuple[str, str, str]]:
    """A provider of keys: where they are, what it is called, and a token of its own."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = json.loads(ECAlgorithm.to_jwk(key.public_key()))
    document = json.dumps({"keys": [{**public, "kid": "bench", "alg": "ES256", "use": "sig"}]}).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(document)))
            self.end_headers()
            self.wfile.write(document)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    issuer = f"http://127.0.0.1:{server.server_port}"
    now = int(time.time())
    claims = {"iss": issuer, "sub": "bench", "aud": _AUDIENCE, "iat": now, "exp": now + _SECONDS}
    token = jwt.encode(claims, key, algorithm="ES256", headers={"kid": "bench"})
    try:
        yield f"{issuer}/jwks", issuer, token
    finally:
        server.shutdown()
        server.server_close()


_FIGURES = (
    Figure("cpu_us", "CPU per call", "µs"),
    Figure("per_second", "calls per second", "/s"),
    Figure("p50_us", "call p50, saturated", "µs"),
)
SUITES = (
    Suite("guard", "tools/call with JWT, Cedar, audit, metrics and filter", "nginx", _FIGURES, guard),
    Suite(
        "policies",
        "the same with one policy, with ten, and with one and ten about the call's arguments",
        "guarded",
        _FIGURES,
        policies,
    ),
)
