"""What a RunConfig says about the credentials of a remote server, in the words of `upstream.auth`."""

from __future__ import annotations

from typing import Any, Final, cast

import msgspec

from mooring.config.credential_rules import CREDENTIAL_RULES
from mooring.config.foreign_section import Section, seconds_of
from mooring.config.problems import key_text
from mooring.config.workload_guard import Secret, referred
from mooring.policy.credentials.settings import RoleMapping, UpstreamAuth
from mooring.workloads.runconfig import InvalidRunConfig, RunConfig

_SECTIONS: Final = (
    "remote_auth_config",
    "token_exchange_config",
    "aws_sts_config",
    "upstream_swap_config",
    "obo_config",
)
_ENTRA: Final = "https://login.microsoftonline.com"
_TOKEN_TYPES: Final = "urn:ietf:params:oauth:token-type:"  # noqa: S105 - what names of types begin with


def upstream_auth(run: RunConfig, secret: Secret) -> UpstreamAuth:
    """How its server is to be shown who asks; `InvalidRunConfig` for what cannot be."""
    given = [name for name in _SECTIONS if getattr(run.fields, name)]
    if not given:
        return UpstreamAuth()
    if len(given) > 1:
        raise InvalidRunConfig(f"`{given[0]}` and `{given[1]}`: a server takes one credential, keep one")
    name = given[0]
    if not run.is_remote:
        raise InvalidRunConfig(f"`{name}` is for remote servers: remove it, or give `remote_url`")
    section = Section(name, getattr(run.fields, name))
    made = {
        "remote_auth_config": _oauth,
        "token_exchange_config": _exchange,
        "aws_sts_config": _role,
        "upstream_swap_config": _swap,
        "obo_config": _on_behalf_of,
    }[name](section, secret)
    section.close()
    for path, message in CREDENTIAL_RULES[UpstreamAuth](made):
        raise InvalidRunConfig(f"`{name}` (`{key_text(path)}`) {message}")
    return made


def shows_token(run: RunConfig) -> bool:
    """Whether its server is shown a token of ours already, the same for everybody."""
    headers = run.fields.header_forward
    names = {*headers.add_plaintext_headers, *headers.add_headers_from_secret}
    return not run.is_remote or run.bearer_secret is not None or "authorization" in map(str.lower, names)


def _oauth(section: Section, secret: Secret) -> UpstreamAuth:
    """Every user agrees for themselves, in their browser; what ToolHive kept of its own login is not used."""
    section.ignore("usePKCE", "skipBrowser", "timeout", "callbackPort", "bearerToken")
    section.ignore_beginning_with("cached")
    found = UpstreamAuth(
        type="oauth",
        issuer=section.text("issuer"),
        authorize_url=section.text("authorizeURL"),
        token_url=section.text("tokenURL"),
        client_id=section.text("clientID"),
        client_secret=referred(f"{section.name}.client_secret", section.text("clientSecret"), secret),
        scopes=section.texts("scopes"),
        resource=section.text("resource"),
        oauth_parameters=section.pairs("oauthParams"),
        scope_parameter=section.text("scopeParamName") or "scope",
    )
    return UpstreamAuth() if found == UpstreamAuth(type="oauth") and section.had("bearerToken") else found


def _exchange(section: Section, secret: Secret) -> UpstreamAuth:
    kind = (section.text("subjectTokenType") or "access_token").removeprefix(_TOKEN_TYPES)
    if kind not in ("access_token", "id_token", "jwt"):
        raise InvalidRunConfig(f"`{section.name}.subject_token_type`: `{kind}` is not known")
    return UpstreamAuth(
        type="token_exchange",
        token_url=section.text("tokenURL"),
        client_id=section.text("clientID"),
        client_secret=referred(f"{section.name}.client_secret", section.text("clientSecret"), secret),
        audience=section.text("audience"),
        scopes=section.texts("scopes"),
        subject_token_type=kind,
        header=_header(section, "externalTokenHeaderName"),
    )


def _on_behalf_of(section: Section, secret: Secret) -> UpstreamAuth:
    tenant = section.text("tenantID")
    authority = (section.text("authority") or _ENTRA).rstrip("/")
    return UpstreamAuth(
        type="on_behalf_of",
        token_url=section.text("tokenURL") or (f"{authority}/{tenant}/oauth2/v2.0/token" if tenant else None),
        client_id=section.text("clientID"),
        client_secret=referred(f"{section.name}.client_secret", section.text("clientSecret"), secret),
        audience=section.text("audience"),
        scopes=section.texts("scopes"),
    )


def _swap(section: Section, _secret: Secret) -> UpstreamAuth:
    return UpstreamAuth(
        type="upstream_swap",
        provider=section.needed("providerName"),
        header=_header(section, "customHeaderName"),
    )


def _header(section: Section, key: str) -> str:
    name = section.text(key)
    return name or "Authorization" if section.text("headerStrategy") == "custom" else "Authorization"


def _role(section: Section, _secret: Secret) -> UpstreamAuth:
    mappings = cast("list[dict[str, Any]]", section.take("roleMappings") or [])
    try:
        roles = msgspec.convert(mappings, list[RoleMapping])
    except msgspec.ValidationError as error:
        raise InvalidRunConfig(f"`{section.name}.role_mappings`: {error}") from error
    duration = section.take("sessionDuration")
    seconds = duration if isinstance(duration, int) else seconds_of("session_duration", duration)
    return UpstreamAuth(
        type="aws_sts",
        region=section.text("region"),
        service=section.text("service") or "aws-mcp",
        fallback_role_arn=section.text("fallbackRoleArn"),
        role_mappings=roles,
        role_claim=section.text("roleClaim") or "groups",
        session_name_claim=section.text("sessionNameClaim") or "sub",
        session_duration_seconds=int(seconds or 3600),
    )
