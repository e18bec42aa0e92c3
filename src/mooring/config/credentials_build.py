"""From the configuration to what servers are shown: a credential for each, and the logins of their users."""
# ruff: noqa: PLC0415 - what is not configured is not loaded: a gateway without credentials starts sooner

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mooring.policy.credentials.settings import Provider, UpstreamAuth
from mooring.transports.http_client import ClientPool, Origin, TlsContext, shared_tls_context
from mooring.transports.http_limits import ClientLimits

if TYPE_CHECKING:  # types only: each of these is loaded where it is needed
    from mooring.policy.credentials.grants import GrantStore
    from mooring.policy.credentials.issuing import Issuing
    from mooring.policy.credentials.login import Login
    from mooring.policy.credentials.oauth import discovery
    from mooring.policy.credentials.oauth.flows import Flows, Party
    from mooring.policy.credentials.oauth.tokens import ClientIdentity
    from mooring.policy.credentials.own_token import Wanted
    from mooring.policy.credentials.pool import Credential
    from mooring.policy.credentials.subjects import Subjects
    from mooring.policy.credentials.user_grants import Grants

LOGIN_PATH: Final = "/oauth/login/"
CALLBACK_PATH: Final = "/oauth/callback"
DOCUMENT_PATH: Final = "/oauth/client.json"
SERVER: Final = "server:"
PROVIDER: Final = "provider:"
"""What the keys of those begin with whom users sign in at."""


class Credentials:
    """What the servers of one gateway are shown, and the users who have to agree to it."""

    def __init__(
        self, folder: Path, url: str, providers: Mapping[str, Provider], key: Callable[[], bytes]
    ) -> None:
        """`url` is where browsers find this gateway; `key` is what grants are sealed with."""
        self._folder = folder
        self._url = url
        self._providers = providers
        self._key = key
        self._known: dict[str, Grants] = {}

    # For the gateway

    def use(self, providers: Mapping[str, Provider]) -> None:
        """The configuration changed: users sign in at these providers from now on."""
        self._providers = providers
        for name in [party.name for key, party in self.parties.items() if key.startswith(PROVIDER)]:
            if name not in providers:
                del self._known[PROVIDER + name]

    def forget(self, server_id: str) -> None:
        """A server is gone: nobody signs in there any more."""
        self._known.pop(SERVER + server_id, None)

    async def forget_grants(self, server_id: str) -> None:
        """It was removed for good: what users granted for it goes with it."""
        if self._known.pop(SERVER + server_id, None) is not None:
            await self.store.delete_all(SERVER + server_id)

    def pool_for(
        self,
        server_id: str,
        url: str,
        auth: UpstreamAuth,
        limits: ClientLimits,
        *,
        forwards: bool = False,
        tls: TlsContext = shared_tls_context,
    ) -> ClientPool:
        """The connections to a remote server, with our credential on every request where one is wanted."""
        origin = Origin.of(url)
        if auth.type == "none" and not forwards:
            return ClientPool(origin, limits, tls)
        from mooring.policy.credentials.pool import CredentialPool

        credential = self._credential(server_id, url, auth)
        return CredentialPool(origin, limits, credential, forwards=forwards, tls=tls)

    def login_for(self, auth: UpstreamAuth, patience_seconds: float) -> Login | None:
        """The middleware that asks users; None where nobody has to be asked."""
        if auth.type not in ("oauth", "upstream_swap") and auth.provider is None:
            return None
        from mooring.policy.credentials.login import Login

        return Login(self.flows, patience_seconds)

    @property
    def parties(self) -> Mapping[str, Party]:
        """What users can sign in at, by its key."""
        return {key: grants.party for key, grants in self._known.items()}

    def grants_at(self, key: str) -> Grants:
        """What users granted for one of the `parties`."""
        return self._known[key]

    @cached_property
    def store(self) -> GrantStore:
        from mooring.policy.credentials.grants import FOLDER, GrantStore

        return GrantStore(self._folder / FOLDER, self._key)

    @cached_property
    def flows(self) -> Flows:
        from mooring.policy.credentials.oauth.clients import Registrar
        from mooring.policy.credentials.oauth.flows import Flows

        document = f"{self._url}{DOCUMENT_PATH}" if self._url.startswith("https://") else None
        registrar = Registrar(self.store, f"{self._url}{CALLBACK_PATH}", document)
        return Flows(self.store, registrar, lambda ticket: f"{self._url}{LOGIN_PATH}{ticket}")

    @property
    def is_secure(self) -> bool:
        """Whether browsers reach us over HTTPS."""
        return self._url.startswith("https://")

    @property
    def client_document(self) -> dict[str, object]:
        """What we are, for authorization servers that read it from where our `client_id` points."""
        from mooring.policy.credentials.oauth.clients import client_metadata

        own = f"{self._url}{DOCUMENT_PATH}"
        return {"client_id": own, "client_uri": self._url, **client_metadata(f"{self._url}{CALLBACK_PATH}")}

    # One kind each

    def _credential(self, server_id: str, url: str, auth: UpstreamAuth) -> Credential:
        from mooring.policy.credentials.pool import NoCredential

        match auth.type:
            case "none":
                return NoCredential()
            case "client_credentials" | "jwt_bearer":
                return self._own_token(url, auth)
            case "token_exchange" | "on_behalf_of" | "identity_assertion":
                return self._exchanged(url, auth)
            case "upstream_swap":
                return self._grant(self._provider_grants(auth.provider or ""), auth)
            case "oauth":
                return self._grant(self._grants(_server_party(server_id, url, auth)), auth)
            case "aws_sigv4":
                return _signature(url, auth)
            case "aws_sts":
                return self._role(url, auth)

    def _own_token(self, url: str, auth: UpstreamAuth) -> Credential:
        from mooring.policy.credentials.own_token import OwnToken

        file = auth.subject_token_file if auth.type == "jwt_bearer" else None
        return OwnToken(
            _issuing(url, auth), _identity(auth), _wanted(auth), assertion=file, header=auth.header
        )

    def _exchanged(self, url: str, auth: UpstreamAuth) -> Credential:
        from mooring.policy.credentials import exchange

        subjects = self._subjects(auth)
        trade: exchange.Trade
        if auth.type == "on_behalf_of":
            trade = exchange.OnBehalfOf(_identity(auth))
        elif auth.type == "token_exchange":
            trade = exchange.TokenExchange(_identity(auth), subjects.type_name, auth.requested_token_type)
        else:
            provider = self._providers[auth.identity_provider or ""]
            trade = exchange.IdentityAssertion(
                _identity(auth), subjects.type_name, _issuing("", provider), _identity(provider)
            )
        return exchange.Exchanged(_issuing(url, auth), subjects, trade, _wanted(auth), header=auth.header)

    def _role(self, url: str, auth: UpstreamAuth) -> Credential:
        from mooring.policy.credentials.roles import Roles
        from mooring.policy.credentials.sts import AwsRole, StsSettings

        settings = StsSettings(
            auth.region or "",
            auth.service,
            Origin.of(url).authority,
            auth.sts_url,
            auth.session_name_claim,
            auth.session_duration_seconds,
        )
        roles = Roles(auth.role_mappings, auth.role_claim, auth.fallback_role_arn)
        return AwsRole(settings, roles, self._subjects(auth))

    def _grant(self, grants: Grants, auth: UpstreamAuth) -> Credential:
        from mooring.policy.credentials.user_grants import UserGrant

        return UserGrant(grants, auth.header)

    def _subjects(self, auth: UpstreamAuth) -> Subjects:
        from mooring.policy.credentials.subjects import Subjects

        grants = self._provider_grants(auth.provider) if auth.provider is not None else None
        return Subjects(auth.subject_token_type, grants, auth.subject_token_file)

    def _provider_grants(self, name: str) -> Grants:
        return self._grants(_provider_party(name, self._providers[name]))

    def _grants(self, party: Party) -> Grants:
        from mooring.policy.credentials.user_grants import Grants

        grants = self._known[party.key] = Grants(party, self.store)
        return grants


