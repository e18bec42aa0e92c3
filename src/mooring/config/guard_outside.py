"""Parts of the guard that others bring: webhooks and plug-ins."""
# ruff: noqa: PLC0415 - libraries for policies, tokens and Redis take longer to load than a gateway to start

from __future__ import annotations

import logging
from fnmatch import fnmatchcase

from mooring.config.guard_part import Part
from mooring.config.schema import Config, Server
from mooring.errors import MooringError
from mooring.gateway.exchange import Middleware
from mooring.policy import settings
from mooring.policy.catalogue import Catalogue
from mooring.policy.chain import Step
from mooring.policy.plugins import Factory
from mooring.policy.watching import Watch

log = logging.getLogger(__name__)


def webhooks_part(config: Config) -> Part:
    from mooring.policy.webhooks import Mutating, Validating, Webhook

    def made(given: list[settings.Webhook]) -> tuple[Webhook, ...]:
        return tuple(
            Webhook(
                hook.name,
                hook.url,
                hook.timeout_seconds,
                hook.failure_policy,
                hook.hmac_secret,
                hook.ca_bundle,
                hook.client_cert,
                hook.client_key,
            )
            for hook in given
        )

    mutating, validating = made(config.webhooks.mutating), made(config.webhooks.validating)

    def steps(entry: Server, catalogue: Catalogue, watch: Watch) -> list[Step]:
        del catalogue, watch
        found: list[Step] = []
        if mutating:
            found.append(Step("mutating webhooks", middleware=Mutating(mutating, entry.id)))
        if validating:
            found.append(Step("validating webhooks", middleware=Validating(validating, entry.id)))
        return found

    return Part(steps)


def plugins_part(config: Config) -> Part:
    from mooring.policy.plugins import NOTHING, factory

    makers = [(plugin, factory(plugin.name)) for plugin in config.plugins if plugin.name not in NOTHING]
    for plugin in config.plugins:
        if plugin.name in NOTHING:
            log.warning(
                "the middleware `%s` is accepted and does nothing: %s", plugin.name, NOTHING[plugin.name]
            )

    def steps(entry: Server, catalogue: Catalogue, watch: Watch) -> list[Step]:
        del catalogue, watch
        return [
            Step("plug-ins", middleware=_made(make, entry.id, plugin))
            for plugin, make in makers
            if not plugin.servers or any(fnmatchcase(entry.id, pattern) for pattern in plugin.servers)
        ]

    return Part(steps)


def _made(make: Factory, server_id: str, plugin: settings.Plugin) -> Middleware:
    try:
        return make(server_id, plugin.settings)
    except Exception as error:
        raise MooringError(
            f"the plug-in `{plugin.name}` cannot be set up for `{server_id}`: {type(error).__name__}: {error}"
        ) from error
