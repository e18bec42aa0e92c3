"""The door: every HTTP request shows who sends it before anything in it is read, or is challenged."""

from __future__ import annotations

import getpass
import logging
from collections.abc import Callable
from time import monotonic, time
from typing import Final

import msgspec
from msgspec import Struct

from mooring.errors import FORBIDDEN, RATE_LIMITED, UNAUTHENTICATED
from mooring.gateway.dispatch import Dispatcher
from mooring.gateway.principal import ANONYMOUS, Caller, Principal
from mooring.policy.authentication.proof import Authenticator, NotAuthenticated, ProviderUnavailable
from mooring.policy.gcra import Gcra
from mooring.transports.http_forwarded import parse_forwarded
from mooring.transports.http_reply import Reply
from mooring.transports.http_request import Memo, Request

log = logging.getLogger(__name__)

Headers = tuple[tuple[bytes, bytes], ...]
Enter = Callable[[Caller], None]
JSON: Final = ((b"content-type", b"application/json"), (b"cache-control", b"no-store"))
_PRINTED: Final = 200


class Refused(Struct, frozen=True):
    """Somebody was not let in: for the audit."""

    server_id: str
    address: str
    user_agent: str
    status: int
    reason: str
    principal: Principal | None = None


class Place(Struct, frozen=True):
    """What is behind the door: a server, the scopes it asks for, and where clients read about them."""

    server_id: str
    url: str
    scopes: tuple[str, ...] = ()
    metadata_url: str | None = None


