"""A started workload of the process runtime: every server in a sandbox of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from mooring.transports.child import CannotStart, Child
from mooring.transports.dialing import Dialer, Folders
from mooring.workloads.runtime import CannotRun, OnEvent, Said, WorkloadSpec
from mooring.workloads.sandbox.dialing import StdioDialer
from mooring.workloads.sandbox.launch import Launch
from mooring.workloads.sandbox.tree import ProcessTree, TreeEvents
from mooring.workloads.started import StartedWorkload

NewLaunch = Callable[[Folders], Awaitable[Launch]]


class SandboxedWorkload(StartedWorkload[ProcessTree]):
    """What `ProcessRuntime.start` returns."""

    dialer: Dialer

    def __init__(self, spec: WorkloadSpec, new_launch: NewLaunch, on_event: OnEvent) -> None:
        super().__init__(spec, on_event)
        self._new_launch = new_launch
        self.dialer = StdioDialer(self._new_tree, spec.name, spec.max_message_bytes)

    async def start_http(self) -> None:
        """Start the one process tree of a server that speaks HTTP, and wait until it listens."""
        tree = await self._new_tree(())
        child = await tree.spawn(
            lambda command: Child.spawn(
                command,
                on_stdout=lambda data: self.on_event(Said(data)),
                on_stderr=lambda data: self.on_event(Said(data)),
                on_exit=tree.ended,
            )
        )
        try:
            await tree.attach(child.pid, child.close)
            await self.serve_http(tree)
        except CannotStart as error:
            await self._give_up(tree)
            raise CannotRun(str(error)) from error
        except BaseException:
            await self._give_up(tree)
            raise

    async def _give_up(self, tree: ProcessTree) -> None:
        await tree.close()
        await self.stop()

    async def _new_tree(self, folders: Folders) -> ProcessTree:
        self.check_running()
        tree = ProcessTree(
            await self._new_launch(folders), self.proxy, TreeEvents(self.on_event, self.units.discard)
        )
        self.units.add(tree)
        return tree
