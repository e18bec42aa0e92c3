"""What a server answers to each method: its lists, its items, and what their authors' functions return."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import secrets
from collections.abc import Awaitable, Callable
from typing import Any, Final, cast

import msgspec

from mooring.authoring.audience import Audience
from mooring.authoring.calls import LEVELS, Call, Json
from mooring.authoring.cancellation import Threads, own_call_only
from mooring.authoring.catalog import Catalog, completion_of
from mooring.authoring.context import Context
from mooring.authoring.errors import Cancelled, ClientCannot, ClientRefused, NotFound, ToolError
from mooring.authoring.identity import Identity
from mooring.authoring.items import Handler, TextArguments, Tool
from mooring.authoring.listening import ListenStream
from mooring.authoring.peers import Session
from mooring.authoring.problems import Invalid
from mooring.authoring.results import Produced, call_result, contents_of, failure, produced, prompt_result
from mooring.errors import RESOURCE_NOT_FOUND, InvalidParams, InvalidRequest, RpcError
from mooring.protocol import routing_headers
from mooring.protocol.subscriptions import Filter
from mooring.protocol.versions import MODERN_VERSIONS, V2025_11_25, negotiate_legacy

LISTS: Final = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")
MAX_SUBSCRIPTIONS: Final = 1_000
log = logging.getLogger("mooring.authoring")


class Methods:
    """One method each; `quick` ones answer at once, `slow` ones run an author's code."""

    def __init__(self, identity: Identity, catalog: Catalog, audience: Audience) -> None:
        self.state: Any = None
        self._identity = identity
        self._catalog = catalog
        self._audience = audience
        self.threads = Threads()
        self.quick: dict[str, Callable[[Call], Json]] = {
            "ping": lambda _: {},
            "server/discover": self._discover,
            "logging/setLevel": self._set_level,
            "resources/subscribe": self._subscribe,
            "resources/unsubscribe": self._unsubscribe,
            **dict.fromkeys(LISTS, self._list),
        }
        self.slow: dict[str, Callable[[Call], Awaitable[Json]]] = {
            "tools/call": self._call_tool,
            "resources/read": self._read_resource,
            "prompts/get": self._get_prompt,
            "completion/complete": self._complete,
            "subscriptions/listen": self._listen,
        }

    def _context(self, call: Call) -> Context:
        return Context(call, self._audience, self.state)

    # Those that answer at once

    def initialize(self, session: Session, params: Json) -> Json:
        requested, capabilities = params.get("protocolVersion"), params.get("capabilities", {})
        if not isinstance(requested, str):
            raise InvalidParams("`protocolVersion` must be a string")
        if not isinstance(capabilities, dict):
            raise InvalidParams("`capabilities` must be an object")
        info = params.get("clientInfo")
        version = negotiate_legacy(requested)
        session.introduce(
            version, cast("Json", capabilities), cast("Json", info) if isinstance(info, dict) else {}
        )
        return {
            "protocolVersion": version,
            "capabilities": self._identity.capabilities(self._catalog),
            "serverInfo": self._identity.info_for(version),
            **self._identity.advice,
        }

    def _discover(self, _: Call) -> Json:
        return {
            "supportedVersions": list(MODERN_VERSIONS),
            "capabilities": self._identity.capabilities(self._catalog),
            **self._identity.advice,
        }

    def _list(self, call: Call) -> Json:
        return self._catalog.page(call.method, call.params.get("cursor"), call.peer.version)

    def _set_level(self, call: Call) -> Json:
        level = call.params.get("level")
        if level not in LEVELS:
            raise InvalidParams(f"`level` must be one of {', '.join(LEVELS)}")
        cast("Session", call.peer).level = level
        return {}

    def _subscribe(self, call: Call) -> Json:
        uri = _text(call.params, "uri")
        if self._catalog.find_resource(uri) is None:
            raise _not_found(call, uri)
        subscriptions = cast("Session", call.peer).subscriptions
        if len(subscriptions) >= MAX_SUBSCRIPTIONS:
            raise InvalidRequest(f"a session may have {MAX_SUBSCRIPTIONS} subscriptions; end some first")
        subscriptions.add(uri)
        return {}

    def _unsubscribe(self, call: Call) -> Json:
        cast("Session", call.peer).subscriptions.discard(_text(call.params, "uri"))
        return {}

    # Those that run an author's code

    async def _call_tool(self, call: Call) -> Json:
        name = _text(call.params, "name")
        tool = self._catalog.tools.get(name)
        if tool is None:
            raise InvalidParams(f"no tool `{name}`; see `tools/list`")
        given: Any = call.params.get("arguments")
        arguments: Json = {} if given is None else given
        if call.headers is not None and tool.headers:
            routing_headers.check_params(tool.headers, arguments, call.headers)
        try:
            read = tool.read(arguments)
        except Invalid as error:
            message = f"invalid arguments for `{name}`: {error}"
            if call.peer.version < V2025_11_25:
                raise InvalidParams(message) from None
            return call_result(failure(message), call.peer.version, wraps=False)
        context = self._context(call)
        answer = await self._use_tool(tool, read, call, context)
        if context.result_meta:
            answer = msgspec.structs.replace(answer, meta={**context.result_meta, **answer.meta})
        return call_result(answer, call.peer.version, wraps=tool.wraps(answer.structured))

    async def _use_tool(self, tool: Tool, arguments: Json, call: Call, context: Context) -> Produced:
        try:
            value = await tool.invoke(arguments, context, self.threads)
            answer = produced(value, structured=tool.output_schema is not None)
            if answer.structured is not msgspec.UNSET and not answer.is_error:
                _check_promise(tool, answer)
        except (ToolError, ClientRefused, NotFound) as error:
            return failure(str(error))
        except ClientCannot as error:
            if call.peer.is_modern:
                raise
            return failure(str(error))
        except Cancelled:
            if call.token.cancelled:
                raise asyncio.CancelledError from None
            return failure("the call was cancelled")
        except RpcError:
            raise
        except Exception:
            reference = secrets.token_hex(4)
            log.exception("tool `%s` failed (reference %s)", tool.name, reference)
            return failure(
                f"`{tool.name}` failed: internal error (reference {reference} in the server's log)"
            )
        return answer

    async def _read_resource(self, call: Call) -> Json:
        uri = _text(call.params, "uri")
        found = self._catalog.find_resource(uri)
        if found is None:
            raise _not_found(call, uri)
        item, values = found
        try:
            arguments = item.read_texts(values) if isinstance(item, TextArguments) else {}
        except Invalid as error:
            raise InvalidParams(f"`{uri}`: {error}") from None
        context = self._context(call)
        try:
            value = await item.invoke(arguments, context, self.threads)
        except NotFound as error:
            raise _not_found(call, uri, str(error)) from None
        members: Json = {"contents": contents_of(value, uri, item.mime_type)}
        return {**members, "_meta": context.result_meta} if context.result_meta else members

    async def _get_prompt(self, call: Call) -> Json:
        name = _text(call.params, "name")
        prompt = self._catalog.prompts.get(name)
        if prompt is None:
            raise InvalidParams(f"no prompt `{name}`; see `prompts/list`")
        given = call.params.get("arguments")
        if given is not None and not isinstance(given, dict):
            raise InvalidParams("`arguments` must be an object")
        try:
            arguments = prompt.read_texts(cast("dict[str, str]", given or {}))
        except Invalid as error:
            raise InvalidParams(f"invalid arguments for prompt `{name}`: {error}") from None
        context = self._context(call)
        value = await prompt.invoke(arguments, context, self.threads)
        members = prompt_result(value, prompt.description)
        return {**members, "_meta": context.result_meta} if context.result_meta else members

    async def _complete(self, call: Call) -> Json:
        handler, key = self._completed(call.params.get("ref"))
        argument = call.params.get("argument")
        if not isinstance(argument, dict):
            raise InvalidParams("`argument` must be an object")
        name, value = _text(cast("Json", argument), "name"), _text(cast("Json", argument), "value")
        completer = self._catalog.completers.get((key, name))
        if completer is None:
            start = value.casefold()
            matches = [each for each in handler.choices(name) if each.casefold().startswith(start)]
            return {"completion": completion_of(matches)}
        given = call.params.get("context")
        others: Any = cast("Json", given).get("arguments") if isinstance(given, dict) else None
        wanted = len(inspect.signature(completer).parameters)
        ask = functools.partial(completer, *(value, others or {})[:wanted])
        with own_call_only():
            values = await (ask() if inspect.iscoroutinefunction(completer) else self.threads.run(ask))
        return {"completion": completion_of(values)}

    def _completed(self, reference: Any) -> tuple[TextArguments, str]:
        kind = cast("Json", reference).get("type") if isinstance(reference, dict) else None
        if kind == "ref/prompt":
            key = _text(cast("Json", reference), "name")
            handler: Handler | None = self._catalog.prompts.get(key)
        elif kind == "ref/resource":
            key = _text(cast("Json", reference), "uri")
            handler = self._catalog.templates.get(key)
        else:
            raise InvalidParams("`ref` must be a `ref/prompt` or a `ref/resource`")
        if not isinstance(handler, TextArguments):
            raise InvalidParams(f"nothing here is called `{key}`")
        return handler, key

    async def _listen(self, call: Call) -> Json:
        try:
            wish = msgspec.convert(call.params.get("notifications"), Filter)
        except msgspec.ValidationError as error:
            raise InvalidParams(f"`notifications`: {error}") from None
        stream = ListenStream(call, self._granted(wish))
        self._audience.listeners.add(stream)
        try:
            stream.acknowledge()
            return await stream.ended
        finally:
            self._audience.listeners.discard(stream)

    def _granted(self, wish: Filter) -> Filter:
        """What we can honour: lists that are offered, and resources that exist."""
        offered = self._catalog.capabilities(logging=False)
        return Filter(
            wish.tools_list_changed and "tools" in offered,
            wish.prompts_list_changed and "prompts" in offered,
            wish.resources_list_changed and "resources" in offered,
            tuple(uri for uri in wish.resource_subscriptions if self._catalog.find_resource(uri) is not None),
        )


def _check_promise(tool: Tool, answer: Produced) -> None:
    if not tool.keeps_promise(answer.structured):
        raise TypeError(f"`{tool.name}` returned what its output schema does not allow")


def _text(params: Json, name: str) -> str:
    value = params.get(name)
    if not isinstance(value, str):
        raise InvalidParams(f"`{name}` must be a string")
    return value


def _not_found(call: Call, uri: str, message: str = "") -> RpcError:
    code = None if call.peer.is_modern else RESOURCE_NOT_FOUND
    return InvalidParams(message or f"no resource `{uri}`", code=code, data={"uri": uri})
