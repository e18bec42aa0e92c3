"""Which host, port and address a workload may connect to. Pure: names and addresses in, reasons out.

A target is judged twice. By name before anything is asked of the network, so that a refused name is not even
resolved. By address after resolving, so that a name under somebody else's control cannot stand for a machine
of ours. The address that was judged is the one that is dialled.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final, TypeAlias

from mooring.workloads.profile import HOST_NAMES, Outbound

Address: TypeAlias = IPv4Address | IPv6Address

_PUBLIC_METADATA: Final = frozenset({"168.63.129.16"})
"""Cloud metadata services whose address looks like any other; the others are link-local or private."""
_NAT64: Final = IPv6Network("64:ff9b::/96")
_LOCAL_NAMES: Final = frozenset({"localhost", *HOST_NAMES})


@dataclass(frozen=True, slots=True)
class EgressPolicy:
    """The outbound part of a profile, ready to be asked."""

    everywhere: bool
    names: frozenset[str]
    suffixes: tuple[str, ...]
    networks: tuple[IPv4Network | IPv6Network, ...]
    ports: frozenset[int]

    @classmethod
    def of(cls, outbound: Outbound) -> EgressPolicy:
        names: set[str] = set()
        suffixes: list[str] = []
        networks: list[IPv4Network | IPv6Network] = []
        for host in outbound.allow_host:
            try:
                networks.append(ipaddress.ip_network(host.strip("[]"), strict=False))
            except ValueError:
                name = canonical(host)
                names.add(name.removeprefix("."))
                if host.startswith("."):
                    suffixes.append(name)
        # As ToolHive reads it: ports alone allow every host on these ports.
        everywhere = outbound.insecure_allow_all or bool(outbound.allow_port and not outbound.allow_host)
        return cls(
            everywhere, frozenset(names), tuple(suffixes), tuple(networks), frozenset(outbound.allow_port)
        )

    def refuse_name(self, host: str, port: int) -> str | None:
        """Why this host and port may not be asked for; None when they may."""
        if not 1 <= port <= 65535:
            return f"{port} is not a port"
        if self.ports and port not in self.ports:
            return f"port {port} is not in `network.outbound.allow_port`"
        if not host:
            return "no host is named"
        if self.everywhere or self._named(host):
            return None
        return f"`{host}` is not in `network.outbound.allow_host`"

    def refuse_address(self, host: str, address: Address) -> str | None:
        """Why this address, which `host` stands for, may not be dialled; None when it may."""
        real = unwrapped(address)
        if any(real in network for network in self.networks if network.version == real.version):
            return None
        if real.is_loopback and canonical(host) in _LOCAL_NAMES & self.names:
            return None
        if real.is_global and not real.is_multicast and str(real) not in _PUBLIC_METADATA:
            return None
        return (
            f"{real} is {_kind(real)}: name the address itself in `network.outbound.allow_host` to allow it"
        )

    def _named(self, host: str) -> bool:
        address = literal(host)
        if address is not None:
            real = unwrapped(address)
            return any(real in network for network in self.networks if network.version == real.version)
        name = canonical(host)
        return name in self.names or name.endswith(self.suffixes)


def canonical(host: str) -> str:
    """A name as it is compared: lower case, without the root's dot."""
    return host.lower().removesuffix(".")


def literal(host: str) -> Address | None:
    """The address a host is written as; None for a name."""
    try:
        return ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return None


def unwrapped(address: Address) -> Address:
    """The IPv4 address inside an IPv6 one that only wraps it: a way round that must not exist."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address.sixtofour is not None:
            return address.sixtofour
        if address in _NAT64:
            return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def _kind(address: Address) -> str:
    if str(address) in _PUBLIC_METADATA or str(address) == "169.254.169.254":
        return "a cloud metadata address"
    if address.is_loopback:
        return "on this machine"
    if address.is_link_local:
        return "a link-local address"
    if address.is_private:
        return "a private address"
    return "not an address of the internet"
