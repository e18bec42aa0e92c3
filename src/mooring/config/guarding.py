"""From the configuration to the guard: which parts are on, and with which settings."""

from __future__ import annotations

from mooring.config.schema import Config
from mooring.policy.authentication.api_keys import ApiKeys, KeyStore
from mooring.policy.authentication.proof import Authenticator
from mooring.policy.authentication.tokens import ProviderSettings, Tokens

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
