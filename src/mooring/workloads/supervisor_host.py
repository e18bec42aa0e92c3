"""What a workload finds around it: the gateway that serves it, the books, the launcher."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

from mooring.gateway.server import Server
from mooring.workloads.runconfig import RunConfig
from mooring.workloads.store import Store
from mooring.workloads.supervisor_start import Launcher

Served = TypeVar("Served")
Served_contra = TypeVar("Served_contra", contravariant=True)


class LoginProblem(Struct, frozen=True):
    """What is the matter with a user's login, and whether it may pass by itself."""

    text: str
    passing: bool = False


class Host(Protocol[Served_contra]):
    """The gateway, as the supervisor sees it."""

    async def prepare(self, config: RunConfig) -> None:
        """Make what its server has of its own: whoever it is, it is guarded from its first call on."""
        ...

    def attach(self, workload: Served_contra) -> Server:
        """Serve it at its address from now on; it was prepared."""
        ...

    def moved(self, workload: Served_contra) -> None:
        """It is in another group, which policies may speak of."""
        ...

    async def detach(self, server: Server) -> None:
        """This one is served no more."""
        ...

    def is_taken(self, name: str) -> bool:
        """Whether something that is no workload has this name."""
        ...

    def ask_users(self, workload: Served_contra) -> bool:
        """It lets in nobody unknown: from now on its users are asked to sign in. False: there is no use."""
        ...

    async def login_problem(self, workload: Served_contra) -> LoginProblem | None:
        """Why the one user of this gateway cannot use it yet; None where they can, or there are several."""
        ...


class Surroundings(Struct, Generic[Served], frozen=True):
    """What all workloads of a supervisor share."""

    host: Host[Served]
    store: Store
    launcher: Launcher
    on_change: Callable[[Served], None]
