"""Operations on calls that wait for a person to say yes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated

from msgspec import Meta, Struct

from mooring.interfaces.rest.operations import ApiError, Call, Operation
from mooring.policy.approvals import Request, Requests


class Waiting(Struct, frozen=True):
    """A call that waits."""

    id: str
    principal: str
    server: str
    tool: str
    arguments: Annotated[str, Meta(description="The beginning of its arguments, as JSON.")]
    expires: Annotated[float, Meta(description="Unix time until which it can be decided.")]


class WaitingCalls(Struct, frozen=True):
    calls: list[Waiting]


class Decision(Struct, frozen=True, forbid_unknown_fields=True):
    approved: Annotated[bool, Meta(description="Yes is good for this call, once.")]


class ApprovalOperations:
    """What the API does with calls that wait."""

    def __init__(self, requests: Callable[[], Requests]) -> None:
        self._requests = requests

    def table(self) -> list[Operation]:
        return [
            Operation("GET", "/approvals", "Calls that wait for a yes.", self.list, WaitingCalls),
            Operation(
                "POST", "/approvals/{id}", "Say yes or no to a call.", self.decide, Waiting, Decision,
                errors=(404,),
            ),
        ]  # fmt: skip

    async def list(self, _call: Call) -> WaitingCalls:
        found = await asyncio.to_thread(lambda: self._requests().all())
        return WaitingCalls([_waiting(request) for request in found if not request.approved])

    async def decide(self, call: Call) -> Waiting:
        name, body = call.path["id"], call.body
        assert isinstance(body, Decision)
        try:
            decided = await asyncio.to_thread(lambda: self._requests().decide(name, approved=body.approved))
        except KeyError:
            raise ApiError(404, "no_such_call", f"no call `{name}` waits", "see `mooring approve`") from None
        return _waiting(decided)


def _waiting(request: Request) -> Waiting:
    return Waiting(
        request.id, request.principal, request.server, request.tool, request.arguments, request.expires
    )
