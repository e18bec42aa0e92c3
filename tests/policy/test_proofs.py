"""Tokens with a proof (RFC 9449): at a real provider, and at a server that takes no others."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm
from tests.conformance.setup import NODE, suite_entry
from tests.policy.caller import Caller
from tests.policy.guarded import Browser, GrantProvider, Guarded, guarded, running_grant_provider
from tests.policy.shelf import Shelf, tool
from tests.support.gateway import Gateway, running_gateway
from tests.support.waiting import eventually

pytestmark = pytest.mark.e2e
Json = dict[str, Any]
DRIVER = Path(__file__).parents[1] / "conformance" / "client_driver.py"


class Proofs:
    """What such a server looks at: every request proves the key of its token, once, with the right nonce."""

    def __init__(self, server: Guarded) -> None:
        self.server = server
        self.nonce = "first"
        self.used: set[str] = set()
        self.wrong: list[str] = []

    def __call__(self, given: str, headers: dict[str, str]) -> tuple[int, str, dict[str, str]]:
        scheme, _, token = given.partition(" ")
        sent = {name.lower(): value for name, value in headers.items()}
        try:
            claims = self._checked(scheme, token, sent.get("dpop", ""))
        except (AssertionError, jwt.PyJWTError) as error:
            self.wrong.append(f"{type(error).__name__}: {error}")
            return 401, 'DPoP error="invalid_dpop_proof"', {}
        if claims.get("nonce") != self.nonce:
            return 401, 'DPoP error="use_dpop_nonce"', {"DPoP-Nonce": self.nonce}
        return 200, "", {}

    def _checked(self, scheme: str, token: str, proof: str) -> Json:
        assert scheme == "DPoP"
        head = jwt.get_unverified_header(proof)
        assert head["typ"] == "dpop+jwt"
        assert "d" not in head["jwk"]
        key = ECAlgorithm.from_jwk(head["jwk"])
        assert isinstance(key, ec.EllipticCurvePublicKey)
        claims: Json = jwt.decode(proof, key, ["ES256"])
        digest = hashlib.sha256(token.encode()).digest()
        assert claims["ath"] == base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        assert (claims["htm"], claims["htu"]) == ("POST", self.server.url)
        assert abs(claims["iat"] - time.time()) < 60
        assert claims["jti"] not in self.used, "a proof is for one request"
        self.used.add(claims["jti"])
        members = {name: head["jwk"][name] for name in ("crv", "kty", "x", "y")}
        print_of_key = hashlib.sha256(json.dumps(members, separators=(",", ":")).encode()).digest()
        bound = jwt.decode(token, options={"verify_signature": False})["cnf"]["jkt"]
        assert bound == base64.urlsafe_b64encode(print_of_key).rstrip(b"=").decode()
        return claims


@pytest.fixture(scope="module")
def provider() -> Iterator[GrantProvider]:
    with running_grant_provider(token_seconds=32) as made:
        yield made


@pytest.fixture
def server(tmp_path: Path, provider: GrantProvider) -> Iterator[Guarded]:
    with guarded(Shelf(tmp_path / "shelf", tool("say")), provider.issuer) as made:
        made.scheme = "DPoP"
        yield made


def said(caller: Caller) -> Json:
    result = caller.tool("say").result
    assert not result["isError"], result
    return result["structuredContent"]


def signed_in(gateway: Gateway) -> Caller:
    caller = Caller(gateway.address, "notes")
    caller.initialize()
    told = caller.tool("say").result
    assert told["isError"], "nobody has signed in yet"
    url = next(word for word in told["content"][0]["text"].split() if "/oauth/login/" in word)
    status, page = Browser().open(url)
    assert (status, "is connected" in page) == (200, True), page
    return caller


def test_tokens_come_with_a_proof_where_the_server_wants_one(tmp_path: Path, server: Guarded) -> None:
    proofs = server.proofs = Proofs(server)
    upstream = {"url": server.url, "auth": {"type": "oauth"}}
    with running_gateway(tmp_path, [{"id": "notes", "upstream": upstream}]) as gateway:
        caller = signed_in(gateway)
        for _ in range(3):
            assert said(caller)
        proofs.nonce = "second"
        assert said(caller), "a new nonce is taken up"
    with running_gateway(tmp_path, [{"id": "notes", "upstream": upstream}]) as gateway:
        caller = Caller(gateway.address, "notes")
        assert caller.initialize().result, "the key is kept with its grant"
        assert said(caller)
        first = server.claims()["jti"]
        # The token is good for half a minute, and is renewed 30 seconds before its end, with the same key.
        eventually(lambda: said(caller) and server.claims()["jti"] != first, "another token")
    assert proofs.wrong == []
    assert b"PRIVATE" not in b"".join(file.read_bytes() for file in (tmp_path / "data").rglob("*.*"))


def test_where_a_bearer_will_do_there_is_no_proof(tmp_path: Path, server: Guarded) -> None:
    server.scheme = "Bearer"
    upstream = {"url": server.url, "auth": {"type": "oauth"}}
    with running_gateway(tmp_path, [{"id": "notes", "upstream": upstream}]) as gateway:
        assert said(signed_in(gateway))
        assert server.seen[-1].startswith("Bearer ")


@pytest.mark.parametrize("scenario", ["auth/dpop", "auth/dpop-nonce"])
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_the_official_suite_agrees(tmp_path: Path, scenario: str, era: str) -> None:
    driver = [sys.executable, str(DRIVER), "--through", str(tmp_path), "--era", era]
    command = ["client", "--command", " ".join(driver), "--scenario", scenario]
    ran = subprocess.run(
        [str(NODE), str(suite_entry("conformance-alpha")), *command],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-3000:]
    passed = set(re.findall(r"\[sep-1932-([a-z-]+) *\] \S*SUCCESS", ran.stdout + ran.stderr))
    wanted = {"client-token-request-proof", "client-dpop-auth-scheme", "client-fresh-proof"}
    assert passed >= wanted | ({"client-as-nonce", "client-rs-nonce"} if "nonce" in scenario else set())
