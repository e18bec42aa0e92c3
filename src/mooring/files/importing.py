"""Importing a file by its URL: only from hosts that are listed, never from addresses inside."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, quote, unquote, urljoin, urlsplit

from msgspec.structs import replace

from mooring.files.faults import BadUpload, FileFault, Refused
from mooring.files.receiving import Receipt
from mooring.transports.http_client import ClientPool, Origin
from mooring.transports.http_errors import TransportError
from mooring.transports.http_limits import ClientLimits
from mooring.transports.http_response import Response

MAX_REDIRECTS: Final = 5
SECONDS: Final = 300.0
LIMITS: Final = ClientLimits(
    connect_seconds=10.0, head_seconds=30.0, body_stall_seconds=30.0, max_connections=1
)
_IN_ADDRESSES: Final = "/?%:@!$&'()*+,;=~[]"
_TRANSLATED: Final = ipaddress.ip_network("64:ff9b::/96")
# Python takes these for public: IPv4 as old machines wrote it, what a network translates by itself, and what
# was private before `fc00::/7`.
_LOCAL: Final = tuple(map(ipaddress.ip_network, ("::/96", "::ffff:0:0:0/96", "64:ff9b:1::/48", "fec0::/10")))
_MOVED: Final = frozenset((301, 302, 303, 307, 308))


class ImportFailed(FileFault):
    """The other side did not give the file."""

    status = 502


@dataclass(frozen=True, slots=True)
class Importer:
    """Fetches files for uploads, from these hosts; `inside` judges the addresses they lead to."""

    hosts: tuple[str, ...]
    inside: Callable[[str], bool]

    async def fetch(self, url: str, receipt: Receipt) -> None:
        """Put the file at this address into a receipt; every redirect is judged like the first address."""
        if not self.hosts:
            raise Refused("importing by URL is switched off here: download the file and send it")
        try:
            async with asyncio.timeout(SECONDS):
                await self._fetch(url, receipt)
        except TimeoutError:
            raise ImportFailed("the other side is too slow: download the file and send it") from None
        except (TransportError, OSError, ssl.SSLError) as error:
            raise ImportFailed(f"the file could not be fetched: {error}") from error

    async def _fetch(self, url: str, receipt: Receipt) -> None:
        for _ in range(MAX_REDIRECTS + 1):
            parts = self._checked(url)
            address = await self._address(parts)
            pool = _pool(parts, address)
            try:
                response = await pool.request(b"GET", _target(parts), b"accept: */*\r\n", b"")
                try:
                    if response.status in _MOVED:
                        url = _moved(url, (response.header(b"location") or b"").decode("latin-1"))
                        continue
                    if response.status != 200:
                        raise ImportFailed(f"the other side answered {response.status}")
                    await _take(response, unquote(parts.path.rsplit("/", 1)[-1]) or "file", receipt)
                    return
                finally:
                    response.abort()
            finally:
                pool.close()
        raise ImportFailed(f"the address leads on more than {MAX_REDIRECTS} times")

    def _checked(self, url: str) -> SplitResult:
        try:
            parts = urlsplit(url)
            _ = parts.port
        except ValueError:
            raise BadUpload("`url` is not an address") from None
        host = (parts.hostname or "").lower().rstrip(".")
        if parts.scheme not in ("http", "https") or not host or parts.username is not None:
            raise BadUpload("`url` must begin with `https://` and name a host, without a user")
        if not any(_matches(host, pattern) for pattern in self.hosts):
            raise Refused(f"`{host}` is not among the hosts that files may be imported from")
        return parts

    async def _address(self, parts: SplitResult) -> str:
        """An address of the host that is not inside; the connection then goes to this very address."""
        port = parts.port or (443 if parts.scheme == "https" else 80)
        try:
            found = await asyncio.get_running_loop().getaddrinfo(
                parts.hostname, port, type=socket.SOCK_STREAM
            )
        except (OSError, UnicodeError):  # the latter for a name that no host can have
            raise ImportFailed(f"`{parts.hostname}` is not known") from None
        addresses = [str(entry[4][0]) for entry in found]
        if any(self.inside(address) for address in addresses):
            raise Refused(f"`{parts.hostname}` leads to an address inside this network: that is not allowed")
        return addresses[0]


def is_inside(address: str) -> bool:
    """Whether an address is one that only machines in here should reach: private, loopback, metadata."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        inner = found.ipv4_mapped or found.sixtofour
        if inner is None and found in _TRANSLATED:
            inner = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
        if inner is not None:
            return is_inside(str(inner))
        if any(found in network for network in _LOCAL):
            return True
    return not found.is_global or found.is_multicast


def _matches(host: str, pattern: str) -> bool:
    pattern = pattern.lower().rstrip(".")
    if pattern.startswith("*."):
        return host.endswith(pattern[1:]) and host != pattern[2:]
    return host == pattern


def _moved(url: str, location: str) -> str:
    try:
        return urljoin(url, location)
    except ValueError:
        raise ImportFailed("the other side leads on to what is not an address") from None


def _target(parts: SplitResult) -> bytes:
    """Path and query as a request needs them, however a person wrote them."""
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return quote(target, safe=_IN_ADDRESSES).encode()


def _pool(parts: SplitResult, address: str) -> ClientPool:
    """Connections to the address that was judged: a second look-up could lead elsewhere."""
    origin = Origin.of(f"{parts.scheme}://{parts.netloc}")

    async def connected() -> socket.socket:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        opened = socket.socket(family, socket.SOCK_STREAM)
        try:
            opened.setblocking(False)
            await asyncio.get_running_loop().sock_connect(opened, (address, origin.port))
        except BaseException:
            opened.close()
            raise
        return opened

    return ClientPool(replace(origin, open_socket=connected), LIMITS)


async def _take(response: Response, name: str, receipt: Receipt) -> None:
    await receipt.begin(name)
    queue: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
    waiting = 0

    def on_data(data: bytes) -> None:
        nonlocal waiting
        waiting += len(data)
        queue.put_nowait(data)
        if waiting > LIMITS.buffer_bytes:
            response.pause()

    response.attach(on_data, queue.put_nowait)
    while True:
        piece = await queue.get()
        if isinstance(piece, Exception):
            raise piece
        if piece is None:
            break
        await receipt.write(piece)
        waiting -= len(piece)
        if waiting <= LIMITS.buffer_bytes // 2:
            with contextlib.suppress(RuntimeError):
                response.resume()
    await receipt.end()
