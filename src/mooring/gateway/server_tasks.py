"""Tasks that a modern server keeps (the extension of 2026-07-28), for clients that know none."""

from __future__ import annotations

import msgspec
from msgspec import Raw

from mooring.errors import MISSING_CAPABILITY
from mooring.gateway.profile import TASKS_EXTENSION
from mooring.gateway.questions import Question
from mooring.gateway.upstream_session import error_code
from mooring.protocol import jsonrpc, meta
from mooring.transports.wire import Answer


class Task(msgspec.Struct, frozen=True, rename="camel"):
    """A task of the extension, as its server describes it."""

    task_id: str
    status: str
    poll_interval_ms: int | None = None
    input_requests: dict[str, Question] = msgspec.field(default_factory=dict[str, Question])
    result: Raw = Raw(b"{}")
    error: Raw = Raw(b"{}")


def read_task(answer: Answer) -> Task | None:
    if answer.error:
        return None
    try:
        return msgspec.json.decode(answer.result, type=Task)
    except msgspec.DecodeError:
        return None


def wants_tasks(answer: Answer) -> bool:
    """A tool that runs only as a task (2026-07-28) refuses a caller who did not declare the extension."""
    return error_code(answer) == MISSING_CAPABILITY and jsonrpc.may_contain(
        answer.error, TASKS_EXTENSION.encode()
    )


def with_tasks_declared(params: bytes) -> bytes:
    known = jsonrpc.members(jsonrpc.members(jsonrpc.members(params)["_meta"])[meta.CLIENT_CAPABILITIES])
    extensions = jsonrpc.members(known.get("extensions", b""))
    extensions[TASKS_EXTENSION] = Raw(b"{}")
    known["extensions"] = Raw(jsonrpc.assemble(extensions))
    return meta.with_meta(params, meta.CLIENT_CAPABILITIES, jsonrpc.assemble(known))
