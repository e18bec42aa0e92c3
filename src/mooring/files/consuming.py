"""Handles in the arguments of a call become what the workload can read; anything else there is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import msgspec
from msgspec import Raw

from mooring.files.adapters import Consumer, ToolFiles
from mooring.files.argument_paths import Place
from mooring.files.deliveries import Deliverer
from mooring.files.faults import BadUpload, NotFound
from mooring.files.handles import Handle, looks_like, parse
from mooring.files.records import FileRecord
from mooring.files.store import FileStore
from mooring.gateway.exchange import Exchange
from mooring.protocol import jsonrpc

Json = dict[str, Any]


class Arguments:
    """The arguments of a call, decoded only where something is going to be replaced."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        call = self._call = exchange.read_call()
        if call is None:
            self._params = jsonrpc.members(exchange.envelope.params)
            self._raw = jsonrpc.members(self._params.get("arguments", b""))
        else:
            self._raw = call.arguments
        self.values: Json = {}

    @property
    def has_task(self) -> bool:
        """Whether the call is to run as a task."""
        return self._call is None and "task" in self._params

    def read(self, name: str) -> None:
        if name in self._raw and name not in self.values:
            self.values[name] = msgspec.json.decode(self._raw[name])

    def read_like(self, name: str) -> None:
        """The same, and what differs from it in letters only: many servers take that for the same."""
        self.read(name)
        if len(self._raw) > len(self.values):
            for other in [key for key in self._raw if key != name and key.casefold() == name.casefold()]:
                self.read(other)

    def put_back(self) -> None:
        """Write the request anew: what we looked at is what goes upstream."""
        for name, value in self.values.items():
            self._raw[name] = Raw(msgspec.json.encode(value))
        if self._call is not None:
            self._exchange.set_params(self._call.encode())
            return
        self._params["arguments"] = Raw(jsonrpc.assemble(self._raw))
        self._exchange.set_params(jsonrpc.assemble(self._params))


def places(arguments: Arguments, files: ToolFiles) -> Iterator[tuple[Consumer, Place]]:
    """Every value that has to be a handle, and every one that a server could take for it."""
    for consumer in files.consumers:
        for path in consumer.arguments:
            arguments.read_like(path.top)
            for place in path.found(arguments.values):
                yield consumer, place


def handles_in(found: list[tuple[Consumer, Place]]) -> Iterator[Handle]:
    for _, place in found:
        if isinstance(place.value, str) and (handle := parse(place.value)) is not None:
            yield handle


class Resolver:
    """Puts what a workload can read in place of handles."""

    def __init__(
        self, store: FileStore, deliverer: Deliverer, server_id: str, upload_tool: Callable[[], str]
    ) -> None:
        self._store = store
        self._deliverer = deliverer
        self._server = server_id
        self._upload_tool = upload_tool

    async def resolve(
        self, found: list[tuple[Consumer, Place]], scope: str | None, view: str
    ) -> list[FileRecord]:
        """Replace every handle; the files behind them."""
        used: list[FileRecord] = []
        for consumer, place in found:
            value = place.value
            if value is None:
                continue
            handle = self._handle(consumer, place)
            if handle is None:
                continue
            if handle.scope != scope:
                raise BadUpload(
                    f"`{place.shown}`: not found: `{handle}`; `{self._upload_tool()}` says how to send a file"
                )
            try:
                record = self._store.at_hand(handle, self._server)
                if record is None:
                    record = await self._store.find(handle, self._server)
                value = self._deliverer.at_hand(record, consumer.delivery, view)
                if value is None:
                    value = await self._deliverer.value(record, consumer.delivery, view)
            except FileNotFoundError as error:  # it went away between the two
                raise BadUpload(f"`{place.shown}`: not found: `{handle}`; send it again") from error
            except NotFound as error:
                raise BadUpload(
                    f"`{place.shown}`: {error}; `{self._upload_tool()}` says how to send a file"
                ) from error
            place.put(value)
            used.append(record)
        return used

    def _handle(self, consumer: Consumer, place: Place) -> Handle | None:
        value = cast("object", place.value)
        if not place.fits:
            if consumer.accept_other_values:
                return None
            raise BadUpload(f"`{place.shown}` is not where a file can be named: see the schema of the tool")
        if isinstance(value, str):
            handle = parse(value)
            if handle is not None and handle.kind in ("upload", "artifact"):
                return handle
            if consumer.accept_other_values and not looks_like(value):
                return None
            shown = value if len(value) < 200 else f"{value[:200]}…"
        elif consumer.accept_other_values:
            return None
        else:
            shown = msgspec.json.encode(value).decode()[:200]
        raise BadUpload(
            f"`{place.shown}` must be an `upload://` handle, not `{shown}`: call `{self._upload_tool()}`, "
            "send the file as it says, and give the handle from the answer"
        )
