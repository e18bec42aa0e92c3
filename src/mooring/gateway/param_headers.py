"""`Mcp-Param-*` headers on the way to servers that do not check them themselves."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Raw

from mooring.gateway.exchange import Exchange
from mooring.protocol import jsonrpc, meta, routing_headers


class ParamHeaders:
    """A legacy server does not check `Mcp-Param-*` headers, so we do, for the tools that we have shown."""

    def __init__(self) -> None:
        self._annotations: dict[str, dict[routing_headers.Path, str]] = {}

    def __bool__(self) -> bool:
        """Whether there is anything to check."""
        return bool(self._annotations)

    def learn(self, tools: Raw | bytes) -> None:
        """Read which headers the tools in a list ask for."""
        try:
            listed = msgspec.json.decode(tools, type=_Tools).tools
        except msgspec.DecodeError:
            return
        for tool in listed:
            self._annotations.pop(tool.name, None)
            with suppress(routing_headers.InvalidHeaderAnnotation):
                if found := routing_headers.annotated(tool.input_schema):
                    self._annotations[tool.name] = found

    def check(self, exchange: Exchange) -> None:
        """Refuse a call whose headers do not say what its arguments say."""
        annotations = self._annotations.get(meta.text(exchange.read_params().name) or "")
        if annotations and exchange.headers is not None:
            arguments = jsonrpc.members(exchange.envelope.params).get("arguments", b"{}")
            routing_headers.check_params(annotations, msgspec.json.decode(arguments), exchange.headers)


class _Tool(msgspec.Struct):
    name: str
    input_schema: Any = msgspec.field(default=None, name="inputSchema")


class _Tools(msgspec.Struct):
    tools: list[_Tool]
