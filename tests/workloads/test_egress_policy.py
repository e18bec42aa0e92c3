"""Which targets a profile allows, by name and by address."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.workloads.egress.policy import EgressPolicy
from mooring.workloads.profile import Outbound

EVERYWHERE = EgressPolicy.of(Outbound(insecure_allow_all=True))


def policy(*hosts: str, ports: tuple[int, ...] = ()) -> EgressPolicy:
    return EgressPolicy.of(Outbound(allow_host=hosts, allow_port=ports))


def refused(judge: EgressPolicy, host: str, port: int, *addresses: str) -> bool:
    by_name = judge.refuse_name(host, port) is not None
    by_address = [judge.refuse_address(host, ipaddress.ip_address(address)) for address in addresses]
    return by_name or any(reason is not None for reason in by_address)


def test_nothing_is_allowed_by_default() -> None:
    assert EgressPolicy.of(Outbound()).refuse_name("example.com", 443)


@pytest.mark.parametrize("host", ["example.com", "EXAMPLE.com", "example.com."])
def test_a_named_host_is_allowed_however_it_is_spelled(host: str) -> None:
    assert not refused(policy("example.com"), host, 443, "93.184.215.14")


@pytest.mark.parametrize("host", ["www.example.com", "badexample.com", "example.com.evil.net", "", "example"])
def test_other_names_are_refused(host: str) -> None:
    assert refused(policy("example.com"), host, 443)


def test_a_leading_dot_names_the_domain_and_all_below_it() -> None:
    judge = policy(".example.com")
    assert not refused(judge, "example.com", 443)
    assert not refused(judge, "a.b.example.com", 443)
    assert refused(judge, "badexample.com", 443)


def test_both_host_and_port_must_be_allowed() -> None:
    judge = policy("example.com", ports=(443,))
    assert not refused(judge, "example.com", 443)
    assert refused(judge, "example.com", 80)
    assert refused(judge, "other.com", 443)


def test_ports_alone_allow_every_host_on_them() -> None:
    judge = policy(ports=(443,))
    assert not refused(judge, "example.com", 443, "93.184.215.14")
    assert refused(judge, "example.com", 22)
    assert refused(judge, "internal", 443, "10.0.0.1")


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.8.8.8", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254"),
        *("100.100.100.200", "168.63.129.16", "224.0.0.1", "255.255.255.255", "203.0.113.7", "::1", "::"),
        *(
            "fe80::1",
            "fd00:ec2::254",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
        ),
    ],
)
def test_addresses_that_are_not_the_internet_are_refused_behind_any_name(address: str) -> None:
    assert EVERYWHERE.refuse_address("example.com", ipaddress.ip_address(address))
    assert policy("example.com").refuse_address("example.com", ipaddress.ip_address(address))


def test_the_internet_is_allowed_when_everything_is() -> None:
    assert not refused(EVERYWHERE, "example.com", 25, "93.184.215.14", "2606:2800:21f:cb07::1")


def test_a_private_address_is_allowed_when_it_is_named_itself() -> None:
    judge = policy("intranet", "10.0.0.0/8")
    assert not refused(judge, "intranet", 443, "10.1.2.3")
    assert not refused(judge, "10.1.2.3", 443, "10.1.2.3")
    assert refused(judge, "intranet", 443, "192.168.0.1")
    assert refused(judge, "192.168.0.1", 443)


def test_localhost_means_this_machine_only_when_it_is_named() -> None:
    assert not refused(policy("localhost"), "localhost", 8000, "127.0.0.1")
    assert refused(EVERYWHERE, "localhost", 8000, "127.0.0.1")
    assert refused(policy("localhost", "example.com"), "example.com", 8000, "127.0.0.1")


@given(st.ip_addresses())
def test_no_address_beyond_the_internet_is_ever_dialled_for_a_name(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    if EVERYWHERE.refuse_address("example.com", address) is None:
        assert address.is_global
        assert not address.is_loopback
        assert not address.is_multicast
