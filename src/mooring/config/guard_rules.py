"""Parts of the guard that decide: what is shown, what is allowed, and how much of it."""
# ruff: noqa: PLC0415 - libraries for policies, tokens and Redis take longer to load than a gateway to start

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from mooring.config import savings
from mooring.config.guard_part import LISTED_AND_CALLED, Part
from mooring.config.own_items import own_items
from mooring.config.schema import Config, Server
from mooring.gateway.exchange import Exchange, Handler
from mooring.policy.catalogue import Catalogue
from mooring.policy.chain import Step
from mooring.policy.items import TOOLS, OwnItems, absent
from mooring.policy.limits.rules import Limit
from mooring.policy.settings import ConcurrencyLimit, RateLimit, Tools
from mooring.policy.tools import Override, ToolRules
from mooring.policy.watching import Watch
from mooring.workloads.store import DEFAULT_GROUP


def tools_part(config: Config) -> Part:
    def steps(entry: Server, catalogue: Catalogue, watch: Watch) -> list[Step]:
        del watch
        if entry.tools == Tools():
            return []
        rules = tool_rules(entry.tools, own_items(config, entry))
        catalogue.judges.append(lambda _, name: rules.shown(name))
        return [
            Step(
                "filter and override",
                check=rules.check,
                present=rules.present,
                needs_catalogue=True,
                methods=LISTED_AND_CALLED,
            )
        ]

    return Part(steps)


def saving_steps(entry: Server, catalogue: Catalogue, watch: Watch) -> list[Step]:
    del catalogue, watch
    return savings.steps(entry.savings)


def tool_rules(tools: Tools, own: OwnItems) -> ToolRules:
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
    return ToolRules(tools.allow, tools.deny, overrides, own.tools, tools.deny_regex)


def authorization_part(config: Config) -> Part:
    from mooring.policy.authorization.engine import Engine
    from mooring.policy.authorization.guarding import Authorization

    wanted = config.authorization
    engine = Engine(
        tuple(wanted.policies),
        wanted.entities,
        group_claim=wanted.group_claim,
        role_claim=wanted.role_claim,
    )

    def steps(entry: Server, catalogue: Catalogue, watch: Watch) -> list[Step]:
        rule = Authorization(
            engine, catalogue, entry.id, entry.group or DEFAULT_GROUP, own_items(config, entry)
        )
        watch.may_call, watch.may_read = rule.may_call, rule.may_read
        catalogue.judges.append(rule.shown)
        return [
            Step(
                "authorization",
                check=rule.check,
                present=rule.present,
                settle=rule.settle,
                settles=frozenset({"resources/read"}),
                needs_catalogue=True,
            )
        ]

    return Part(steps, tidy=engine.refresh, policy_version=lambda: engine.version)


def approvals_part(config: Config) -> Part:
    from mooring.policy.approvals import FOLDER, Approvals, Requests

    requests = Requests(config.storage.root / FOLDER)

    def steps(entry: Server, catalogue: Catalogue, watch: Watch) -> list[Step]:
        del watch
        if not entry.approvals.tools:
            return []

        async def definition_of(exchange: Exchange, name: str, handler: Handler) -> str:
            await catalogue.look_up(exchange, TOOLS, name, handler)
            if catalogue.shown(exchange, name) is None:  # nobody is asked about what its caller cannot see
                raise absent(exchange, TOOLS, name)
            return catalogue.view(exchange, TOOLS).digest(name)

        wanted = entry.approvals
        asking = Approvals(requests, entry.id, wanted.tools, wanted.ttl_seconds, definition_of)
        return [Step("approvals", middleware=asking, methods=LISTED_AND_CALLED)]

    return Part(steps)


def limits_part(config: Config) -> Part:
    from mooring.policy.limits.counting import Concurrency, Rates, ServerConcurrency, ServerRates

    limits = [_rate(number, limit) for number, limit in enumerate(config.limits.rate, 1)]
    store = config.limits.rate_store
    shared, close = _shared_rates(config, limits) if limits and store.url is not None else (None, None)
    rates = Rates(limits) if limits and store.url is None else None
    together = Concurrency([_concurrency(n, limit) for n, limit in enumerate(config.limits.concurrency, 1)])

    def steps(entry: Server, catalogue: Catalogue, watch: Watch) -> list[Step]:
        del catalogue
        found = [] if shared is None else [shared(entry, watch)]
        if rates is not None:
            counted = ServerRates(rates, entry.id, _own_names(entry))
            watch.rates = counted
            watch.spend = counted.spend
            found.append(Step("rate limits", check=counted.check))
        if config.limits.concurrency:
            running = ServerConcurrency(together, entry.id, _own_names(entry))
            found.append(Step("rate limits", observer=running, check=running.check))
        return found

    return Part(steps, finish=close)


def _own_names(entry: Server) -> dict[str, str]:
    return {given.name: name for name, given in entry.tools.override.items() if given.name is not None}


def _shared_rates(
    config: Config, limits: list[Limit]
) -> tuple[Callable[[Server, Watch], Step], Callable[[], Awaitable[None]]]:
    from mooring.policy.limits.shared import ServerSharedRates, SharedRates

    store = config.limits.rate_store
    assert store.url is not None
    rates = SharedRates(store.url, limits, fails_open=store.when_unavailable == "open")

    def step(entry: Server, watch: Watch) -> Step:
        watch.troubles.append(rates.trouble)
        counted = ServerSharedRates(rates, entry.id, _own_names(entry))
        watch.spend = counted.spend
        return Step("rate limits", middleware=counted)

    return step, rates.close


def _rate(number: int, limit: RateLimit) -> Limit:
    return Limit(
        f"rate {number}",
        tuple(limit.per),
        limit.count,
        limit.seconds,
        limit.burst,
        tuple(limit.servers),
        tuple(limit.tools),
        tuple(limit.methods),
    )


def _concurrency(number: int, limit: ConcurrencyLimit) -> Limit:
    return Limit(
        f"concurrency {number}",
        tuple(limit.per),
        limit.count,
        0,
        servers=tuple(limit.servers),
        tools=tuple(limit.tools),
    )
