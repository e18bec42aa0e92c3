"""From the configuration to the guard: which parts are on, and the chain that each server gets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from mooring.config import guard_parts, guard_records
from mooring.config.guard_part import Hooks, InForce, Part
from mooring.config.schema import Config, Server
from mooring.gateway.principal import Caller
from mooring.policy.authentication.proof import Authenticator
from mooring.policy.catalogue import Catalogue
from mooring.policy.chain import Chain, Step, build
from mooring.policy.watching import Watch, Watches

KEYS_FILE = "keys.json"
AUDIT_FILE = guard_records.AUDIT_FILE
AUDIT_KEY = guard_records.AUDIT_KEY


def keys_file(config: Config) -> Path:
    """Where API keys are kept."""
    return config.auth.keys_file or config.storage.root / KEYS_FILE


def authenticator(config: Config) -> Authenticator | None:
    """How callers prove who they are; None while everybody is anonymous."""
    match config.auth.mode:
        case "none":
            return None
        case "api_key":
            return guard_parts.api_keys(keys_file(config))
        case "oidc":
            return guard_parts.tokens(config)
        case "shared_token":
            return guard_parts.shared_token(config)


class Guard:
    """The parts of the guard that all servers of a configuration share, and the chain of each."""

    def __init__(
        self, config: Config, *, earlier: Guard | None = None, on_top_of: Guard | None = None
    ) -> None:
        """What did not change since an earlier one goes on as it is; what only one server has comes on top of
        what all have."""
        self._config = config
        base = earlier or on_top_of
        self.hooks = Hooks() if base is None else base.hooks
        self._in_force = InForce() if earlier is None else earlier._in_force
        known = {} if earlier is None else earlier._made
        made = guard_parts.parts_of if on_top_of is None else guard_parts.configured
        self._made = made(config, self.hooks, self._in_force, known)
        self._parts: list[Part] = [part for _, part in self._made.values()]
        self._watches: dict[str, Watch] = {} if earlier is None else dict(earlier._watches)
        if earlier is None:
            self.come_into_force()

    def come_into_force(self) -> None:
        """From here on its policies and its lock are the ones that the audit names."""
        in_force = self._in_force
        in_force.policy = next((part.policy_version for part in self._parts if part.policy_version), str)
        in_force.lock = next((part.lock_hash for part in self._parts if part.lock_hash), str)

    @property
    def page(self) -> Callable[[], str] | None:
        """What Prometheus reads, if it may."""
        return next((part.page for part in self._parts if part.page is not None), None)

    def differs_from(self, other: Guard) -> bool:
        return bool(self.without(other) or other.without(self))

    def without(self, later: Guard) -> list[Part]:
        """The parts that a later guard has no use for."""
        return [part for part in self._parts if part not in later._parts]

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
        config = self._config
        if config.audit.enabled or config.webhooks.validating or config.webhooks.mutating:
            return True
        return any("address" in limit.per for limit in (*config.limits.rate, *config.limits.concurrency))

    def tidy(self) -> bool:
        """Notice what was changed on disk, seal the audit; whether lists may look different from now on.
        Called every few seconds."""
        before = self._in_force.versions()
        for part in self._parts:
            if part.tidy is not None:
                part.tidy()
        return self._in_force.versions() != before

    async def close(self) -> None:
        """Nobody uses it any more."""
        await close_parts(self._parts)


async def close_parts(parts: list[Part]) -> None:
    for part in parts:
        if part.close is not None:
            await asyncio.to_thread(part.close)
        if part.finish is not None:
            await part.finish()
