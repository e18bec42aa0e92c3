"""Asking a user to agree: from the address that they open to the grant that is kept (RFC 6749 §4.1, PKCE)."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import logging
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from mooring.errors import LoginNeeded
from mooring.gateway.principal import Principal
from mooring.policy.credentials.grants import Grant, GrantStore, grant_name
from mooring.policy.credentials.oauth.challenge import NOTHING_SAID, Challenge
from mooring.policy.credentials.oauth.clients import Registrar
from mooring.policy.credentials.oauth.discovery import (
    DiscoveryFailed,
    Found,
    Reach,
    ServerDocument,
    Settings,
    discover,
    issuer_document,
)
from mooring.policy.credentials.oauth.tokens import (
    ClientIdentity,
    Token,
    TokenRefused,
    request_token,
)
from mooring.policy.credentials.pool import CredentialUnavailable

log = logging.getLogger(__name__)

PENDING_SECONDS: Final = 600.0
MOST_PENDING: Final = 1_000
OFFLINE: Final = "offline_access"


@dataclass(frozen=True, slots=True)
class Party:
    """What users grant something for: one server, or a provider that several servers use."""

    key: str
    """`server:<id>` or `provider:<name>`."""
    name: str
    url: str | None
    """The server's address; None for a provider."""
    settings: Settings = field(default_factory=Settings)
    identity: ClientIdentity = field(default_factory=ClientIdentity)
    scopes: tuple[str, ...] = ()
    scope_parameter: str = "scope"
    parameters: tuple[tuple[str, str], ...] = ()
    resource: str | None = None
    document_url: str | None = None

    def has_given(self, grant: Grant) -> bool:
        """Whether a grant is for what this is now: not for another address or issuer of the same name."""
        wanted = self.url, self.settings.issuer, self.settings.token_url, self.identity.client_id
        found = grant.url, grant.issuer, grant.token_url, grant.client_id
        configured = [(one, other) for one, other in zip(wanted, found, strict=True) if one is not None]
        return all(one == other for one, other in configured)


class LoginWanted(LoginNeeded):
    """A user has to agree before the server can be used."""

    def __init__(self, party: Party, challenge: Challenge = NOTHING_SAID) -> None:
        more = " to more than before" if challenge.wants_more_scopes else ""
        super().__init__(f"`{party.name}` wants its user to sign in and agree{more}")
        self.party = party
        self.challenge = challenge


class FlowFailed(CredentialUnavailable):
    """The user did not agree, or what came back is not to be trusted."""


