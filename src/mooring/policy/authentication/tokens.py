"""Tokens of an OpenID provider: signed ones are checked here, others by asking (RFC 7662)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

import jwt

from mooring.gateway.principal import NEVER, Principal
from mooring.policy import web
from mooring.policy.authentication.keyset import Asking, KeySet
from mooring.policy.authentication.proof import NotAuthenticated, ProviderUnavailable

REMEMBERED: Final = 10_000
INTROSPECTED_SECONDS: Final = 60.0
"""How long an answer about a token counts: a revoked one works for at most this long."""
MAX_TOKEN_CHARACTERS: Final = 16 * 1024
_FAMILIES: Final = {"RSA": ("RS", "PS"), "EC": ("ES",), "OKP": ("Ed",)}


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """Whose tokens count, and how they are checked."""

    issuer: str | None
    jwks_url: str | None = None
    introspection_url: str | None = None
    client_id: str | None = None
    client_secret: str | None = None
    algorithms: tuple[str, ...] = ("RS256", "ES256")
    clock_skew_seconds: float = 60.0
    asking: Asking = field(default_factory=Asking)


class Tokens:
    """Authenticates by bearer tokens of one provider."""

    def __init__(self, settings: ProviderSettings) -> None:
        self._settings = settings
        self._signed = settings.issuer is not None or settings.jwks_url is not None
        self._keys = KeySet(settings.issuer, settings.jwks_url, settings.asking)
        self._remembered: dict[str, Principal] = {}
        """By the token itself, which its principal holds anyway."""
        self._asking: dict[str, asyncio.Task[Principal]] = {}
        self._version = 0

    def known(self, credential: str) -> Principal | None:
        if self._version != self._keys.version:  # a token whose key was withdrawn must be looked at again
            self._version = self._keys.version
            self._remembered.clear()
        principal = self._remembered.get(credential)
        return principal if principal is not None and principal.expires > time.time() else None

    def holds(self, principal: Principal) -> bool:
        """By what the token itself says: a provider is not asked for the sake of those who only listen."""
        expires = principal.claims.get("exp", NEVER)
        return bool(principal.credential) and expires + self._settings.clock_skew_seconds > time.time()

    async def verify(self, credential: str) -> Principal:
        if len(credential) > MAX_TOKEN_CHARACTERS:
            raise NotAuthenticated("the token is too long")
        if self._signed and credential.count(".") == 2:
            principal = await self._check(credential)
        elif self._settings.introspection_url is not None:
            principal = await self._ask_once(credential)
        else:
            raise NotAuthenticated("the token is not one of ours")
        if len(self._remembered) >= REMEMBERED:
            del self._remembered[next(iter(self._remembered))]
        self._remembered[credential] = principal
        return principal

    # Signed tokens

    async def _check(self, token: str) -> Principal:
        try:
            header = jwt.get_unverified_header(token)
        except jwt.PyJWTError:
            raise NotAuthenticated("the token cannot be read") from None
        algorithm = header.get("alg")
        if algorithm not in self._settings.algorithms or str(algorithm)[:2] in ("HS", "no"):
            raise NotAuthenticated("the token is signed in a way that is not accepted")
        if "crit" in header:
            raise NotAuthenticated("the token demands something that is not supported")
        kid = header.get("kid")
        key = await self._keys.key(kid if isinstance(kid, str) else None)
        if key is None:
            raise NotAuthenticated("the token is signed with an unknown key")
        if str(algorithm)[:2] not in _FAMILIES.get(cast("str", key.key_type), ()):
            raise NotAuthenticated("the token is signed in a way that does not fit its key")
        claims = self._decode(token, key, str(algorithm))
        return _principal(claims, token, float(claims["exp"]))

    def _decode(self, token: str, key: jwt.PyJWK, algorithm: str) -> dict[str, Any]:
        # Who the token is for depends on the server that is called: the door looks at that each time.
        options: Any = {"require": ["exp", "sub"], "verify_aud": False}
        try:
            return jwt.decode(
                token,
                key.key,
                algorithms=[algorithm],
                issuer=self._settings.issuer,
                leeway=self._settings.clock_skew_seconds,
                options=options,
            )
        except jwt.ExpiredSignatureError:
            raise NotAuthenticated("the token has expired") from None
        except jwt.InvalidIssuerError:
            raise NotAuthenticated("the token is of another issuer") from None
        except jwt.PyJWTError as error:
            raise NotAuthenticated(f"the token is not valid: {type(error).__name__}") from None

    # Introspection

    async def _ask_once(self, token: str) -> Principal:
        """However many requests bring the same new token at once, the provider is asked once."""
        task = self._asking.get(token)
        if task is None:
            task = self._asking[token] = asyncio.get_running_loop().create_task(self._introspect(token))
            task.add_done_callback(lambda _: self._asking.pop(token, None))
        return await asyncio.shield(task)

    async def _introspect(self, token: str) -> Principal:
        settings = self._settings
        url = settings.introspection_url
        assert url is not None
        headers: dict[str, str] = {}
        if settings.client_id is not None:
            headers["authorization"] = web.basic(settings.client_id, settings.client_secret or "")
        try:
            form = {"token": token, "token_type_hint": "access_token"}
            answer = await web.post_form(url, form, headers, tls=settings.asking.tls)
            claims = answer.json() if answer.status == 200 else {}
        except web.FetchFailed as error:
            raise ProviderUnavailable(f"introspection: {error}") from error
        if answer.status != 200:
            raise ProviderUnavailable(f"introspection answered {answer.status}")
        return self._believed(claims, token)

    def _believed(self, claims: dict[str, Any], token: str) -> Principal:
        now = time.time()
        # A token that a program got for itself has no subject but the program.
        subject = claims.get("sub") or claims.get("client_id")
        if claims.get("active") is not True or not isinstance(subject, str):
            raise NotAuthenticated("the token is not active")
        issuer = claims.get("iss", self._settings.issuer)
        if self._settings.issuer is not None and issuer != self._settings.issuer:
            raise NotAuthenticated("the token is of another issuer")
        expires = claims.get("exp", now + INTROSPECTED_SECONDS)
        if not isinstance(expires, (int, float)) or expires <= now - self._settings.clock_skew_seconds:
            raise NotAuthenticated("the token has expired")
        believed_until = min(float(expires), now + INTROSPECTED_SECONDS)
        return _principal({**claims, "sub": subject, "iss": issuer}, token, believed_until)


def _principal(claims: Mapping[str, Any], token: str, expires: float) -> Principal:
    subject = str(claims["sub"])
    audience = claims.get("aud", ())
    audiences = [audience] if isinstance(audience, str) else audience
    scopes = claims.get("scope", claims.get("scp", ()))
    return Principal(
        id=f"{claims.get('iss') or ''}|{subject}",
        subject=subject,
        scopes=frozenset(scopes.split() if isinstance(scopes, str) else map(str, scopes)),
        claims=claims,
        audiences=frozenset(map(str, audiences)),
        expires=expires,
        credential=token,
    )


__all__ = ["ProviderSettings", "Tokens"]
