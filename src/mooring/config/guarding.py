"""From the configuration to the guard: which parts are on, and with which settings."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from mooring.config.schema import Config, Server
from mooring.gateway.principal import Caller
from mooring.policy.audit.ledger import Ledger, SigningKey, Sink, StandardOutput
from mooring.policy.audit.observing import Audit, AuditPolicy, ServerAudit
from mooring.policy.authentication.api_keys import ApiKeys, KeyStore
from mooring.policy.authentication.proof import Authenticator
from mooring.policy.authentication.tokens import ProviderSettings, Tokens
from mooring.policy.authorization.engine import Engine
from mooring.policy.authorization.guarding import Authorization
from mooring.policy.catalogue import Catalogue
from mooring.policy.chain import Chain, Step, build
from mooring.policy.items import TOOLS
from mooring.policy.settings import Tools
from mooring.policy.tools import Override, ToolRules
from mooring.policy.watching import Watch

KEYS_FILE = "keys.json"
AUDIT_FILE = "audit.log"
AUDIT_KEY = "audit.key"


def authenticator(config: Config) -> Authenticator | None:
    """How callers prove who they are; None while everybody is anonymous."""
    auth = config.auth
    match auth.mode:
        case "none":
            return None
        case "api_key":
            return ApiKeys(KeyStore(auth.keys_file or config.storage.root / KEYS_FILE))
        case "oidc":
            return Tokens(
                ProviderSettings(
                    issuer=auth.issuer,
                    jwks_url=auth.jwks_url,
                    introspection_url=auth.introspection_url,
                    client_id=auth.client_id,
                    client_secret=auth.client_secret,
                    algorithms=tuple(auth.algorithms),
                    clock_skew_seconds=auth.clock_skew_seconds,
                    allow_http=auth.insecure_allow_http,
                )
            )


def engine(config: Config) -> Engine | None:
    """The policies; None while nothing is written down. Raises `PolicyMistake`."""
    wanted = config.authorization
    if wanted.type == "none":
        return None
    return Engine(
        tuple(wanted.policies),
        wanted.entities,
        group_claim=wanted.group_claim,
        role_claim=wanted.role_claim,
    )


def audit(config: Config, versions: Callable[[], tuple[str, str]]) -> Audit:
    wanted = config.audit
    root = config.storage.root
    sink: Sink = StandardOutput()
    if wanted.output == "file":
        sink = Ledger(
            wanted.file or root / AUDIT_FILE,
            SigningKey(root / AUDIT_KEY),
            rotate_bytes=wanted.rotate_bytes,
            keep_files=wanted.keep_files,
            sync=wanted.sync,
        )
    policy = AuditPolicy(
        component=wanted.component,
        types=frozenset(wanted.event_types),
        excluded=frozenset(wanted.exclude_event_types),
        request_data=wanted.include_request_data,
        response_data=wanted.include_response_data,
        application_errors=wanted.detect_application_errors,
        max_data_bytes=wanted.max_data_bytes,
        claims=wanted.include_claims,
    )
    return Audit(sink, policy, versions)


class Guard:
    """The parts of the guard that all servers of a configuration share, and the chain of each."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._engine = engine(config)
        self._audit = audit(config, self._versions) if config.audit.enabled else None
        self._watches: dict[str, Watch] = {}

    def chain_for(self, entry: Server) -> Chain:
        """What a request for this server passes, in the one order."""
        steps: list[Step] = []
        catalogue = Catalogue()
        if entry.tools != Tools():
            rules = tool_rules(entry.tools)
            methods = frozenset({"tools/list", "tools/call"})
            steps.append(
                Step(
                    "filter and override",
                    check=rules.check,
                    present=rules.present,
                    needs_catalogue=True,
                    methods=methods,
                )
            )
        if self._audit is not None:
            observer = ServerAudit(
                self._audit, entry.id, lambda exchange, name: catalogue.view(exchange, TOOLS).digest(name)
            )
            self._watches[entry.id] = Watch(observer)
            steps.append(Step("audit", observer=observer))
        if self._engine is not None:
            rule = Authorization(self._engine, catalogue, entry.id, entry.group)
            steps.append(
                Step(
                    "authorization",
                    check=rule.check,
                    present=rule.present,
                    settle=rule.settle,
                    needs_catalogue=True,
                )
            )
        return build(steps, catalogue)

    def watch_for(self, server_id: str) -> Watch | None:
        """Who is told of what does not pass the chain."""
        return self._watches.get(server_id)

    def refused(self, server_id: str, caller: Caller, status: int, reason: str) -> None:
        """The door did not let somebody in."""
        watch = self._watches.get(server_id)
        if watch is not None and watch.audit is not None:
            watch.audit.refused(caller, status, reason)

    @property
    def wants_callers(self) -> bool:
        """Whether it matters where requests come from, even if nobody is authenticated."""
        return self._audit is not None

    def tidy(self) -> None:
        """Notice what was changed on disk, seal the audit; called every few seconds."""
        if self._engine is not None:
            self._engine.refresh()
        if self._audit is not None:
            self._audit.tidy()

    def close(self) -> None:
        if self._audit is not None:
            self._audit.close()

    def _versions(self) -> tuple[str, str]:
        return self._engine.version if self._engine is not None else "", ""


def tool_rules(tools: Tools) -> ToolRules:
    overrides = {
        name: Override(
            name=entry.name,
            description=entry.description,
            title=entry.title,
            annotations={
                hint: value
                for hint, value in msgspec.structs.asdict(entry.annotations).items()
                if value is not None
            },
        )
        for name, entry in tools.override.items()
    }
    return ToolRules(tools.allow, tools.deny, overrides)
