"""When a server wants to know its user: the user is asked to open an address, and the request waits for it.

A client that can show an address is asked to (URL elicitation, in the way of its era); any other one gets the
address in the answer, for a person or a model to pass on.
"""

from __future__ import annotations

import asyncio
import logging
from time import monotonic
from typing import Final

import msgspec

from mooring.errors import UNAUTHENTICATED, URL_ELICITATION_REQUIRED, RpcError
from mooring.gateway.exchange import Exchange, Handler
from mooring.policy.asking import ask, is_accepted
from mooring.policy.credentials.oauth.flows import Flows, LoginWanted, Pending
from mooring.policy.credentials.pool import CredentialUnavailable
from mooring.protocol import jsonrpc
from mooring.protocol.versions import V2025_11_25, Era
from mooring.transports.wire import Answer

log = logging.getLogger(__name__)

MOST_LOGINS: Final = 2
"""How often one request may ask its user: once to be known, and once more for further scopes."""
ASKABLE: Final = frozenset({"tools/call", "prompts/get", "resources/read"})
"""The only requests that a modern client expects questions for."""


class LoginFailed(RpcError):
    """The user is not signed in, and will not be by themselves."""

    code = UNAUTHENTICATED


class Login:
    """The innermost middleware of servers that users sign in at."""

    def __init__(self, flows: Flows, patience_seconds: float) -> None:
        """`patience_seconds` is how long a request waits for a user who has said that they will sign in."""
        self._flows = flows
        self._patience_seconds = patience_seconds

    async def __call__(self, exchange: Exchange, handler: Handler) -> Answer | None:
        logins = 0
        while True:
            try:
                return await handler(exchange)
            except LoginWanted as wanted:
                if logins >= MOST_LOGINS:
                    raise LoginFailed(f"{wanted}, and did not take what the user granted") from wanted
                logins += 1
                try:
                    pending = await self._flows.begin(
                        wanted.party, exchange.caller.principal, wanted.challenge
                    )
                except CredentialUnavailable as error:
                    raise LoginFailed(f"{wanted}, but nobody can: {error}") from error
                if not self._can_ask(exchange):
                    return self._told(exchange, pending, wanted)
                await self._sign_in(exchange, pending, wanted)

    def _can_ask(self, exchange: Exchange) -> bool:
        if exchange.sink is None or (exchange.client.era is Era.MODERN and exchange.method not in ASKABLE):
            return False
        return exchange.client.can("elicitation/create", b'{"mode":"url","url":""}')

    async def _sign_in(self, exchange: Exchange, pending: Pending, wanted: LoginWanted) -> None:
        question = msgspec.json.encode(self._question(exchange, pending, wanted))
        if not is_accepted(await ask(exchange, question)):
            raise LoginFailed(f"{wanted}, and the user did not")
        exchange.wait_for_client()
        try:
            async with asyncio.timeout(self._patience_seconds):
                await asyncio.shield(pending.done)
        except TimeoutError:
            raise self._refusal(exchange, pending, wanted) from None
        except CredentialUnavailable as error:
            raise LoginFailed(f"{wanted}, which failed: {error}") from error
        finally:
            exchange.client_answered(monotonic())
        if exchange.client.era is Era.LEGACY and exchange.client.version >= V2025_11_25:
            params = msgspec.json.encode({"elicitationId": pending.ticket})
            exchange.emit(jsonrpc.notification("notifications/elicitation/complete", params))

    def _question(self, exchange: Exchange, pending: Pending, wanted: LoginWanted) -> dict[str, str]:
        asked = {"mode": "url", "message": f"{wanted}.", "url": self._flows.url_for(pending)}
        if exchange.client.era is Era.LEGACY:
            asked["elicitationId"] = pending.ticket
        return asked

    def _told(self, exchange: Exchange, pending: Pending, wanted: LoginWanted) -> Answer:
        """A client that cannot ask its user: the address goes into the answer."""
        if exchange.method != "tools/call":
            raise self._refusal(exchange, pending, wanted)
        result: dict[str, object] = {
            "content": [{"type": "text", "text": self._words(pending, wanted)}],
            "isError": True,
        }
        if exchange.client.era is Era.MODERN:
            result["resultType"] = "complete"
        return Answer(version=exchange.client.version, result=msgspec.json.encode(result))

    def _refusal(self, exchange: Exchange, pending: Pending, wanted: LoginWanted) -> LoginFailed:
        knows_it = (
            exchange.client.era is Era.LEGACY
            and exchange.client.version >= V2025_11_25
            and exchange.client.can("elicitation/create", b'{"mode":"url","url":""}')
        )
        return LoginFailed(
            self._words(pending, wanted),
            code=URL_ELICITATION_REQUIRED if knows_it else UNAUTHENTICATED,
            data={"elicitations": [self._question(exchange, pending, wanted)]},
        )

    def _words(self, pending: Pending, wanted: LoginWanted) -> str:
        return f"{wanted}: open {self._flows.url_for(pending)} in a browser, then try again"