class Door:
    """Lets callers in to one or another server."""

    def __init__(
        self,
        authenticator: Authenticator | None,
        dispatcher: Dispatcher,
        *,
        audiences: frozenset[str],
        trust_proxy_headers: bool,
        failures_per_minute: int,
        on_refused: Callable[[Refused], None],
        key_header: str | None = None,
    ) -> None:
        """`key_header` holds a credential and nothing else; `X-Api-Key` unless it is called otherwise."""
        self._authenticator = authenticator
        self._key_header = (key_header or "x-api-key").lower().encode()
        self._how = f"authenticate with `{f'{key_header}:' if key_header else 'Authorization: Bearer'} ...`"
        self._dispatcher = dispatcher
        self._audiences = audiences
        self._trusts_proxy = trust_proxy_headers
        self._failures = Gcra(failures_per_minute, 60.0, failures_per_minute)
        self._on_refused = on_refused
        self._local = local_principal()

    def admit(self, place: Place, request: Request, reply: Reply, extra: Headers, enter: Enter) -> None:
        """Find out who it is, then `enter`; or answer 401, 403 or 429."""
        caller = self.readmits(place, request)
        if caller is not None:
            enter(caller)
            return
        address = self.address_of(request)
        agent = (request.header(b"user-agent") or b"")[:_PRINTED].decode("latin-1")
        visit = _Visit(place, request.memo, reply, extra, enter, address, agent)
        if self._authenticator is None:  # everybody may come in where no scope is asked for
            self._welcome(visit, None, ANONYMOUS)
            return
        given = self._given(request)
        if request.peer == "unix" and not given:
            self._enter(visit, None, self._local)
            return
        wait = self._failures.would_wait(address, monotonic())
        if wait > 0:
            self._refuse(visit, 429, "too many failed attempts from this address; try again later", wait)
            return
        credential = self._credential(request, given)
        if not credential:
            reason = "not a bearer credential" if given else self._how
            self._challenge(visit, reason, failed=bool(given))
            return
        principal = self._authenticator.known(credential)
        if principal is None or principal.expires <= time():
            self._dispatcher.spawn(self._verify(visit, credential))
        else:
            self._welcome(visit, credential, principal)

    def readmits(self, place: Place, request: Request) -> Caller | None:
        """Who sends this, if the same head was let in before and its credential still counts."""
        known = request.memo.admitted
        if type(known) is not _Admitted or known.door is not self or known.place is not place:
            return None
        caller, credential, authenticator = known.caller, known.credential, self._authenticator
        if credential is None or authenticator is None:
            return caller
        if self._failures.would_wait(caller.address, monotonic()) > 0:
            return None
        principal = authenticator.known(credential)
        return caller if principal is caller.principal and caller.principal.expires > time() else None

    def stranger(self, request: Request) -> Caller | None:
        """Whoever shows no credential at all, and may have something else to show; None: there is one."""
        if self._given(request):
            return None
        agent = (request.header(b"user-agent") or b"")[:_PRINTED].decode("latin-1")
        return Caller(ANONYMOUS, self.address_of(request), agent)

    def holds(self, principal: Principal) -> bool:
        """Whether whoever was let in once would still be."""
        authenticator = self._authenticator
        return authenticator is None or principal.id == self._local.id or authenticator.holds(principal)

    def recognises(self, request: Request) -> bool:
        """Whether this comes from somebody whose credential is known already, for pages that say more."""
        credential = self._credential(request, self._given(request))
        if self._authenticator is None:
            return False
        principal = self._authenticator.known(credential) if credential else None
        return principal is not None and principal.expires > time()

    def _given(self, request: Request) -> list[bytes]:
        return request.header_values(b"authorization") + request.header_values(self._key_header)

    def _credential(self, request: Request, given: list[bytes]) -> str | None:
        """The one credential of a request. More than one could mean different things to different readers."""
        if len(given) != 1:
            return None
        key = request.header(self._key_header)
        if key is not None:
            return key.decode("latin-1")
        kind, _, value = given[0].decode("latin-1").partition(" ")
        return value.strip() if kind.lower() == "bearer" else None

    @property
    def is_open(self) -> bool:
        """Whether nobody has to prove anything."""
        return self._authenticator is None

    def address_of(self, request: Request) -> str:
        return parse_forwarded(request)[0] if self._trusts_proxy else request.peer

    async def _verify(self, visit: _Visit, credential: str) -> None:
        assert self._authenticator is not None
        try:
            principal = await self._authenticator.verify(credential)
        except NotAuthenticated as error:
            self._challenge(visit, str(error), failed=True)
        except ProviderUnavailable as error:
            log.warning("nobody can be authenticated: %s", error)
            self._refuse(visit, 503, "authentication is not available now; try again later", 5.0)
        except Exception:
            log.exception("authentication failed")
            self._refuse(visit, 503, "authentication is not available now; try again later", 5.0)
        else:
            if not visit.reply.closed:
                self._welcome(visit, credential, principal)

    def _welcome(self, visit: _Visit, credential: str | None, principal: Principal) -> None:
        place = visit.place
        if principal.audiences is not None and not self._is_for(principal.audiences, place):
            self._challenge(visit, "the credential is for something else", failed=True, principal=principal)
            return
        if not principal.scopes.issuperset(place.scopes):
            self._refuse_scope(visit, principal)
            return
        self._enter(visit, credential, principal)

    def _enter(self, visit: _Visit, credential: str | None, principal: Principal) -> None:
        caller = Caller(principal, visit.address, visit.user_agent)
        visit.memo.admitted = _Admitted(self, visit.place, credential, caller)
        visit.enter(caller)

    def _is_for(self, audiences: frozenset[str], place: Place) -> bool:
        if self._audiences:
            return not self._audiences.isdisjoint(audiences)
        return place.url in audiences or place.server_id in audiences or f"{place.url}/" in audiences

    # Refusals

    def _challenge(
        self, visit: _Visit, reason: str, *, failed: bool, principal: Principal | None = None
    ) -> None:
        parts = {"realm": "mooring"}
        if failed:
            self._failures.wait(visit.address, monotonic())
            parts |= {"error": "invalid_token", "error_description": reason}
        header = _challenge_header(parts, visit.place)
        self._answer(visit, 401, UNAUTHENTICATED, reason, ((b"www-authenticate", header),), principal)

    def _refuse_scope(self, visit: _Visit, principal: Principal) -> None:
        reason = "the credential lacks a scope"
        header = _challenge_header({"error": "insufficient_scope", "error_description": reason}, visit.place)
        self._answer(visit, 403, FORBIDDEN, reason, ((b"www-authenticate", header),), principal)

    def _refuse(self, visit: _Visit, status: int, reason: str, wait: float) -> None:
        code = RATE_LIMITED if status == 429 else UNAUTHENTICATED
        seconds = max(1, round(wait + 0.5))
        retry = ((b"retry-after", b"%d" % seconds),)
        self._answer(visit, status, code, reason, retry, None, {"retryAfterSeconds": seconds})

    def _answer(
        self,
        visit: _Visit,
        status: int,
        code: int,
        reason: str,
        headers: Headers,
        principal: Principal | None,
        data: dict[str, int] | None = None,
    ) -> None:
        self._on_refused(
            Refused(visit.place.server_id, visit.address, visit.user_agent, status, reason, principal)
        )
        if visit.reply.closed:
            return
        error = {"code": code, "message": reason} | ({} if data is None else {"data": data})
        body = {"jsonrpc": "2.0", "error": error}
        visit.reply.send(status, (*JSON, *headers, *visit.extra), msgspec.json.encode(body))


class _Visit(Struct, frozen=True):
    """One request at the door."""

    place: Place
    memo: Memo
    reply: Reply
    extra: Headers
    enter: Enter
    address: str
    user_agent: str


class _Admitted(msgspec.Struct, frozen=True):
    """Who came in with a head, and what they showed."""

    door: Door
    place: Place
    credential: str | None
    caller: Caller


def local_principal() -> Principal:
    """Who talks to the Unix socket, which only the gateway's own user can open."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):  # a user without a name
        name = "local"
    return Principal(f"local:{name}", name, claims={"sub": name, "iss": "mooring-local"})


def _challenge_header(parts: dict[str, str], place: Place) -> bytes:
    if place.metadata_url is not None:
        parts["resource_metadata"] = place.metadata_url
    if place.scopes:
        parts["scope"] = " ".join(place.scopes)
    quoted = (f'{name}="{_quotable(value)}"' for name, value in parts.items())
    return f"Bearer {', '.join(quoted)}".encode("ascii", "replace")


def _quotable(text: str) -> str:
    return "".join(character for character in text if character.isprintable() and character not in '"\\')
