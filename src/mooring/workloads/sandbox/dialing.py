"""What the gateway dials of a sandboxed workload that speaks stdio: one child per dial."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from mooring.errors import UpstreamUnavailable
from mooring.transports.child import CannotStart
from mooring.transports.dialing import Folders, Transport
from mooring.transports.pipe_wire import PipeWire
from mooring.transports.wire import Wire, WireEvents
from mooring.workloads.runtime import Said, Strayed
from mooring.workloads.sandbox.tree import ProcessTree

_LAST_WORDS_BYTES: Final = 400


class StdioDialer:
    """Every dial starts the server anew in a sandbox of its own."""

    transports: tuple[Transport, ...] = (Transport.STDIO,)
    personal = False

    def __init__(
        self, new_tree: Callable[[Folders], Awaitable[ProcessTree]], label: str, max_message_bytes: int
    ) -> None:
        self._new_tree = new_tree
        self._label = label
        self._max_bytes = max_message_bytes

    async def dial(
        self, transport: Transport, events: WireEvents, folders: Folders = (), caller: object = None
    ) -> Wire:
        del caller  # a process is shown nothing
        assert transport is Transport.STDIO
        tree = await self._new_tree(folders)
        heard = bytearray()

        def on_log(data: bytes) -> None:
            heard.extend(data[-_LAST_WORDS_BYTES:])
            del heard[:-_LAST_WORDS_BYTES]
            tree.tell(Said(data))

        wire = await tree.spawn(
            lambda command: PipeWire.spawn(
                command,
                events,
                label=self._label,
                max_message_bytes=self._max_bytes,
                on_log=on_log,
                on_stray=lambda data: tree.tell(Strayed(data)),
                on_end=tree.ended,
            )
        )
        try:
            await tree.attach(wire.pid, wire.close)
        except CannotStart as error:
            await wire.close()
            said = heard.decode(errors="replace").strip().rpartition("\n")[2]
            raise UpstreamUnavailable(f"{error}{f' ({said})' if said else ''}") from error
        except BaseException:
            await wire.close()
            raise
        return wire

    async def close(self) -> None:
        """Processes belong to their wires, and to the workload."""
