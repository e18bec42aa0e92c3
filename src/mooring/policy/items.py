"""Lists of tools, prompts and resources as values: read once, changed by whoever has a say, written once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct, field

from mooring.errors import InvalidParams, RpcError, UpstreamFailed
from mooring.gateway.exchange import Exchange, Given
from mooring.protocol import jsonrpc, meta
from mooring.protocol.versions import Era
from mooring.transports.wire import Answer

TOOLS: Final = "tools"
PROMPTS: Final = "prompts"
RESOURCES: Final = "resources"
TEMPLATES: Final = "resourceTemplates"
LISTS: Final = {
    "tools/list": TOOLS,
    "prompts/list": PROMPTS,
    "resources/list": RESOURCES,
    "resources/templates/list": TEMPLATES,
}
"""Method -> the member of its result that holds the items."""
RESOURCE_NOT_FOUND: Final = -32002
_NAMED_BY: Final = {TOOLS: "name", PROMPTS: "name", RESOURCES: "uri", TEMPLATES: "uriTemplate"}
_decode_items = msgspec.json.Decoder(list[Raw]).decode


class _Named(msgspec.Struct):
    name: str = ""
    uri: str = ""
    template: str = msgspec.field(default="", name="uriTemplate")


_decode_named = msgspec.json.Decoder(_Named).decode


class Item(msgspec.Struct, eq=False):
    """One entry of a list, undecoded but for what it is called by."""

    name: str
    raw: Raw
    given: Given | None = None
    """What the server itself said, where the gateway has changed it."""

    def value(self) -> dict[str, Any]:
        return msgspec.json.decode(self.raw, type=dict[str, Any])

    @property
    def is_own(self) -> bool:
        """A tool of the gateway: no server can change it."""
        return self.given is not None and not self.given.raw

    def given_value(self) -> dict[str, Any]:
        """The definition as the server gave it, without our notes."""
        if self.given is None or self.is_own:
            return self.value()
        return msgspec.json.decode(self.given.raw, type=dict[str, Any])

    @property
    def digest(self) -> str:
        """The same for the same definition of the server, however it is spelled."""
        return digest_of(self.given_value())

    def replace(self, **members: object) -> None:
        """Set members of the definition; everything else stays as it is."""
        parts = jsonrpc.members(self.raw)
        for name, value in members.items():
            parts[name] = Raw(msgspec.json.encode(value))
        self.raw = Raw(jsonrpc.assemble(parts))


class Listing(msgspec.Struct, eq=False):
    """The result of a list request."""

    kind: str
    first_page: bool
    last_page: bool
    items: list[Item]
    members: dict[str, Raw]
    is_as_it_came: bool = True
    """Whether the server's own bytes say the same to every reader."""

    def encode(self) -> bytes:
        self.members[self.kind] = Raw(msgspec.json.encode([item.raw for item in self.items]))
        return jsonrpc.assemble(self.members)


def read_listing(exchange: Exchange, answer: Answer) -> Listing | None:
    """The listing that an answer holds; None if it holds an error. An answer that cannot be read is a fault
    of the server: passed on unread it could show what must stay hidden."""
    kind = LISTS[exchange.method]
    if answer.error or not answer.result:
        return None
    try:
        result = _read_by_all_alike(bytes(answer.result))
        members = jsonrpc.members(result)
        raw = _decode_items(members[kind]) if kind in members else []
        given = exchange.given or {}
        items = [Item(name := _name(kind, entry), entry, given.get(name)) for entry in raw]
    except (ValueError, RpcError, RecursionError) as error:
        raise UpstreamFailed(f"the server's list cannot be read: {error}") from error
    cursor = jsonrpc.members(exchange.envelope.params).get("cursor")
    is_first = cursor is None or bytes(cursor) == b"null"
    untouched = result == bytes(answer.result)
    return Listing(kind, is_first, "nextCursor" not in members, items, members, untouched)


def _read_by_all_alike(raw: bytes) -> bytes:
    """The same, but a member that is given twice anywhere is given once: as our rules read it. To another
    parser it might mean the first, which nobody looked at."""
    repeats = False

    def look(pairs: list[tuple[str, object]]) -> None:
        nonlocal repeats
        repeats = repeats or len({name for name, _ in pairs}) < len(pairs)

    json.loads(raw, object_pairs_hook=look, parse_int=str, parse_float=str)
    return msgspec.json.encode(msgspec.json.decode(raw)) if repeats else raw


def _name(kind: str, raw: Raw) -> str:
    found = _decode_named(raw)
    return {"name": found.name, "uri": found.uri, "uriTemplate": found.template}[_NAMED_BY[kind]]


def digest_of(value: object) -> str:
    return hashlib.sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()


class OwnItems(Struct, frozen=True):
    """What the gateway adds to a server."""

    tools: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Tools of ours -> the server's tools that they are there for; none: for all of them."""
    is_resource: Callable[[str], bool] = field(default=lambda _: False)
    """Whether a URI is one of ours, which nobody but its owner can read."""


# Requests about one item

ABOUT: Final = {
    "tools/call": (TOOLS, "name"),
    "prompts/get": (PROMPTS, "name"),
    "resources/read": (RESOURCES, "uri"),
    "resources/subscribe": (RESOURCES, "uri"),
    "resources/unsubscribe": (RESOURCES, "uri"),
}
"""Method -> kind of item it is about, and the parameter that names it."""


def subject(exchange: Exchange) -> tuple[str, str] | None:
    """Kind and name of the item that a request is about; None for requests about no single one."""
    if exchange.subject is not None and exchange.name_in is exchange.envelope.params:
        return exchange.subject
    about = ABOUT.get(exchange.method)
    if about is not None:
        kind, member = about
        name = exchange.read_name() if member == "name" else meta.text(exchange.read_params().uri)
        if name is None:
            raise InvalidParams(f"`{member}` must be a string")
        exchange.subject = kind, name
        return exchange.subject
    if exchange.method == "completion/complete":
        return _completed(exchange)
    return None


class _Reference(msgspec.Struct):
    type: str = ""
    name: str | None = None
    uri: str | None = None


class _Completion(msgspec.Struct):
    ref: _Reference


def _completed(exchange: Exchange) -> tuple[str, str]:
    try:
        reference = msgspec.json.decode(exchange.envelope.params, type=_Completion).ref
    except msgspec.DecodeError as error:
        raise InvalidParams(f"`ref` cannot be read: {error}") from None
    if reference.type == "ref/prompt" and reference.name is not None:
        return PROMPTS, reference.name
    if reference.type == "ref/resource" and reference.uri is not None:
        return RESOURCES, reference.uri
    raise InvalidParams("`ref` must be a prompt or a resource")


class Absent(InvalidParams):
    """There is no such item for this caller."""

    hidden = True
    """A rule hid it; False: there is none. Only the audit may know."""


def absent(exchange: Exchange, kind: str, name: str, by: str | None = None) -> Absent:
    """What is said about an item that is not there, and just so about one that is none of the caller's: by
    the name that they used, whatever it was taken for since."""
    name = exchange.known_as or name
    code, data, words = None, None, f"Unknown {kind.removesuffix('s')}: {name}"
    if kind not in (TOOLS, PROMPTS):
        words, data = "Resource not found", {"uri": name}
        code = RESOURCE_NOT_FOUND if exchange.client.era is Era.LEGACY else None
    missing = Absent(words, code=code, data=data)
    missing.by = by
    return missing


def set_params(exchange: Exchange, parts: dict[str, Raw]) -> None:
    """Give a request new params."""
    exchange.set_params(jsonrpc.assemble(parts))