@dataclass(slots=True, eq=False)
class Pending:
    """One user who was asked. `ticket` names it in the address for the user, `state` for the provider."""

    party: Party
    principal: Principal
    found: Found
    identity: ClientIdentity
    scopes: tuple[str, ...] | None
    resource: str | None
    authorize_url: str
    redirect_uri: str
    state: str
    verifier: str
    expires: float
    proof_key: str | None = None
    ticket: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    browser: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    """A secret for the browser that the address is opened in: the answer must come from the same."""
    done: asyncio.Future[Grant] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Flows:
    """Everybody who was asked and has not answered yet."""

    def __init__(
        self,
        store: GrantStore,
        registrar: Registrar,
        login_url: Callable[[str], str],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._registrar = registrar
        self._login_url = login_url
        self._clock = clock
        self._by_ticket: dict[str, Pending] = {}
        self._by_state: dict[str, Pending] = {}
        self._asked: dict[tuple[object, ...], Pending] = {}
        self.on_granted: list[Callable[[Grant], None]] = []

    def url_for(self, pending: Pending) -> str:
        """The address that the user opens; it is ours, and leads on from there."""
        return self._login_url(pending.ticket)

    async def begin(self, party: Party, principal: Principal, challenge: Challenge = NOTHING_SAID) -> Pending:
        """Prepare everything up to the point where the user has to do something. Whoever was asked the same
        already and has not answered is not asked twice."""
        self._expire()
        key = (party, principal.id, challenge)
        asked = self._asked.get(key)
        if asked is not None and asked.ticket in self._by_ticket:
            return asked
        found = await self._found(party, challenge)
        document = found.server
        if document.authorization_endpoint is None or document.token_endpoint is None:
            raise DiscoveryFailed(f"`{document.issuer}` does not say where users agree")
        if "S256" not in (document.code_challenge_methods_supported or ()):
            raise DiscoveryFailed(
                f"`{document.issuer}` does not say that it protects the answer (PKCE with S256), which is a "
                "must: set `authorize_url` and `token_url` if it does all the same"
            )
        identity = await self._registrar.identity(document, party.identity, party.document_url)
        scopes = await self._scopes(party, principal, found, challenge)
        pending = self._pending(party, principal, found, identity, scopes)
        while len(self._by_ticket) >= MOST_PENDING:
            self._forget(next(iter(self._by_ticket.values())), "too many logins were begun after it")
        self._asked = {name: one for name, one in self._asked.items() if one.ticket in self._by_ticket}
        self._asked[key] = self._by_ticket[pending.ticket] = pending
        self._by_state[pending.state] = pending
        return pending

    async def _found(self, party: Party, challenge: Challenge) -> Found:
        if party.url is not None:
            return await discover(party.url, party.settings, challenge)
        anchor = party.settings.issuer or party.settings.token_url
        assert anchor is not None
        return await _provider(anchor, party.settings)

    async def _scopes(
        self, party: Party, principal: Principal, found: Found, challenge: Challenge
    ) -> tuple[str, ...] | None:
        """What to ask for: what was configured, else what the server wants; never less than before."""
        wanted: Sequence[str] | None = party.scopes or found.scopes
        if challenge.wants_more_scopes:
            old = await self._store.read(grant_name(party.key, principal.id), Grant)
            before = old.scopes if old is not None else ()
            wanted = tuple(dict.fromkeys((*before, *party.scopes, *(challenge.scopes or ()))))
        if not wanted:
            return None
        if OFFLINE in (found.server.scopes_supported or ()) and OFFLINE not in wanted:
            return (*wanted, OFFLINE)
        return tuple(wanted)

    def _pending(
        self,
        party: Party,
        principal: Principal,
        found: Found,
        identity: ClientIdentity,
        scopes: tuple[str, ...] | None,
    ) -> Pending:
        state, verifier = secrets.token_urlsafe(24), secrets.token_urlsafe(48)
        digest = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=")
        resource = party.resource or found.resource
        redirect = self._registrar.redirect_uri
        wanted = {
            **dict(party.parameters),
            "response_type": "code",
            "client_id": identity.client_id or "",
            "redirect_uri": redirect,
            "state": state,
            "code_challenge": digest.decode(),
            "code_challenge_method": "S256",
        }
        if resource is not None:
            wanted["resource"] = resource
        if scopes is not None:
            wanted[party.scope_parameter] = " ".join(scopes)
        if OFFLINE in (scopes or ()) and "prompt" not in wanted:
            wanted["prompt"] = "consent"  # OpenID: without it, offline access is not given
        url = _with_query(found.server.authorization_endpoint or "", wanted)
        return Pending(
            party,
            principal,
            found,
            identity,
            scopes,
            resource,
            url,
            redirect,
            state,
            verifier,
            self._clock() + PENDING_SECONDS,
            _proof_key(found),
        )

    def opened(self, ticket: str) -> Pending | None:
        """The user opens the address."""
        self._expire()
        return self._by_ticket.get(ticket)

    def answered(self, state: str) -> Pending | None:
        """Whom an answer is for. Each is answered once."""
        self._expire()
        pending = self._by_state.pop(state, None)
        if pending is not None:
            self._by_ticket.pop(pending.ticket, None)
        return pending

    async def finish(self, pending: Pending, answer: dict[str, str], browser: str) -> Grant:
        """The provider sent the user back: check the answer, fetch the tokens, keep them."""
        try:
            grant = await self._finish(pending, answer, browser)
        except CredentialUnavailable as error:
            if not pending.done.done():
                pending.done.set_exception(error)
                pending.done.exception()
            raise
        if not pending.done.done():
            pending.done.set_result(grant)
        for told in self.on_granted:
            told(grant)
        return grant

    async def _finish(self, pending: Pending, answer: dict[str, str], browser: str) -> Grant:
        if not hmac.compare_digest(browser.encode(), pending.browser.encode()):
            raise FlowFailed("the answer came from another browser than the one that was sent: start again")
        _check_issuer(pending.found, answer.get("iss"))
        if error := answer.get("error"):
            why = answer.get("error_description") or error
            raise FlowFailed(f"`{pending.party.name}` was not granted anything: {why[:200]}")
        code = answer.get("code")
        if not code:
            raise FlowFailed("the provider sent no code: start again")
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": pending.redirect_uri,
            "code_verifier": pending.verifier,
        }
        if pending.resource is not None:
            form["resource"] = pending.resource
        server = pending.found.server
        assert server.token_endpoint is not None
        try:
            token = await request_token(
                server.token_endpoint, form, pending.identity, server.issuer or None, pending.proof_key
            )
        except TokenRefused as refused:
            if refused.error == "invalid_client" and pending.party.identity.client_id is None:
                await self._registrar.forget(server)
            raise
        grant = _grant(pending, token, self._clock())
        await self._store.write(grant_name(grant.party, grant.principal), grant)
        log.info("%s: a user granted access", pending.party.name)
        return grant

    def _expire(self) -> None:
        now = self._clock()
        for pending in [one for one in self._by_ticket.values() if one.expires < now]:
            self._forget(pending, "nobody answered in time")

    def _forget(self, pending: Pending, why: str) -> None:
        self._by_ticket.pop(pending.ticket, None)
        self._by_state.pop(pending.state, None)
        if not pending.done.done():
            pending.done.set_exception(FlowFailed(why))
            pending.done.exception()  # whoever waits hears of it


