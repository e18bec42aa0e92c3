"""From a wanted host and port to a connection to an address that was judged, or a refusal that is noted."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from mooring.errors import MooringError
from mooring.workloads.egress.policy import Address, EgressPolicy, canonical, literal
from mooring.workloads.profile import HOST_NAMES
from mooring.workloads.runtime import Refused

log = logging.getLogger(__name__)

CONNECT_SECONDS: Final = 15.0
"""How long a host may take to answer, all its addresses together."""
RESOLVE_SECONDS: Final = 10.0
KEPT_REFUSALS: Final = 200

Resolve: TypeAlias = Callable[[str, int], Awaitable[list[Address]]]
Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]


THIS_MACHINE: Final = ipaddress.ip_address("127.0.0.1")


class NotAllowed(MooringError):
    """The profile does not allow it."""


class NotReached(MooringError):
    """It is allowed, but nobody answers there."""


async def resolve_here(host: str, port: int) -> list[Address]:
    """The addresses of a name, as this machine finds them."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]


class Gate:
    """Judges and dials for one workload; remembers what it refused."""

    def __init__(
        self,
        policy: EgressPolicy,
        on_refused: Callable[[Refused], None],
        *,
        resolve: Resolve = resolve_here,
    ) -> None:
        self._policy = policy
        self._on_refused = on_refused
        self._resolve = resolve
        self.refusals: deque[Refused] = deque(maxlen=KEPT_REFUSALS)

    async def open(self, host: str, port: int) -> Streams:
        """Connect, or raise `NotAllowed` or `NotReached`."""
        if reason := self._policy.refuse_name(host, port):
            raise self.refuse(host, port, reason)
        allowed = self._judge(host, port, await self._addresses(host, port))
        return await _dial(host, port, allowed)

    def refuse(self, host: str, port: int, reason: str) -> NotAllowed:
        """Note a refusal; the answer is the error to raise."""
        refused = Refused(time.time(), _shown(host, port), reason)
        self.refusals.append(refused)
        self._on_refused(refused)
        return NotAllowed(f"connecting to {refused.target} is not permitted: {reason}")

    async def _addresses(self, host: str, port: int) -> list[Address]:
        if (address := literal(host)) is not None:
            return [address]
        if canonical(host) in HOST_NAMES:
            return [THIS_MACHINE]
        try:
            async with asyncio.timeout(RESOLVE_SECONDS):
                return list(dict.fromkeys(await self._resolve(canonical(host), port)))
        except (OSError, UnicodeError, ValueError, TimeoutError) as error:
            raise NotReached(f"`{host}` has no address") from error

    def _judge(self, host: str, port: int, addresses: list[Address]) -> list[Address]:
        reasons = {address: self._policy.refuse_address(host, address) for address in addresses}
        allowed = [address for address, reason in reasons.items() if reason is None]
        if not allowed:
            reason = next((reason for reason in reasons.values() if reason), "it has no address")
            raise self.refuse(host, port, reason)
        return allowed


async def _dial(host: str, port: int, addresses: list[Address]) -> Streams:
    last: OSError | None = None
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            for address in addresses:
                try:
                    return await asyncio.open_connection(str(address), port)
                except OSError as error:
                    last = error
    except TimeoutError as error:
        raise NotReached(f"{_shown(host, port)} does not answer") from error
    raise NotReached(f"{_shown(host, port)} cannot be reached: {(last and last.strerror) or last}") from last


def _shown(host: str, port: int) -> str:
    text = "".join(character if character.isprintable() else "?" for character in host)[:255]
    return f"[{text}]:{port}" if ":" in text else f"{text}:{port}"
