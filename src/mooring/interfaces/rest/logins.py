"""Operations on logins: who signed in where, and the address at which somebody can."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct

from mooring.gateway.principal import Caller, Principal
from mooring.interfaces.rest.operations import ApiError, Call, Operation

if TYPE_CHECKING:  # loaded where there are logins at all
    from mooring.config.credentials_build import Credentials
    from mooring.policy.credentials.grants import Grant
    from mooring.policy.credentials.oauth.flows import Party

State = Literal["unauthenticated", "authenticated", "expired"]


class LoginState(Struct, frozen=True):
    """Whether somebody is signed in at a server or provider. Tokens are never shown."""

    name: str
    principal: str
    state: State
    issuer: str | None = None
    scopes: tuple[str, ...] = ()
    expires: Annotated[float | None, Meta(description="Unix time until which the token counts.")] = None
    renewable: bool = False
    granted_at: float | None = None


class LoginStates(Struct, frozen=True):
    logins: list[LoginState]


class LoginWish(Struct, frozen=True, forbid_unknown_fields=True):
    """Who wants to sign in; not given: whoever asks."""

    principal: str | None = None


class LoginBegun(Struct, frozen=True):
    """Where to sign in."""

    url: str


class WhoseLogin(Struct, frozen=True, forbid_unknown_fields=True):
    principal: str | None = None


class LoginOperations:
    """What the API does with logins."""

    def __init__(
        self,
        credentials: Callable[[], Credentials],
        local: Callable[[], Caller],
        on_logout: Callable[[str], None],
    ) -> None:
        self._credentials = credentials
        self._local = local
        self._on_logout = on_logout

    def table(self) -> list[Operation]:
        one = "/logins/{name}"
        return [
            Operation("GET", "/logins", "Who is signed in where.", self.list, LoginStates, local=True),
            Operation(
                "GET", one, "Whether somebody is signed in at a server.", self.get, LoginState,
                query=WhoseLogin, errors=(404,), local=True,
            ),
            Operation(
                "POST", one, "Begin to sign in: answers the address to open.", self.begin, LoginBegun,
                LoginWish, errors=(404, 502), local=True,
            ),
            Operation(
                "DELETE", one, "Sign out: forget what was granted.", self.delete, None, query=WhoseLogin,
                errors=(404,), local=True,
            ),
        ]  # fmt: skip

    async def list(self, _call: Call) -> LoginStates:
        credentials = self._credentials()
        parties = credentials.parties
        kept = await credentials.store.grants()
        found = [grant for grant in kept if _counts(parties.get(grant.party), grant)]
        states = [_state(grant.party.partition(":")[2], grant.principal, grant) for grant in found]
        signed_in = {grant.party for grant in found}
        missing = [party for key, party in parties.items() if key not in signed_in]
        principal = self._local().principal.id
        return LoginStates([*states, *(_state(party.name, principal, None) for party in missing)])

    async def get(self, call: Call) -> LoginState:
        party = self._party(call.path["name"])
        principal = call.query.principal or self._local().principal.id
        return _state(party.name, principal, await self._grant(party, principal))

    async def begin(self, call: Call) -> LoginBegun:
        from mooring.policy.credentials.oauth.asking import ask_server  # noqa: PLC0415
        from mooring.policy.credentials.pool import CredentialUnavailable  # noqa: PLC0415

        party = self._party(call.path["name"])
        wished = call.body.principal
        who = self._local().principal if wished is None else Principal(wished, wished)
        flows = self._credentials().flows
        try:
            pending = await flows.begin(party, who, await ask_server(party))
        except CredentialUnavailable as error:
            raise ApiError(502, "cannot_sign_in", f"nobody can sign in at `{party.name}`: {error}") from error
        return LoginBegun(flows.url_for(pending))

    async def delete(self, call: Call) -> None:
        from mooring.policy.credentials.grants import grant_name  # noqa: PLC0415

        name = call.path["name"]
        principal = call.query.principal or self._local().principal.id
        store = self._credentials().store
        keys = (f"server:{name}", f"provider:{name}")  # also of what is not configured any more
        if not [key for key in keys if await store.delete(grant_name(key, principal))]:
            party = self._party(name)
            raise ApiError(404, "not_signed_in", f"`{principal}` is not signed in at `{party.name}`")
        self._on_logout(name)

    def _party(self, name: str) -> Party:
        parties = self._credentials().parties
        found = parties.get(f"server:{name}") or parties.get(f"provider:{name}")
        if found is None:
            known = ", ".join(f"`{party.name}`" for party in parties.values()) or "none"
            raise ApiError(
                404, "no_such_login", f"`{name}` asks nobody to sign in; those that do: {known}",
                "set `upstream.auth.type: oauth` for the server",
            )  # fmt: skip
        return found

    async def _grant(self, party: Party, principal: str) -> Grant | None:
        from mooring.policy.credentials.grants import Grant, grant_name  # noqa: PLC0415

        found = await self._credentials().store.read(grant_name(party.key, principal), Grant)
        return found if found is not None and _counts(party, found) else None


def _counts(party: Party | None, grant: Grant) -> bool:
    """Whether it is for what goes by this name now; of what does not run at the moment, nothing is known."""
    return party is None or party.has_given(grant)


def _state(name: str, principal: str, grant: Grant | None) -> LoginState:
    if grant is None:
        return LoginState(name, principal, "unauthenticated")
    over = grant.expires < time.time() and grant.refresh_token is None
    return LoginState(
        name,
        principal,
        "expired" if over else "authenticated",
        grant.issuer or None,
        grant.scopes,
        grant.expires,
        grant.refresh_token is not None,
        grant.granted_at,
    )
