"""SOCKS5 (RFC 1928), as much of it as a client needs to connect: no authentication, no UDP, no listening."""

from __future__ import annotations

import asyncio
import ipaddress
from typing import Final

from mooring.workloads.egress.gate import Gate, NotAllowed, NotReached, Streams
from mooring.workloads.egress.relay import hang_up, tunnel

VERSION: Final = 5
_CONNECT: Final = 1
_IPV4: Final = 1
_NO_AUTHENTICATION: Final = 0
_NOTHING_ACCEPTABLE: Final = 0xFF
_GRANTED, _REFUSED, _UNREACHABLE, _WRONG_COMMAND, _WRONG_ADDRESS = 0, 2, 4, 7, 8


async def serve_socks(gate: Gate, client: Streams) -> None:
    """Serve one connection whose first byte, the version, has been read."""
    reader, writer = client
    methods = await reader.readexactly((await reader.readexactly(1))[0])
    if _NO_AUTHENTICATION not in methods:
        writer.write(bytes((VERSION, _NOTHING_ACCEPTABLE)))
        return
    writer.write(bytes((VERSION, _NO_AUTHENTICATION)))
    _, command, _, kind = await reader.readexactly(4)
    host = await _read_host(reader, kind)
    if host is None:
        writer.write(_reply(_WRONG_ADDRESS))
        return
    port = int.from_bytes(await reader.readexactly(2), "big")
    if command != _CONNECT:
        gate.refuse(host, port, "only connections can be made, no listening and no UDP")
        writer.write(_reply(_WRONG_COMMAND))
        return
    try:
        target = await gate.open(host, port)
    except NotAllowed:
        writer.write(_reply(_REFUSED))
        return
    except NotReached:
        writer.write(_reply(_UNREACHABLE))
        return
    try:
        writer.write(_reply(_GRANTED))
        await tunnel(client, target)
    finally:
        await hang_up(target[1])


async def _read_host(reader: asyncio.StreamReader, kind: int) -> str | None:
    match kind:
        case 1:
            return str(ipaddress.IPv4Address(await reader.readexactly(4)))
        case 4:
            return str(ipaddress.IPv6Address(await reader.readexactly(16)))
        case 3:
            name = await reader.readexactly((await reader.readexactly(1))[0])
            return name.decode("latin-1")
        case _:
            return None


def _reply(code: int) -> bytes:
    return bytes((VERSION, code, 0, _IPV4)) + bytes(6)
