"""Approvals: some calls need a person's yes, for exactly this call, once."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

import msgspec

from mooring import durable
from mooring.errors import FORBIDDEN, RpcError
from mooring.gateway.exchange import Exchange, Handler
from mooring.gateway.tracing import redact
from mooring.policy.asking import ask
from mooring.policy.items import subject
from mooring.protocol import jsonrpc
from mooring.protocol.versions import Era
from mooring.transports.wire import Answer

log = logging.getLogger(__name__)

FOLDER: Final = "approvals"
SHOWN_BYTES: Final = 2_000
MAX_WAITING: Final = 1_000
_ASKED: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"approve": {"type": "boolean", "title": "Allow this call", "default": False}},
    "required": ["approve"],
}


class NotApproved(RpcError):
    """Nobody has said yes to this call."""

    code = FORBIDDEN
    by = "approvals"


class Request(msgspec.Struct, frozen=True):
    """A call that waits for a yes, as it lies in a file."""

    id: str
    digest: str
    principal: str
    server: str
    tool: str
    arguments: str
    definition_hash: str
    expires: float
    approved: bool = False


class Requests:
    """The calls that wait, or were said yes to: a file each, so that the command line can see them."""

    def __init__(self, folder: Path) -> None:
        self._folder = durable.private_folder(folder)

    def put(self, request: Request) -> None:
        waiting = self.all()
        if any(known.id == request.id for known in waiting):
            # Perhaps somebody has just said yes. Perhaps it is another call whose id was made to be the same:
            # whoever reads about the one must not say yes to the other.
            return
        if len(waiting) >= MAX_WAITING:
            raise NotApproved("too many calls wait for approval; decide some with `mooring approve`")
        durable.replace_file(self._file(request.id), msgspec.json.encode(request))

    def all(self) -> list[Request]:
        """Those that still count, oldest first; the others are forgotten."""
        found: list[Request] = []
        for file in sorted(self._folder.glob("*.json")):
            try:
                request = msgspec.json.decode(file.read_bytes(), type=Request)
            except (OSError, msgspec.DecodeError):
                continue
            if request.expires < time.time():
                file.unlink(missing_ok=True)
            else:
                found.append(request)
        return found

    def decide(self, request_id: str, *, approved: bool) -> Request:
        """A person has decided. A yes waits for the call; after a no it is forgotten."""
        found = next((request for request in self.all() if request.id == request_id), None)
        if found is None:
            raise KeyError(request_id)
        if approved:
            decided = msgspec.structs.replace(found, approved=True)
            durable.replace_file(self._file(found.id), msgspec.json.encode(decided))
        else:
            self._file(found.id).unlink(missing_ok=True)
        return found

    def take(self, digest: str) -> bool:
        """Whether exactly this call was approved. A yes is good once, whoever else is quick."""
        file = self._file(digest[:12])
        try:
            request = msgspec.json.decode(file.read_bytes(), type=Request)
        except (OSError, msgspec.DecodeError):
            return False
        if not request.approved or request.digest != digest or request.expires < time.time():
            return False
        try:
            file.unlink()
        except FileNotFoundError:
            return False
        return True

    def _file(self, request_id: str) -> Path:
        return self._folder / f"{request_id}.json"


class Approvals:
    """The middleware of one server."""

    def __init__(
        self,
        requests: Requests,
        server_id: str,
        patterns: Sequence[str],
        ttl_seconds: float,
        definition_of: Callable[[Exchange, str, Handler], Awaitable[str]],
    ) -> None:
        """`definition_of` is the hash of a tool's definition; the server is asked where it is not known."""
        self._requests = requests
        self._server_id = server_id
        self._patterns = tuple(patterns)
        self._ttl = ttl_seconds
        self._definition_of = definition_of

    async def __call__(self, exchange: Exchange, handler: Handler) -> Answer | None:
        if self._concerns(exchange):
            await self._require(exchange, handler)
        return await handler(exchange)

    def _concerns(self, exchange: Exchange) -> bool:
        if exchange.guarded or exchange.method != "tools/call":
            return False
        if exchange.client.era is Era.MODERN and exchange.read_params().request_state:
            return False  # it continues a call that was approved: its sealed state proves that, below
        found = subject(exchange)
        assert found is not None
        names = {found[1], exchange.known_as or found[1]}  # a rule may use the server's name or ours
        return any(fnmatchcase(name, pattern) for name in names for pattern in self._patterns)

    async def _require(self, exchange: Exchange, handler: Handler) -> None:
        found = subject(exchange)
        assert found is not None
        request = self._request(exchange, found[1], await self._definition_of(exchange, found[1], handler))
        if self._requests.take(request.digest):
            return
        name = exchange.known_as or request.tool
        question = self._question(name, request)
        if exchange.client.can("elicitation/create", question):
            if _is_yes(await ask(exchange, question)):
                return
            raise NotApproved(f"the call of `{name}` was not approved")
        self._requests.put(request)
        log.warning("%s: `%s` waits for `mooring approve %s`", self._server_id, request.tool, request.id)
        raise NotApproved(
            f"the call of `{name}` needs a person's approval: `mooring approve {request.id}`, then call "
            "again",
            data={"approvalId": request.id, "expiresInSeconds": int(self._ttl)},
        )

    def _request(self, exchange: Exchange, tool: str, definition: str) -> Request:
        raw = jsonrpc.members(exchange.envelope.params).get("arguments", b"{}")
        arguments = msgspec.json.encode(msgspec.json.decode(raw), order="deterministic")
        principal = exchange.caller.principal.id
        parts = msgspec.json.encode([principal, self._server_id, tool, arguments.decode(), definition])
        digest = hashlib.sha256(parts).hexdigest()
        shown = _shown(redact(arguments))
        expires = time.time() + self._ttl
        return Request(digest[:12], digest, principal, self._server_id, tool, shown, definition, expires)

    def _question(self, name: str, request: Request) -> bytes:
        words = f"Allow one call of `{name}` on `{request.server}` with {request.arguments}?"
        return msgspec.json.encode({"mode": "form", "message": words, "requestedSchema": _ASKED})


def _shown(arguments: bytes) -> str:
    """What a person decides about. They must know if it is not all."""
    if len(arguments) <= SHOWN_BYTES:
        return arguments.decode()
    cut = arguments[:SHOWN_BYTES].decode("utf-8", "ignore")
    return f"{cut} … (only the first {SHOWN_BYTES} of {len(arguments)} bytes are shown)"


class _Content(msgspec.Struct):
    approve: bool = False


class _Elicited(msgspec.Struct):
    action: str = ""
    content: _Content | None = None


def _is_yes(answer: Answer) -> bool:
    if answer.error:
        return False
    try:
        elicited = msgspec.json.decode(answer.result, type=_Elicited)
    except msgspec.DecodeError:
        return False
    return elicited.action == "accept" and elicited.content is not None and elicited.content.approve
