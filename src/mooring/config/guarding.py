"""From the configuration to the guard: which parts are on, and with which settings."""

from __future__ import annotations

import msgspec

from mooring.config.schema import Config, Server
from mooring.policy.authentication.api_keys import ApiKeys, KeyStore
from mooring.policy.authentication.proof import Authenticator
from mooring.policy.authentication.tokens import ProviderSettings, Tokens
from mooring.policy.authorization.engine import Engine
from mooring.policy.authorization.guarding import Authorization
from mooring.policy.catalogue import Catalogue
from mooring.policy.chain import Chain, Step, build
from mooring.policy.settings import Tools
from mooring.policy.tools import Override, ToolRules

KEYS_FILE = "keys.json"


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


class Guard:
    """The parts of the guard that all servers of a configuration share, and the chain of each."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._engine = engine(config)

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

    def tidy(self) -> None:
        """Notice what was changed on disk; called every few seconds."""
        if self._engine is not None:
            self._engine.refresh()


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
