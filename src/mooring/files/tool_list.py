"""One page of a server's tools on its way to a client: what our adapters change in it, and what they add."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import msgspec
from msgspec import Raw

from mooring.errors import UpstreamFailed
from mooring.files.descriptions import forbids_tasks
from mooring.gateway.exchange import Given
from mooring.protocol import jsonrpc
from mooring.transports.wire import Answer

Json = dict[str, Any]
Change = Callable[[str, Callable[[], Json]], tuple[Json, str] | None]
"""From a tool to how it is shown, with what we say about it; None: it passes as it came, undecoded."""


class _Page(msgspec.Struct):
    tools: list[Raw] = msgspec.field(default_factory=list[Raw])
    cursor: str | None = msgspec.field(default=None, name="nextCursor")


class _Named(msgspec.Struct):
    name: str = ""


class ToolPage:
    """The page, with every tool as it came until somebody changes it."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        try:
            page = msgspec.json.decode(answer.result, type=_Page)
            self._tools: list[tuple[str, Raw | Json]] = [
                (msgspec.json.decode(raw, type=_Named).name, raw) for raw in page.tools
            ]
        except msgspec.DecodeError as error:
            raise UpstreamFailed(f"the server's list of tools cannot be read: {error}") from error
        self.is_last = page.cursor is None
        self.given: dict[str, Given] = {}

    @property
    def names(self) -> set[str]:
        return {name for name, _ in self._tools}

    def change(self, change: Change) -> None:
        """Show tools otherwise, and remember what the server said."""
        for index, (name, raw) in enumerate(self._tools):
            assert isinstance(raw, Raw), "changed once"
            changed = change(name, lambda raw=raw: msgspec.json.decode(raw))
            if changed is not None:
                self._tools[index] = name, changed[0]
                self.given[name] = Given(bytes(raw), changed[1])

    def forbid_tasks(self, names: Collection[str]) -> None:
        self._tools = [
            (name, forbids_tasks(tool)) if name in names and isinstance(tool, dict) else (name, tool)
            for name, tool in self._tools
        ]

    def with_own(self, own: list[Json]) -> Answer:
        """The answer; after the server's last tool come ours, and no other has their names."""
        names = {str(tool["name"]) for tool in own}
        tools: list[Raw | Json] = [tool for name, tool in self._tools if name not in names]
        if self.is_last:
            tools += own
            self.given |= dict.fromkeys(names, Given())
        members = jsonrpc.members(self._answer.result)
        members["tools"] = Raw(msgspec.json.encode(tools))
        return Answer(version=self._answer.version, result=jsonrpc.assemble(members))
