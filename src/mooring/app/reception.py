"""The way in: who may come, where each server is found, and what clients are told of both."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mooring.config import guarding, schema
from mooring.gateway.dispatch import Dispatcher
from mooring.interfaces.door import Door, Place, Refused
from mooring.interfaces.gateway_app import Rules
from mooring.interfaces.web_guard import WebGuard
from mooring.interfaces.well_known import PREFIX, ResourceMetadata
from mooring.interfaces.workload_fronts import Fronts
from mooring.policy.settings import Auth
from mooring.transports.http_endpoint import Buffered

InForce = Callable[[], tuple[schema.Config, guarding.Guard]]
"""What counts now: a reload changes both."""


class Reception:
    """What the configuration in force says about requests. Made when the gateway knows its own address."""

    def __init__(
        self,
        in_force: InForce,
        fronts: Fronts,
        dispatcher: Dispatcher,
        url: str,
        port: int,
        on_refused: Callable[[Refused], None],
    ) -> None:
        self._in_force = in_force
        self._fronts = fronts
        self._dispatcher = dispatcher
        self._url = url
        self._port = port
        self._on_refused = on_refused

    def url_of(self, server_id: str) -> str:
        return f"{self._url}/mcp/{server_id}"

    def rules(self, servers: Iterable[str]) -> Rules:
        """How requests are received while these servers are there."""
        config, _ = self._in_force()
        return Rules(
            guard=WebGuard(
                config.host,
                self._port,
                config.public_url,
                config.cors.allowed_origins,
                config.cors.allowed_methods,
                config.cors.allowed_headers,
            ),
            max_body_bytes=config.limits.max_body_bytes,
            trust_proxy_headers=config.trust_proxy_headers,
            api_over_tcp=config.auth.mode != "none",
            metrics=self.page(),
            door=self._door(),
            place_of=self._place,
            links_need_credentials=config.auth.links_need_credentials,
            documents=dict(filter(None, map(self.document, servers))),
            mounts={
                entry.mount_path.encode(): f"/mcp/{entry.id}".encode()
                for entry in config.servers
                if entry.mount_path is not None
            },
            doors=self._fronts.doors,
            guards=self._fronts.guards,
        )

    def page(self) -> Callable[[], str] | None:
        """What Prometheus reads, if the gateway or a workload wants it to."""
        _, guard = self._in_force()
        return guard.page or self._fronts.page

    def document(self, name: str) -> tuple[bytes, Buffered] | None:
        """What clients read about a server's authorization."""
        auth = self._auth_of(name)
        if auth.mode != "oidc":
            return None
        scopes = list(dict.fromkeys(auth.required_scopes + auth.scopes_supported))
        described = ResourceMetadata(self._resource(name), name, auth.issuer, scopes)
        return f"{PREFIX}/mcp/{name}".encode(), Buffered(described.handle, 0)

    def _door(self) -> Door | None:
        """None while it matters to nobody who calls: then nobody stands there."""
        config, guard = self._in_force()
        authenticator = guarding.authenticator(config)
        if authenticator is None and not guard.wants_callers:
            return None
        auth = config.auth
        return Door(
            authenticator,
            self._dispatcher,
            audiences=frozenset(auth.audience),
            trust_proxy_headers=config.trust_proxy_headers,
            failures_per_minute=auth.max_failures_per_minute,
            key_header=auth.shared_token_header,
            on_refused=self._on_refused,
        )

    def _place(self, server_id: str) -> Place:
        auth = self._auth_of(server_id)
        described = f"{self._url}{PREFIX}/mcp/{server_id}" if auth.mode == "oidc" else None
        return Place(server_id, self._resource(server_id), tuple(auth.required_scopes), described)

    def _auth_of(self, server_id: str) -> Auth:
        front = self._fronts.get(server_id)
        if front is None or front.guard is None:
            config, _ = self._in_force()
            return config.auth
        return front.auth

    def _resource(self, server_id: str) -> str:
        """What tokens for this server must name."""
        front = self._fronts.get(server_id)
        return (front.resource if front is not None else None) or self.url_of(server_id)
