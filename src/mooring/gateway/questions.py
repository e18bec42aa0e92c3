"""What a modern server asks before it answers (`input_required`), and how a legacy client is asked it."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from mooring.errors import RpcError
from mooring.protocol import jsonrpc, meta
from mooring.transports.wire import Answer


class Question(msgspec.Struct, frozen=True):
    """One of the requests in an `input_required` result."""

    method: str
    params: Raw = Raw(b"{}")


class InputRequired(msgspec.Struct, frozen=True, rename="camel"):
    result_type: str = "complete"
    input_requests: dict[str, Question] = msgspec.field(default_factory=dict[str, Question])
    request_state: str | None = None


def input_required(raw: bytes | Raw) -> InputRequired | None:
    """The questions in a result, if it is not the final one."""
    if not jsonrpc.may_contain(raw, b'"input_required"'):
        return None
    try:
        wanted = msgspec.json.decode(raw, type=InputRequired)
    except msgspec.DecodeError:
        return None
    return wanted if wanted.result_type == "input_required" else None


def error_result(text: str) -> bytes:
    return msgspec.json.encode(
        {"resultType": "complete", "isError": True, "content": [{"type": "text", "text": text}]}
    )


def declined(method: str, answer: Answer) -> bytes:
    """A client that answers with an error has declined; only elicitation has a word for it."""
    if method == "elicitation/create":
        return b'{"action":"cancel"}'
    if method == "roots/list":
        return b'{"roots":[]}'
    text = bytes(answer.error).decode("utf-8", "replace")
    raise RpcError(f"the client refused `{method}`: {text[:300]}")


def with_elicitation_id(params: Raw) -> bytes:
    """2025-11-25 wants an id for a URL elicitation, which 2026-07-28 no longer has."""
    members: dict[str, Raw | bytes] = dict(jsonrpc.members(params))
    if "url" in members and "elicitationId" not in members:
        members["elicitationId"] = msgspec.json.encode(
            f"mooring-{hash(bytes(members['url'])) & 0xFFFFFFFF:x}"
        )
    return jsonrpc.assemble(members)


def link(params: bytes | Raw) -> str:
    """The address of a URL elicitation, for a client that can only read text."""
    url = meta.text(jsonrpc.members(params).get("url", b""))
    return f"; open {url} yourself, then try again" if url else ""