def _server_party(server_id: str, url: str, auth: UpstreamAuth) -> Party:
    from mooring.policy.credentials.oauth.flows import Party

    return Party(
        f"{SERVER}{server_id}",
        server_id,
        url,
        _settings(auth),
        _identity(auth),
        tuple(auth.scopes),
        auth.scope_parameter,
        tuple(auth.oauth_parameters.items()),
        auth.resource,
        auth.client_metadata_url,
    )


def _provider_party(name: str, provider: Provider) -> Party:
    from mooring.policy.credentials.oauth.flows import Party

    return Party(
        f"{PROVIDER}{name}",
        name,
        None,
        _settings(provider),
        _identity(provider),
        tuple(provider.scopes),
        parameters=tuple(provider.oauth_parameters.items()),
    )


def _settings(auth: UpstreamAuth | Provider) -> discovery.Settings:
    from mooring.policy.credentials.oauth import discovery

    return discovery.Settings(auth.issuer, auth.authorize_url, auth.token_url, auth.insecure_allow_http)


def _issuing(url: str, auth: UpstreamAuth | Provider) -> Issuing:
    from mooring.policy.credentials.issuing import Issuing

    return Issuing(url, _settings(auth))


def _identity(auth: UpstreamAuth | Provider) -> ClientIdentity:
    from mooring.policy.credentials.oauth.tokens import ClientIdentity

    given = auth.client_id, auth.client_secret, auth.client_authentication
    if isinstance(auth, Provider):
        return ClientIdentity(*given)
    return ClientIdentity(*given, auth.private_key, auth.private_key_algorithm)


def _wanted(auth: UpstreamAuth) -> Wanted:
    from mooring.policy.credentials.own_token import Wanted

    return Wanted(tuple(auth.scopes), auth.audience, auth.resource)


def _signature(url: str, auth: UpstreamAuth) -> Credential:
    from mooring.policy.credentials.sigv4 import AwsSignature, Keys

    keys = Keys(auth.access_key or "", auth.secret_key or "", auth.session_token)
    return AwsSignature(keys, auth.region or "", auth.service, Origin.of(url).authority)
