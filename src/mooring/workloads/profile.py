"""What a workload may touch: the permission profile, as ToolHive writes it and as Mooring enforces it."""

from typing import Annotated

from msgspec import Meta, Struct, structs

from mooring.errors import MooringError


class InvalidProfile(MooringError):
    """A profile that cannot be read, or that asks for what cannot be given."""


class Outbound(Struct, frozen=True, omit_defaults=True):
    """Where a workload may connect to: host *and* port must be allowed."""

    insecure_allow_all: Annotated[
        bool, Meta(description="Every host and port of the internet; still no private or local address.")
    ] = False
    allow_host: Annotated[
        tuple[str, ...],
        Meta(
            description="Names, addresses, or networks such as `10.0.0.0/8`; `.example.com` is the domain "
            "and everything below it. A private or local address must be named itself, besides the name "
            "that stands for it."
        ),
    ] = ()
    allow_port: Annotated[
        tuple[int, ...],
        Meta(description="Ports. Empty: every port of the named hosts. Without named hosts: of every host."),
    ] = ()


class Inbound(Struct, frozen=True, omit_defaults=True):
    """Who may reach a published port; without one only the gateway can reach the workload."""

    allow_host: Annotated[tuple[str, ...], Meta(description="Names or addresses of callers.")] = ()


class Network(Struct, frozen=True, omit_defaults=True):
    """Connections out of and into the workload."""

    mode: Annotated[
        str, Meta(description="`bridge`, `none` or empty. `host` and named networks are refused.")
    ] = ""
    outbound: Annotated[Outbound, Meta(description="Where it may connect to.")] = Outbound()
    inbound: Annotated[Inbound, Meta(description="Who may reach its published ports.")] = Inbound()


class PermissionProfile(Struct, frozen=True, omit_defaults=True):
    """Everything a workload may touch besides its own program. Nothing by default."""

    name: Annotated[str, Meta(description="What people call it.")] = ""
    read: Annotated[
        tuple[str, ...],
        Meta(description="Files and folders it may read: `path`, `host:inside` or `volume://name:inside`."),
    ] = ()
    write: Annotated[
        tuple[str, ...], Meta(description="Files and folders it may change, written in the same ways.")
    ] = ()
    network: Annotated[Network, Meta(description="Where it may connect to.")] = Network()
    privileged: Annotated[
        bool, Meta(description="Full access to the host. The process runtime refuses it.")
    ] = False


NONE = PermissionProfile(name="none")
"""Nothing but its own program."""
NETWORK = PermissionProfile(name="network", network=Network(outbound=Outbound(insecure_allow_all=True)))
"""The internet, and nothing on this machine or beside it."""
HOST_NAMES = ("host.docker.internal", "gateway.docker.internal", "host.containers.internal")
"""What the machine is called from inside a container; here from inside any workload that may reach it."""


def reaching_host(profile: PermissionProfile) -> PermissionProfile:
    """The profile, and the machine itself by the names that containers have for it."""
    outbound = profile.network.outbound
    anywhere = outbound.insecure_allow_all or bool(outbound.allow_port and not outbound.allow_host)
    wider = structs.replace(
        outbound, insecure_allow_all=anywhere, allow_host=(*outbound.allow_host, *HOST_NAMES)
    )
    return structs.replace(profile, network=structs.replace(profile.network, outbound=wider))


BUILT_IN = {profile.name: profile for profile in (NONE, NETWORK)}
