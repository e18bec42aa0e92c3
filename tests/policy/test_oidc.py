"""Tokens of a real OpenID provider, and everything that is wrong with other tokens."""

from __future__ import annotations

import base64
import http.server
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm
from tests.policy.caller import Caller
from tests.policy.provider import Provider, running_provider
from tests.support.gateway import Gateway, running_gateway, stdio_server
from tests.support.waiting import eventually

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with running_provider() as running:
        yield running


@pytest.fixture(scope="module")
def gateway(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("oidc")
    servers = [stdio_server(name, folder / f"{name}.journal") for name in ("one", "two", "opaque")]
    auth = {
        "mode": "oidc",
        "issuer": provider.issuer,
        "introspection_url": f"{provider.issuer}/token/introspection",
        "client_id": "gateway",
        "client_secret": "gateway-secret",
        "required_scopes": ["mcp"],
        "scopes_supported": ["admin"],
        "max_failures_per_minute": 1000,
    }
    with running_gateway(folder, servers, auth=auth) as running:
        yield running


def caller(gateway: Gateway, token: str, server: str = "one") -> Caller:
    return Caller(gateway.address, server, {"Authorization": f"Bearer {token}"})


def test_a_token_for_this_server_opens_it(provider: Provider, gateway: Gateway) -> None:
    client = caller(gateway, provider.token("alice", gateway.url("one")))
    assert client.initialize().status == 200
    assert client.tool("echo", {"text": "hi"}).result["content"]


def test_the_challenge_leads_to_the_provider(provider: Provider, gateway: Gateway) -> None:
    said = Caller(gateway.address, "one").initialize()
    challenge = said.headers["www-authenticate"]
    address = f"{gateway.address}/.well-known/oauth-protected-resource/mcp/one"
    assert (said.status, f'resource_metadata="{address}"' in challenge) == (401, True)
    document = gateway.get("/.well-known/oauth-protected-resource/mcp/one")
    assert document["resource"] == gateway.url("one")
    assert document["authorization_servers"] == [provider.issuer]
    assert document["scopes_supported"] == ["mcp", "admin"]


def test_a_token_for_another_server_is_refused(provider: Provider, gateway: Gateway) -> None:
    token = provider.token("alice", gateway.url("two"))
    assert caller(gateway, token).initialize().status == 401
    assert caller(gateway, token, "two").initialize().status == 200
    assert caller(gateway, token).initialize().status == 401


def test_a_token_without_the_scope_is_told_to_step_up(provider: Provider, gateway: Gateway) -> None:
    said = caller(gateway, provider.token("alice", gateway.url("one"), "admin")).initialize()
    assert said.status == 403
    assert 'error="insufficient_scope"' in said.headers["www-authenticate"]
    assert 'scope="mcp"' in said.headers["www-authenticate"]


def test_an_opaque_token_is_asked_about(provider: Provider, gateway: Gateway) -> None:
    token = provider.token("bob", gateway.url("opaque"))
    assert token.count(".") != 2
    client = caller(gateway, token, "opaque")
    assert client.initialize().status == 200
    assert caller(gateway, token[:-2], "opaque").initialize().status == 401


def test_a_session_belongs_to_its_subject_whatever_the_token(provider: Provider, gateway: Gateway) -> None:
    first = caller(gateway, provider.token("alice", gateway.url("one")))
    first.initialize()
    later = caller(gateway, provider.token("alice", gateway.url("one"), "mcp admin"))
    other = caller(gateway, provider.token("bob", gateway.url("one")))
    later.session = other.session = first.session
    assert later.request("tools/list").status == 200
    assert other.request("tools/list").status == 404


def test_after_a_rotation_new_tokens_count_and_old_ones_do_not(tmp_path: Path) -> None:
    with running_provider() as provider:
        auth = {"mode": "oidc", "issuer": provider.issuer, "audience": "urn:us"}
        servers = [stdio_server("one", tmp_path / "journal")]
        with running_gateway(tmp_path, servers, auth=auth) as gateway:
            old = caller(gateway, provider.token("alice", "urn:us"))
            assert old.initialize().status == 200
            provider.rotate()
            new = caller(gateway, provider.token("alice", "urn:us"))
            eventually(lambda: new.initialize().status == 200, "the new key to be fetched", limit=15)
            assert old.request("tools/list").status == 401


# Tokens that we make ourselves


class Issuer:
    """A provider that publishes what it is told to."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.up = True
        self.key = rsa.generate_private_key(65537, 2048)
        self.other = ec.generate_private_key(ec.SECP256R1())
        described = json.loads(RSAAlgorithm.to_jwk(self.key.public_key()))
        self.keys = [{**described, "kid": "rsa", "use": "sig"}]

    @property
    def public_pem(self) -> bytes:
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        return self.key.public_key().public_bytes(serialization.Encoding.PEM, form)

    def claims(self, **more: Any) -> dict[str, Any]:
        now = int(time.time())
        return {"iss": self.address, "sub": "alice", "aud": "urn:us", "exp": now + 300, "iat": now, **more}

    def token(self, key: Any = None, algorithm: str = "RS256", header: Any = None, **claims: Any) -> str:
        content = {name: value for name, value in self.claims(**claims).items() if value is not None}
        return jwt.encode(content, key or self.key, algorithm, {"kid": "rsa", **(header or {})})


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            bodies = {
                "/.well-known/openid-configuration": {
                    "issuer": made.address,
                    "jwks_uri": f"{made.address}/keys",
                },
                "/keys": {"keys": made.keys},
            }
            body = json.dumps(bodies.get(self.path, {})).encode()
            self.send_response(200 if made.up else 503)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made = Issuer(f"http://127.0.0.1:{server.server_port}")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield made
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def plain(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("plain")
    auth = {"mode": "oidc", "issuer": issuer.address, "audience": "urn:us", "clock_skew_seconds": 5}
    auth["max_failures_per_minute"] = 1000
    with running_gateway(folder, [stdio_server("one", folder / "journal")], auth=auth) as running:
        yield running


def hmac_signed(issuer: Issuer) -> str:
    """Algorithm confusion: the public key taken for a shared secret. No library helps to make one."""
    import hashlib
    import hmac

    def coded(value: bytes) -> bytes:
        return base64.urlsafe_b64encode(value).rstrip(b"=")

    head = coded(json.dumps({"alg": "HS256", "kid": "rsa", "typ": "JWT"}).encode())
    signed = head + b"." + coded(json.dumps(issuer.claims()).encode())
    mac = hmac.new(issuer.public_pem, signed, hashlib.sha256).digest()
    return (signed + b"." + coded(mac)).decode()


def test_a_good_token_is_good(issuer: Issuer, plain: Gateway) -> None:
    assert caller(plain, issuer.token()).initialize().status == 200
    assert caller(plain, issuer.token(exp=int(time.time()) - 2)).initialize().status == 200  # within the skew


def test_a_token_that_was_good_ends_in_its_open_session(issuer: Issuer, plain: Gateway) -> None:
    client = caller(plain, issuer.token(exp=int(time.time()) - 2))  # within the skew, for a moment
    assert client.initialize().status == 200
    assert client.request("tools/list").status == 200
    eventually(lambda: client.request("tools/list").status == 401, "the token to expire")


BAD = {
    "expired": lambda issuer: issuer.token(exp=int(time.time()) - 60),
    "not yet valid": lambda issuer: issuer.token(nbf=int(time.time()) + 60),
    "without an end": lambda issuer: issuer.token(exp=None),
    "without a subject": lambda issuer: issuer.token(sub=None),
    "of another issuer": lambda issuer: issuer.token(iss="https://evil.example"),
    "for somebody else": lambda issuer: issuer.token(aud="urn:them"),
    "for nobody": lambda issuer: issuer.token(aud=None),
    "unsigned": lambda issuer: jwt.encode(issuer.claims(), "", "none", {"kid": "rsa"}),
    "signed with the public key": hmac_signed,
    "signed by somebody else": lambda issuer: issuer.token(rsa.generate_private_key(65537, 2048)),
    "signed with another kind of key": lambda issuer: issuer.token(issuer.other, "ES256"),
    "with a key of its own": lambda issuer: issuer.token(
        issuer.other,
        "ES256",
        {"kid": "mine", "jwk": json.loads(ECAlgorithm.to_jwk(issuer.other.public_key()))},
    ),
    "with keys from elsewhere": lambda issuer: issuer.token(
        header={"kid": "x", "jku": "http://127.0.0.1:9/"}
    ),
    "with a demand": lambda issuer: issuer.token(header={"crit": ["exp"]}),
    "cut off": lambda issuer: issuer.token()[:-4],
    "changed": lambda issuer: issuer.token().replace(".", ".e", 1),
    "empty": lambda issuer: "..",
    "very long": lambda issuer: "a." * 2 + "b" * 20_000,
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_token_is_refused(issuer: Issuer, plain: Gateway, kind: str) -> None:
    said = caller(plain, BAD[kind](issuer)).initialize()
    assert said.status == 401, kind
    assert 'error="invalid_token"' in said.headers["www-authenticate"]


def test_headers_that_claim_an_identity_are_nothing_to_us(plain: Gateway) -> None:
    headers = {"X-Forwarded-User": "alice", "X-Remote-User": "alice", "X-Auth-Request-User": "alice"}
    assert Caller(plain.address, "one", headers).initialize().status == 401


def test_a_token_in_the_address_is_no_token(issuer: Issuer, plain: Gateway) -> None:
    client = Caller(plain.address, "one")
    client.path += f"?access_token={issuer.token()}"
    assert client.initialize().status == 401


def test_while_the_provider_is_away_known_keys_count_and_unknown_ones_do_not(
    issuer: Issuer, plain: Gateway, tmp_path: Path
) -> None:
    assert caller(plain, issuer.token()).initialize().status == 200
    issuer.up = False
    try:
        assert caller(plain, issuer.token(jti="another")).initialize().status == 200
        assert caller(plain, issuer.token(header={"kid": "unknown"})).initialize().status == 401
        auth = {"mode": "oidc", "issuer": issuer.address, "audience": "urn:us"}
        servers = [stdio_server("one", tmp_path / "journal")]
        with running_gateway(tmp_path, servers, auth=auth) as fresh:
            said = caller(fresh, issuer.token()).initialize()
            assert (said.status, "retry-after" in said.headers) == (503, True)
    finally:
        issuer.up = True


def test_who_acts_for_a_caller_is_written_down(issuer: Issuer, tmp_path: Path) -> None:
    auth = {"mode": "oidc", "issuer": issuer.address, "audience": "urn:us"}
    servers = [stdio_server("one", tmp_path / "journal")]
    with running_gateway(tmp_path, servers, auth=auth, audit={"enabled": True}) as gateway:
        acting = {"sub": "agent", "act": {"sub": "robot", "iss": "https://robots.example"}}
        assert caller(gateway, issuer.token(act=acting)).initialize().status == 200
        line = json.loads((tmp_path / "data" / "audit.log").read_text().splitlines()[0])
    assert line["subjects"]["user"] == "alice"
    chain = [{"sub": "agent"}, {"sub": "robot", "iss": "https://robots.example"}]
    assert line["delegation"] == {"chain": chain}
