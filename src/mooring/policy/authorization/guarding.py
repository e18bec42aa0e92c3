"""Authorization in the chain: one decision for lists and calls. What you may not use you do not see."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw

from mooring.errors import FORBIDDEN, MethodNotFound, RpcError
from mooring.gateway.exchange import Exchange
from mooring.gateway.principal import Caller
from mooring.policy.authorization.engine import Engine, Question, Verdict
from mooring.policy.catalogue import Catalogue
from mooring.policy.items import (
    PROMPTS,
    RESOURCE_NOT_FOUND,
    RESOURCES,
    TEMPLATES,
    TOOLS,
    Listing,
    OwnItems,
    absent,
    set_params,
    subject,
)
from mooring.protocol import jsonrpc
from mooring.protocol.subscriptions import Filter
from mooring.transports.wire import Answer

KINDS: Final = {
    TOOLS: ("call_tool", "Tool"),
    PROMPTS: ("get_prompt", "Prompt"),
    RESOURCES: ("read_resource", "Resource"),
    TEMPLATES: ("read_resource", "Resource"),
}
"""Kind of item -> the action on it, and its entity type."""
FREE: Final = frozenset(
    {
        "initialize", "ping", "server/discover", "logging/setLevel", "tools/list", "prompts/list",
        "resources/list", "resources/templates/list", "subscriptions/listen", "tasks/get", "tasks/result",
        "tasks/list", "tasks/cancel", "tasks/update",
    }
)  # fmt: skip
"""Requests about nothing that a policy names. Lists are filtered; tasks belong to whoever started them."""
NAME: Final = "authorization"
_NOT_FOUND: Final = (RESOURCE_NOT_FOUND, -32602)


class ArgumentsDenied(RpcError):
    """The caller may use this, but not like that."""

    code = FORBIDDEN
    by = NAME


class Authorization:
    """The policies, applied to one server."""

    def __init__(
        self,
        engine: Engine,
        catalogue: Catalogue,
        server_id: str,
        group: str | None,
        own: OwnItems | None = None,
    ) -> None:
        self.engine = engine
        self._own = own or OwnItems()
        self._catalogue = catalogue
        self._server = server_id
        self._group = group

    def check(self, exchange: Exchange) -> None:
        if exchange.method in FREE:
            if exchange.method == "subscriptions/listen":
                self._narrow(exchange)
            return
        found = subject(exchange)
        if found is None:
            raise MethodNotFound(f"`{exchange.method}` is not a method of this server")
        question = self._question(exchange, *found)
        match self.engine.verdict(question):
            case Verdict.ALLOWED:
                return
            case Verdict.DENIED if self._comes_along(question):
                if self.engine.forbids(question, arguments_of(exchange)):
                    raise self._denied(exchange, question)
            case Verdict.DENIED:
                raise absent(exchange, *found, NAME)
            case Verdict.DEPENDS:
                self._check_arguments(exchange, question)

    def _check_arguments(self, exchange: Exchange, question: Question) -> None:
        if exchange.method not in ("tools/call", "prompts/get"):
            return  # asking for completions or changes says nothing about arguments yet
        decision = self.engine.decide(question, arguments_of(exchange))
        if not decision.allowed:
            raise self._denied(exchange, question)

    def _denied(self, exchange: Exchange, question: Question) -> RpcError:
        """Why it may not be used like that; of a tool that something else hides, nothing is said."""
        if question.kind == "Tool" and self._catalogue.shown(exchange, question.name) is None:
            return absent(exchange, TOOLS, question.name, NAME)
        return denied_arguments(exchange.known_as or question.name)

    def shown(self, exchange: Exchange, tool: str) -> str | None:
        """The name of a tool, if this caller sees it."""
        return tool if self._is_visible(exchange, TOOLS, tool) else None

    def _comes_along(self, question: Question) -> bool:
        """What the gateway adds needs no policy of its own: it goes with what it is there for, unless a
        policy forbids it."""
        if question.kind == "Resource":
            return self._own.is_resource(question.name) and not self.engine.forbids(question)
        served = self._own.tools.get(question.name) if question.kind == "Tool" else None
        if served is None or self.engine.forbids(question):
            return False
        others = (msgspec.structs.replace(question, name=name, hints=None) for name in served)
        return not served or any(self.engine.verdict(other) is not Verdict.DENIED for other in others)

    def may_call(self, caller: Caller, tool: str) -> bool:
        """Whether this caller could call a tool, with some arguments."""
        question = Question(caller.principal, "call_tool", "Tool", tool, self._server, self._group)
        return self.engine.verdict(question) is not Verdict.DENIED or self._comes_along(question)

    def may_read(self, caller: Caller, uri: str) -> bool:
        """Whether this caller may read a resource, and so hear that it has changed."""
        question = Question(caller.principal, "read_resource", "Resource", uri, self._server, self._group)
        return self.engine.verdict(question) is not Verdict.DENIED or self._comes_along(question)

    def present(self, exchange: Exchange, listing: Listing) -> None:
        """A list, without what this caller could not use whatever the arguments."""
        listing.items = [
            item for item in listing.items if self._is_visible(exchange, listing.kind, item.name)
        ]
        if "cacheScope" in listing.members:
            listing.members["cacheScope"] = Raw(b'"private"')  # it is this caller's list now

    def _is_visible(self, exchange: Exchange, kind: str, name: str) -> bool:
        question = self._question(exchange, kind, name)
        return self.engine.verdict(question) is not Verdict.DENIED or self._comes_along(question)

    def settle(self, exchange: Exchange, answer: Answer) -> Answer:
        """A resource that is not there is spoken of in the same words as one that may not be read."""
        if exchange.method != "resources/read" or not answer.error:
            return answer
        try:
            code = msgspec.json.decode(answer.error, type=_Coded).code
        except msgspec.DecodeError:
            return answer
        if code not in _NOT_FOUND:
            return answer
        found = subject(exchange)
        assert found is not None
        missing = absent(exchange, *found)
        missing.hidden = False
        raise missing

    def _narrow(self, exchange: Exchange) -> None:
        """A stream of changes tells only of what its listener may read."""
        parts = jsonrpc.members(exchange.envelope.params)
        try:
            wish = msgspec.json.decode(parts.get("notifications", Raw(b"{}")), type=Filter)
        except msgspec.DecodeError:
            return  # which is said where it is read
        seen = tuple(uri for uri in wish.resource_subscriptions if self._is_visible(exchange, RESOURCES, uri))
        if seen != wish.resource_subscriptions:
            narrower = msgspec.structs.replace(wish, resource_subscriptions=seen)
            parts["notifications"] = Raw(msgspec.json.encode(narrower))
            set_params(exchange, parts)

    def _question(self, exchange: Exchange, kind: str, name: str) -> Question:
        action, entity = KINDS[kind]
        hints = self._catalogue.view(exchange, kind).annotations(name) if kind == TOOLS else None
        return Question(exchange.caller.principal, action, entity, name, self._server, self._group, hints)


def denied_arguments(name: str) -> ArgumentsDenied:
    return ArgumentsDenied(f"`{name}` may not be used with these arguments", data={"reason": "policy"})


class _Coded(msgspec.Struct):
    code: int = 0


class _Arguments(msgspec.Struct):
    arguments: dict[str, Any] | None = None


def arguments_of(exchange: Exchange) -> dict[str, Any]:
    """The arguments of a call, decoded; what is no object has none that a policy could look at."""
    try:
        return msgspec.json.decode(exchange.envelope.params, type=_Arguments).arguments or {}
    except msgspec.DecodeError as error:
        raise RpcError(f"`arguments` must be an object: {error}", code=-32602) from None
