"""Rules about what we show to servers: which keys each kind of credential needs, and what never goes on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from mooring.config.problems import KeyPath
from mooring.config.reading import Rule
from mooring.policy import web
from mooring.policy.credentials.settings import PERSONAL, Provider, RoleMapping, UpstreamAuth

Findings = Iterator[tuple[KeyPath, str]]

_NAME: Final = re.compile(r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")
OWN_HEADERS: Final = frozenset({
    "accept", "accept-encoding", "connection", "content-encoding", "content-length", "content-type",
    "host", "last-event-id", "mcp-method", "mcp-name", "mcp-protocol-version", "mcp-session-id", "te",
    "trailer", "transfer-encoding", "upgrade",
})  # fmt: skip
"""What the gateway itself says to a server."""
_SECRET: Final = frozenset({"authorization", "cookie", "set-cookie", "x-api-key", "www-authenticate"})
_PLACE: Final = frozenset(
    {"forwarded", "x-real-ip", "origin", "via", "keep-alive", "expect", "http2-settings"}
)
_NEVER_BEGIN: Final = ("mcp-", "proxy-", "x-forwarded-", "x-mooring-", "content-", "accept", "sec-")
_NEEDED: Final[dict[str, tuple[str, ...]]] = {
    "none": (),
    "client_credentials": ("client_id",),
    "jwt_bearer": ("subject_token_file",),
    "token_exchange": ("token_url",),
    "on_behalf_of": ("token_url", "client_id"),
    "identity_assertion": ("identity_provider", "client_id"),
    "upstream_swap": ("provider",),
    "oauth": (),
    "aws_sigv4": ("region", "access_key", "secret_key"),
    "aws_sts": ("region",),
}
_ADDRESSES: Final = ("issuer", "authorize_url", "token_url", "sts_url")


def wrong_forwarded(name: str) -> str | None:
    """Why a header of the client's request may not go on to a server; None: it may."""
    lower = name.lower()
    if not _NAME.match(name):
        return "is not a header name"
    if lower in _SECRET:
        return "carries a credential, which is for the gateway and never goes on: remove it"
    if lower in OWN_HEADERS or lower in _PLACE or lower.startswith(_NEVER_BEGIN):
        return "belongs to the connection or is set by the gateway itself: remove it"
    return None


def upstream_auth(section: UpstreamAuth) -> Findings:
    for name in _NEEDED[section.type]:
        if not getattr(section, name):
            yield (name,), f"is missing: `type: {section.type}` needs it"
    yield from _addresses(section, section.insecure_allow_http)
    yield from _proofs(section)
    if (section.authorize_url is None) != (section.token_url is None) and section.type == "oauth":
        yield (), "needs both `authorize_url` and `token_url`, or neither: the metadata have them"
    if section.type == "aws_sts" and not section.role_mappings and section.fallback_role_arn is None:
        yield ("role_mappings",), "is missing: `type: aws_sts` needs them, or `fallback_role_arn`"
    if section.type not in PERSONAL and section.provider is not None:
        yield ("provider",), f"has no effect with `type: {section.type}`: remove it"
    if section.provider is not None and section.subject_token_file is not None:
        yield (), "has both `provider` and `subject_token_file`: keep one of them"
    if section.subject_token_file is not None and not section.subject_token_file.is_file():
        yield ("subject_token_file",), f"is not a file: {section.subject_token_file}"
    if wrong := _wrong_token_header(section.header):
        yield ("header",), wrong


def _proofs(section: UpstreamAuth) -> Findings:
    if section.client_authentication == "private_key_jwt":
        if section.private_key is None:
            yield ("private_key",), "is missing: `client_authentication: private_key_jwt` needs it"
        elif not section.private_key.is_file():
            yield ("private_key",), f"is not a file: {section.private_key}"
    elif section.private_key is not None:
        yield ("private_key",), "has no effect without `client_authentication: private_key_jwt`"
    has_secret = bool(section.client_secret) or section.client_authentication == "private_key_jwt"
    if section.type in ("client_credentials", "on_behalf_of") and not has_secret:
        yield ("client_secret",), f"is missing: `type: {section.type}` needs it, or a `private_key`"


def _wrong_token_header(name: str) -> str | None:
    lower = name.lower()
    if lower == "authorization":
        return None
    if not _NAME.match(name):
        return "is not a header name"
    if lower in OWN_HEADERS or lower.startswith("mcp-"):
        return "is set by the gateway itself: choose another one"
    return None


def provider(section: Provider) -> Findings:
    if section.issuer is None and section.token_url is None:
        yield (), "needs `issuer`, or `authorize_url` and `token_url`"
    yield from _addresses(section, section.insecure_allow_http)


def _addresses(section: UpstreamAuth | Provider, allow_http: bool) -> Findings:
    for name in _ADDRESSES:
        url = getattr(section, name, None)
        if url is not None and not web.is_safe(url, allow_http=allow_http):
            yield (name,), "must be an `https://` address (or set `insecure_allow_http: true`)"


def role_mapping(section: RoleMapping) -> Findings:
    if (section.claim is None) == (section.matcher is None):
        yield (), "needs either `claim` or `matcher`"
    if section.matcher is not None:
        from mooring.policy.credentials.roles import MatcherMistake, compiled  # noqa: PLC0415 - slow

        try:
            compiled(section.matcher)
        except MatcherMistake as mistake:
            yield ("matcher",), str(mistake)


CREDENTIAL_RULES: dict[type[Struct], Rule] = {
    UpstreamAuth: upstream_auth,
    Provider: provider,
    RoleMapping: role_mapping,
}
