"""Requests to a token endpoint: who we say we are there, and what comes back."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from mooring.policy import web
from mooring.policy.credentials.pool import CredentialUnavailable
from mooring.policy.credentials.settings import ClientAuthentication

DEFAULT_SECONDS: Final = 300.0
ASSERTION_SECONDS: Final = 60
ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
TOKEN_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105 - a name
NONCE_HEADER: Final = "dpop-nonce"
NONCE_WANTED: Final = "use_dpop_nonce"
_LONGEST_ERROR: Final = 200


class TokenRefused(CredentialUnavailable):
    """The provider answered, and not with a token; `error` is the code that it gave."""

    def __init__(self, error: str, description: str = "") -> None:
        said = f"{error} ({description})" if description else error
        super().__init__(f"no token for the server: the provider answered {said}")
        self.error = error


@dataclass(frozen=True, slots=True)
class ClientIdentity:
    """Who we are at a provider, and how we prove it."""

    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    method: ClientAuthentication | None = None
    private_key: Path | None = None
    algorithm: str = "ES256"

    def chosen(self, supported: list[str] | None) -> ClientIdentity:
        """With the method of proof that the provider takes, where none was prescribed."""
        if self.method is not None:
            return self
        if self.client_secret is None:
            method: ClientAuthentication = "none"
        elif supported is None or "client_secret_basic" in supported:
            method = "client_secret_basic"
        else:
            method = "client_secret_post" if "client_secret_post" in supported else "client_secret_basic"
        return ClientIdentity(self.client_id, self.client_secret, method, self.private_key, self.algorithm)


@dataclass(frozen=True, slots=True)
class Token:
    """What a token endpoint gave."""

    access_token: str = field(repr=False)
    seconds: float = DEFAULT_SECONDS
    refresh_token: str | None = field(default=None, repr=False)
    id_token: str | None = field(default=None, repr=False)
    scopes: tuple[str, ...] | None = None
    needs_proof: bool = False
    """It counts only with a proof of the key it was made for."""


async def request_token(
    url: str,
    form: dict[str, str],
    identity: ClientIdentity,
    audience: str | None = None,
    proof_key: str | None = None,
) -> Token:
    """Ask for a token. `audience` is the issuer, for those who prove themselves with a signature; the token
    is to be for whoever holds `proof_key`."""
    answer, content = await _asked(url, form, identity, audience or url, proof_key, None)
    nonce = answer.headers.get(NONCE_HEADER)
    if proof_key is not None and content.get("error") == NONCE_WANTED and nonce is not None:
        answer, content = await _asked(url, form, identity, audience or url, proof_key, nonce)
    if answer.status != 200:
        described = content.get("error_description")
        raise TokenRefused(
            _line(content.get("error")) or f"HTTP {answer.status}", _line(described) if described else ""
        )
    return _read(content)


async def _asked(
    url: str,
    given: dict[str, str],
    identity: ClientIdentity,
    audience: str,
    proof_key: str | None,
    nonce: str | None,
) -> tuple[web.Fetched, dict[str, Any]]:
    form = dict(given)
    headers = _proof(form, identity, audience)
    if proof_key is not None:
        from mooring.policy.credentials.oauth.dpop import proof  # noqa: PLC0415 - loaded by those who sign

        headers["dpop"] = proof(proof_key, "POST", url, nonce=nonce)
    try:
        answer = await web.post_form(url, form, headers)
    except web.FetchFailed as error:
        raise CredentialUnavailable(f"no token for the server: {error}") from error
    try:
        return answer, answer.json()
    except web.FetchFailed as error:
        raise CredentialUnavailable(f"no token for the server: HTTP {answer.status}, {error}") from error


def _read(content: dict[str, Any]) -> Token:
    token = content.get("access_token")
    if not isinstance(token, str) or not token.isascii() or not token.isprintable() or not token:
        raise TokenRefused("no usable access_token")
    seconds = content.get("expires_in", DEFAULT_SECONDS)
    scope = content.get("scope")
    return Token(
        token,
        float(seconds) if isinstance(seconds, (int, float)) else DEFAULT_SECONDS,
        _text(content.get("refresh_token")),
        _text(content.get("id_token")),
        tuple(scope.split()) if isinstance(scope, str) else None,
        str(content.get("token_type")).lower() == "dpop",
    )


def _proof(form: dict[str, str], identity: ClientIdentity, audience: str) -> dict[str, str]:
    """Complete the form, or return the headers, that prove who we are."""
    client_id = identity.client_id
    if client_id is None:
        return {}
    if identity.method == "private_key_jwt":
        form["client_id"] = client_id
        form["client_assertion_type"] = ASSERTION_TYPE
        form["client_assertion"] = _assertion(identity, client_id, audience)
        return {}
    if identity.client_secret is None or identity.method == "none":
        form["client_id"] = client_id
        return {}
    if identity.method == "client_secret_post":
        form["client_id"] = client_id
        form["client_secret"] = identity.client_secret
        return {}
    return {"authorization": web.basic(client_id, identity.client_secret)}


def _assertion(identity: ClientIdentity, client_id: str, audience: str) -> str:
    import jwt  # noqa: PLC0415 - loaded by those who sign

    now = int(time.time())
    claims = {
        "iss": client_id,
        "sub": client_id,
        "aud": audience,
        "iat": now,
        "exp": now + ASSERTION_SECONDS,
        "jti": secrets.token_urlsafe(16),
    }
    assert identity.private_key is not None
    try:
        return jwt.encode(claims, identity.private_key.read_text(), identity.algorithm)
    except (OSError, ValueError, TypeError, jwt.PyJWTError) as error:
        raise CredentialUnavailable(f"cannot sign with `{identity.private_key}`: {error}") from error


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _line(value: object) -> str:
    text = value if isinstance(value, str) else ""
    return "".join(character for character in text if character.isprintable())[:_LONGEST_ERROR]
