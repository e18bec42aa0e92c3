"""Rules about the guard's sections that their types cannot say."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from mooring.config.credential_rules import CREDENTIAL_RULES
from mooring.config.problems import KeyPath
from mooring.config.reading import Rule
from mooring.policy import web
from mooring.policy.settings import (
    ALGORITHMS,
    Auth,
    Authorization,
    Plugin,
    Telemetry,
    Tools,
    Webhooks,
)

Findings = Iterator[tuple[KeyPath, str]]


def _auth(auth: Auth) -> Findings:
    if auth.mode == "shared_token" and auth.shared_token is None:
        yield ("shared_token",), "is missing: `mode: shared_token` needs it"
    for name in ("shared_token", "shared_token_header"):
        if auth.mode != "shared_token" and getattr(auth, name) is not None:
            yield (name,), f"has no effect with `mode: {auth.mode}`: set `mode: shared_token` or remove it"
    if auth.mode == "oidc":
        if auth.issuer is None and auth.introspection_url is None:
            yield (), "with `mode: oidc` needs `issuer` (or `introspection_url`): whose tokens count?"
        if auth.issuer is None and auth.jwks_url is not None:
            yield ("jwks_url",), "needs `issuer` beside it: a key alone does not say whose tokens count"
    else:
        given = [name for name in ("issuer", "jwks_url", "introspection_url") if getattr(auth, name)]
        for name in given:
            yield (name,), f"has no effect with `mode: {auth.mode}`: set `mode: oidc` or remove it"
    for name in ("issuer", "jwks_url", "introspection_url"):
        url = getattr(auth, name)
        if url is not None and not web.is_safe(url, allow_http=auth.insecure_allow_http):
            yield (name,), "must be an `https://` address (or set `insecure_allow_http: true`)"
    for index, name in enumerate(auth.algorithms):
        if name not in ALGORITHMS:
            yield ("algorithms", index), f"cannot be `{name}`: known are {', '.join(ALGORITHMS)}"


def _tools(tools: Tools) -> Findings:
    for index, text in enumerate(tools.deny_regex):
        try:
            re.compile(text)
        except re.error as error:
            yield ("deny_regex", index), f"is not a regular expression: {error}"
    given: dict[str, str] = {}
    for actual, entry in tools.override.items():
        if entry.name is None:
            continue
        if not entry.name:
            yield ("override", actual, "name"), "is empty: give a name, or remove it"
        elif entry.name in given:
            yield ("override", actual, "name"), f"is also the new name of `{given[entry.name]}`: change one"
        given[entry.name] = actual


def _authorization(section: Authorization) -> Findings:
    if section.type == "none":
        if section.policies or section.entities is not None:
            yield ("type",), "is `none`, so the policies would do nothing: set `type: cedarv1`"
        return
    if not section.policies:
        yield ("policies",), "is missing: without policies nothing at all is allowed"
        return
    from mooring.policy.authorization.sources import PolicyMistake, read_sources  # noqa: PLC0415 - slow

    try:
        read_sources(tuple(section.policies), section.entities)
    except PolicyMistake as mistake:
        yield ("policies",), str(mistake)


def _webhooks(section: Webhooks) -> Findings:
    for kind in ("validating", "mutating"):
        for index, hook in enumerate(getattr(section, kind)):
            if not web.is_safe(hook.url, allow_http=section.insecure_allow_http):
                yield (
                    (kind, index, "url"),
                    "must be an `https://` address (or set `insecure_allow_http: true`)",
                )
            if (hook.client_cert is None) != (hook.client_key is None):
                yield (kind, index), "needs both `client_cert` and `client_key`, or neither"


def _plugin(plugin: Plugin) -> Findings:
    from mooring.policy.plugins import NOTHING, PluginMissing, factory  # noqa: PLC0415 - looks at every package

    try:
        if plugin.name not in NOTHING:
            factory(plugin.name)
    except PluginMissing as missing:
        yield ("name",), str(missing)


def has_telemetry() -> bool:
    """Whether the packages for traces and figures are here."""
    return importlib.util.find_spec("opentelemetry.sdk") is not None


def _telemetry(section: Telemetry) -> Findings:
    if section.otlp_endpoint is not None and not has_telemetry():
        yield ("otlp_endpoint",), "needs more packages: install `mooring[telemetry]`"


POLICY_RULES: dict[type[Struct], Rule] = {
    Auth: _auth,
    Authorization: _authorization,
    Tools: _tools,
    Webhooks: _webhooks,
    Plugin: _plugin,
    Telemetry: _telemetry,
    **CREDENTIAL_RULES,
}


def is_guarded(auth: Any) -> bool:
    """Whether callers must prove who they are."""
    return auth.mode != "none"
