"""Rate limits that several gateways share, counted in Redis: one round trip for all limits of a request."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Final, cast

import redis.asyncio as redis
from redis.exceptions import RedisError

from mooring.errors import TooMuch
from mooring.gateway.exchange import Exchange, Handler
from mooring.gateway.principal import Caller
from mooring.policy.limits.counting import NO_NAMES, tool_of
from mooring.policy.limits.rules import Limit
from mooring.transports.wire import Answer

log = logging.getLogger(__name__)

ASK_SECONDS: Final = 0.5
"""Longer than this a limit must not hold up a request."""
AWAY_SECONDS: Final = 5.0
"""When to try again while Redis is away: nobody knows, so not at once."""
PREFIX: Final = "mooring:rate:"
# The generic cell rate algorithm over all keys: either every one of them is charged, or none. Times are
# microseconds of Redis's own clock, so that gateways with different clocks agree.
SCRIPT: Final = """
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local due = {}
for i, key in ipairs(KEYS) do
  local interval, tolerance = tonumber(ARGV[2 * i - 1]), tonumber(ARGV[2 * i])
  local arrival = math.max(tonumber(redis.call('GET', key) or now), now)
  local wait = arrival - tolerance - now
  if wait > 0 then return {i, wait} end
  due[i] = arrival + interval
end
for i, key in ipairs(KEYS) do
  redis.call('SET', key, string.format('%.0f', due[i]), 'PX', math.ceil((due[i] - now) / 1000) + 1000)
end
return {0, 0}
"""


class SharedRates:
    """Rate limits in Redis. While it is away, everything or nothing passes, as configured, and it is said."""

    def __init__(self, url: str, limits: Sequence[Limit], *, fails_open: bool) -> None:
        self._limits = tuple(limits)
        self._fails_open = fails_open
        factory: Any = redis.Redis
        self._client: Any = factory.from_url(
            url, socket_timeout=ASK_SECONDS, socket_connect_timeout=ASK_SECONDS
        )
        self._script: Any = self._client.register_script(SCRIPT)
        self.available = True

    async def spend(self, server: str, caller: Caller, method: str, tool: str, own: str = "") -> None:
        concerned = [
            (limit, key)
            for limit in self._limits
            if (key := limit.key(server, caller, method, tool, own)) is not None
        ]
        if not concerned:
            return
        keys = [PREFIX + key for _, key in concerned]
        arguments: list[int] = []
        for limit, _ in concerned:
            interval = limit.seconds / limit.count * 1e6
            arguments += (round(interval), round(interval * ((limit.burst or limit.count) - 1)))
        try:
            async with asyncio.timeout(ASK_SECONDS):
                asked = cast("Awaitable[list[int]]", self._script(keys=keys, args=arguments))
                number, wait = await asked
        except (RedisError, OSError, TimeoutError) as error:
            self._lost(error)
            return
        self._found()
        if number:
            raise TooMuch(f"the limit `{concerned[number - 1][0].name}` is reached", wait / 1e6)

    def _lost(self, error: Exception) -> None:
        if self.available:
            choice = "let through" if self._fails_open else "refused"
            log.error("the rate limits cannot be counted (%s); requests are %s", error, choice)
        self.available = False
        if not self._fails_open:
            raise TooMuch("the rate limits cannot be counted now", AWAY_SECONDS)

    def trouble(self) -> str | None:
        """For the health report."""
        if self.available:
            return None
        choice = "let through" if self._fails_open else "refused"
        return f"the rate limits cannot be counted: Redis is away, requests are {choice}"

    def _found(self) -> None:
        if not self.available:
            log.info("the rate limits are counted again")
        self.available = True

    async def close(self) -> None:
        await self._client.aclose()


class ServerSharedRates:
    """The middleware of one server."""

    def __init__(self, rates: SharedRates, server_id: str, own_names: Mapping[str, str] = NO_NAMES) -> None:
        self._rates = rates
        self._server_id = server_id
        self._own = own_names

    async def spend(self, caller: Caller, method: str) -> None:
        """Count what is no exchange; `TooMuch` if it is too much."""
        await self._rates.spend(self._server_id, caller, method, "")

    async def __call__(self, exchange: Exchange, handler: Handler) -> Answer | None:
        if not exchange.guarded:
            tool = tool_of(exchange)
            own = self._own.get(tool, "")
            await self._rates.spend(self._server_id, exchange.caller, exchange.method, tool, own)
        return await handler(exchange)
