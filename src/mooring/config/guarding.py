"""From the configuration to the guard: which parts are on, and the chain that each server gets."""

from __future__ import annotations

import asyncio

from mooring.config import guard_parts, guard_records
from mooring.config.guard_part import Hooks, Part
from mooring.config.schema import Config, Server
from mooring.gateway.principal import Caller
from mooring.policy.authentication.proof import Authenticator
from mooring.policy.catalogue import Catalogue
from mooring.policy.chain import Chain, Step, build
from mooring.policy.watching import Watch, Watches

KEYS_FILE = "keys.json"
AUDIT_FILE = guard_records.AUDIT_FILE
AUDIT_KEY = guard_records.AUDIT_KEY


def authenticator(config: Config) -> Authenticator | None:
    """How callers prove who they are; None while everybody is anonymous."""
    match config.auth.mode:
        case "none":
            return None
        case "api_key":
            return guard_parts.api_keys(config, KEYS_FILE)
        case "oidc":
            return guard_parts.tokens(config)


class Guard:
    """The parts of the guard that all servers of a configuration share, and the chain of each."""

    def __init__(self, config: Config, on_top_of: Guard | None = None) -> None:
        self._config = config
        self.hooks = on_top_of.hooks if on_top_of is not None else Hooks()
        made = guard_parts.parts_of if on_top_of is None else guard_parts.configured
        self._parts: list[Part] = made(config, self.hooks)
        self._watches: dict[str, Watch] = {}

    def chain_for(self, entry: Server, own: Guard | None = None) -> Chain:
        """What a request for this server passes, in the one order; `own` is what only this server has."""
        catalogue = Catalogue()
        steps: list[Step] = []
        watches: list[Watch] = []
        for guard in (self,) if own is None else (self, own):
            watch = Watch()
            for part in guard._parts:
                steps += part.steps(entry, catalogue, watch)
            if watch.is_needed:
                watches.append(watch)
        self._watches.pop(entry.id, None)
        if watches:
            self._watches[entry.id] = watches[0] if len(watches) == 1 else Watches(*watches)
        return build(steps, catalogue)

    def watch_for(self, server_id: str) -> Watch | None:
        """Who is told of what does not pass the chain."""
        return self._watches.get(server_id)

    def refused(self, server_id: str, caller: Caller, status: int, reason: str) -> None:
        """The door did not let somebody in."""
        watch = self._watches.get(server_id)
        if watch is not None:
            watch.refused(caller, status, reason)

    @property
    def wants_callers(self) -> bool:
        """Whether it matters where requests come from, even if nobody is authenticated."""
        limits = (*self._config.limits.rate, *self._config.limits.concurrency)
        return self._config.audit.enabled or any("address" in limit.per for limit in limits)

    def tidy(self) -> None:
        """Notice what was changed on disk, seal the audit; called every few seconds."""
        for part in self._parts:
            if part.tidy is not None:
                part.tidy()

    async def close(self) -> None:
        """Nobody uses it any more."""
        for part in self._parts:
            if part.close is not None:
                await asyncio.to_thread(part.close)
            if part.finish is not None:
                await part.finish()