def _check_issuer(found: Found, given: str | None) -> None:
    """RFC 9207: an answer names who gave it, to the letter, if they said that it would."""
    server = found.server
    if given is None:
        if server.authorization_response_iss_parameter_supported:
            raise FlowFailed("the answer does not say who gave it, although it should: start again")
    elif given != server.issuer and server.issuer:
        raise FlowFailed("the answer was given by somebody else than was asked: start again")


def _grant(pending: Pending, token: Token, now: float) -> Grant:
    server, identity = pending.found.server, pending.identity
    return Grant(
        pending.party.key,
        pending.principal.id,
        server.issuer,
        server.token_endpoint or "",
        identity.client_id,
        token.access_token,
        now + token.seconds,
        identity.client_secret,
        identity.method,
        token.refresh_token,
        token.id_token,
        tuple(dict.fromkeys((*(pending.scopes or ()), *(token.scopes or ())))),
        pending.resource,
        now,
        url=pending.party.url,
        proof_key=pending.proof_key if token.needs_proof else None,
    )


def _proof_key(found: Found) -> str | None:
    """A key for tokens that have to come with a proof, where the server wants that and the issuer can."""
    if not found.wants_proof:
        return None
    from mooring.policy.credentials.oauth.dpop import ALGORITHM, new_key  # noqa: PLC0415 - who signs loads it

    return new_key() if ALGORITHM in (found.server.dpop_signing_alg_values_supported or ()) else None


async def _provider(anchor: str, settings: Settings) -> Found:
    """A provider that was configured, rather than named by a server."""
    if settings.token_url is not None:
        document = ServerDocument(
            settings.issuer or "",
            settings.authorize_url,
            settings.token_url,
            code_challenge_methods_supported=["S256"],
        )
        return Found(document, described=False)
    return Found(await issuer_document(anchor, Reach(anchor, allow_http=settings.allow_http)))


def _with_query(url: str, parameters: dict[str, str]) -> str:
    parts = urlsplit(url)
    query = [*parse_qsl(parts.query, keep_blank_values=True), *parameters.items()]
    return urlunsplit((parts.scheme, parts.netloc, parts.path, urlencode(query), ""))
