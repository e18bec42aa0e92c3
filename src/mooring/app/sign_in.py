"""What servers are shown of their users, and the pages on which users agree to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Final

from mooring.config import schema
from mooring.config.credentials_build import Credentials
from mooring.gateway.dispatch import Dispatcher
from mooring.gateway.exchange import Middleware
from mooring.gateway.principal import ANONYMOUS
from mooring.gateway.server import Server
from mooring.gateway.sessions import SessionTable
from mooring.interfaces.gateway_app import GatewayApp
from mooring.policy.credentials.settings import UpstreamAuth
from mooring.protocol import jsonrpc
from mooring.workloads.supervisor_host import LoginProblem

if TYPE_CHECKING:
    from mooring.policy.credentials.grants import Grant
    from mooring.workloads.secrets.store import SecretPlaces

LISTS_CHANGED: Final = tuple(
    f"notifications/{kind}/list_changed" for kind in ("tools", "prompts", "resources")
)


class SignIn:
    """The credentials of one gateway. It is made when the gateway knows its own address."""

    def __init__(
        self,
        config: schema.Config,
        url: str,
        places: Callable[[], SecretPlaces],
        servers: Mapping[str, Server],
        sessions: SessionTable,
        dispatcher: Dispatcher,
        on_login: Callable[[str], None],
    ) -> None:
        """`on_login` is told the name of a server that somebody signed in at, or out of."""
        self._config = config
        self._url = url
        self._places = places
        self._servers = servers
        self._sessions = sessions
        self._dispatcher = dispatcher
        self._on_login = on_login
        self._has_pages = False

    @cached_property
    def credentials(self) -> Credentials:
        return Credentials(self._config.storage.root, self._url, self._config.providers, self._grants_key)

    def use(self, config: schema.Config) -> None:
        """From now on these are the providers; servers that use another one than before are made anew."""
        self._config = config
        self.credentials.use(config.providers)

    def _grants_key(self) -> bytes:
        """What grants are sealed with: a secret of ours where secrets are kept encrypted, else a key file."""
        from mooring.policy.credentials.pool import CredentialUnavailable  # noqa: PLC0415
        from mooring.workloads.secrets.errors import SecretsError  # noqa: PLC0415
        from mooring.workloads.secrets.own import own_key  # noqa: PLC0415

        try:
            return own_key(self._places(), self._config.storage.root / "grants.key")
        except SecretsError as error:
            raise CredentialUnavailable(f"what users granted cannot be opened: {error}") from error

    def middleware(self, entry: schema.Server, app: GatewayApp) -> Middleware | None:
        """Who asks users of this server to sign in; the pages for it are there from the first such server."""
        if entry.upstream is None:
            return None
        patience = self._config.sessions.suspended_ttl_seconds
        login = self.credentials.login_for(entry.upstream.auth, patience)
        if login is not None and not self._has_pages:
            from mooring.interfaces import logins  # noqa: PLC0415

            self._has_pages = True
            tells_apart = self._config.auth.mode != "none"
            pages = logins.Logins(self.credentials, self._dispatcher, tells_apart=tells_apart)
            app.add_prefix(logins.PREFIX, pages.endpoint)
            self.credentials.flows.on_granted.append(self._granted)
        return login

    async def problem_of(self, name: str, auth: UpstreamAuth) -> LoginProblem | None:
        """Why the user of this gateway cannot use the server; nothing where users are told apart."""
        if auth.type != "oauth" or self._config.auth.mode != "none":
            return None
        from mooring.policy.credentials.pool import CredentialUnavailable  # noqa: PLC0415

        try:
            grant = await self.credentials.grants_at(f"server:{name}").of(ANONYMOUS)
        except (CredentialUnavailable, OSError) as error:
            return LoginProblem(f"its token cannot be renewed: {error}", passing=True)
        return LoginProblem(f"sign in with `mooring auth login {name}`") if grant is None else None

    def _granted(self, grant: Grant) -> None:
        """A user agreed: what their clients could not list before can be listed now."""
        name = grant.party.removeprefix("server:")
        self._on_login(name)
        server = self._servers.get(name)
        for client in self._sessions.clients_of(server) if server is not None else ():
            if client.principal == grant.principal:
                for method in LISTS_CHANGED:
                    client.push(jsonrpc.notification(method))
