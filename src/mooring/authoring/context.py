"""What a handler can do besides answering: report, log, ask the client, announce changes, notice that it is
no longer wanted."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, TypeVar, cast, overload

from mooring.authoring.audience import Audience
from mooring.authoring.calls import Call, Json, Question, can
from mooring.authoring.content import Block, Message, encode_block
from mooring.authoring.errors import Cancelled, ClientCannot, ClientRefused
from mooring.authoring.forms import Elicited, Form
from mooring.authoring.records import plain
from mooring.protocol.versions import V2025_03_26, V2025_11_25

T = TypeVar("T")
Level = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
_SAMPLING_TOKENS: Final = 1_000


class Sent:
    """Something was sent. Awaiting it is a choice: it lets others run, and is a place to be cancelled."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, None]:
        return asyncio.sleep(0).__await__()


_SENT: Final = Sent()


class Pending(Generic[T]):
    """An answer that the client still has to give: `await` it, or in a thread `wait()` for it."""

    __slots__ = ("_future", "_read")

    def __init__(
        self, future: asyncio.Future[Json] | concurrent.futures.Future[Json], read: Callable[[Json], T]
    ) -> None:
        self._future = future
        self._read = read

    def __await__(self) -> Generator[Any, None, T]:
        future = self._future
        if isinstance(future, concurrent.futures.Future):
            raise RuntimeError("this question was asked in a thread: use `.wait()`")  # noqa: TRY004
        answer = yield from future.__await__()
        return self._read(answer)

    def wait(self) -> T:
        """Block this thread until the answer is there, or the call is cancelled."""
        future = self._future
        if not isinstance(future, concurrent.futures.Future):
            raise RuntimeError("waiting here would block the server: use `await`")  # noqa: TRY004
        try:
            return self._read(future.result())
        except concurrent.futures.CancelledError:
            raise Cancelled("the call was cancelled") from None


@dataclass(frozen=True, slots=True)
class Sampled:
    """What the client's model said."""

    role: str
    content: list[Json]
    """Its blocks, as they came."""
    model: str
    stop_reason: str | None

    @property
    def text(self) -> str:
        return "".join(block["text"] for block in self.content if block.get("type") == "text")


@dataclass(frozen=True, slots=True)
class Root:
    """A place that the client lets a server work in."""

    uri: str
    name: str | None = None


class Context:
    """The same in every revision and on every transport; from threads as from coroutines."""

    __slots__ = ("_audience", "_call", "_loop", "_progress", "_thread", "result_meta", "state")

    def __init__(self, call: Call, audience: Audience, state: Any) -> None:
        self._call = call
        self._audience = audience
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._progress: float | None = None
        self.state = state
        """What the server's `lifespan` yielded."""
        self.result_meta: Json = {}
        """What a handler puts here goes into the `_meta` of its result."""

    # Who asks

    @property
    def request_id(self) -> str:
        return self._call.id.decode()

    @property
    def version(self) -> str:
        """The revision of the protocol that this client speaks."""
        return self._call.peer.version

    @property
    def client_info(self) -> Json:
        """Name and version of the client, as it says itself."""
        return self._call.peer.info

    @property
    def client_capabilities(self) -> Json:
        return self._call.peer.capabilities

    @property
    def meta(self) -> Json:
        """The `_meta` of the request."""
        return self._call.meta

    # Being given up

    @property
    def cancelled(self) -> bool:
        return self._call.token.cancelled

    def check(self) -> None:
        """Raise `Cancelled` if the client has given the call up."""
        if self._call.token.cancelled:
            raise Cancelled("the call was cancelled")

    def sleep(self, seconds: float) -> None:
        """In a thread: wait, and raise `Cancelled` as soon as the call is given up."""
        if self._in_loop:
            raise RuntimeError("this would block the server: use `await asyncio.sleep(…)`")
        if self._call.token.wait(seconds):
            raise Cancelled("the call was cancelled")

    # Telling

    def progress(self, progress: float, total: float | None = None, message: str | None = None) -> Sent:
        """How far the call has got. A value that does not grow is not sent: the protocol forbids it."""
        if self._progress is None or progress > self._progress:
            self._progress = progress
            params: Json = {"progress": progress}
            if total is not None:
                params["total"] = total
            if message is not None and self.version >= V2025_03_26:
                params["message"] = message
            self._notify("notifications/progress", params)
        return _SENT

    def log(self, level: Level, data: Any, logger: str | None = None) -> Sent:
        """A line for the client's log, if it wants lines of this level."""
        params: Json = {"level": level, "data": _loggable(data)}
        if logger is not None:
            params["logger"] = logger
        self._notify("notifications/message", params)
        return _SENT

    def debug(self, data: Any) -> Sent:
        return self.log("debug", data)

    def info(self, data: Any) -> Sent:
        return self.log("info", data)

    def warning(self, data: Any) -> Sent:
        return self.log("warning", data)

    def error(self, data: Any) -> Sent:
        return self.log("error", data)

    def resource_updated(self, uri: str) -> Sent:
        """Tell everybody who subscribed to this resource that it has changed."""
        self._audience.resource_updated(uri)
        return _SENT

    def close_stream(self, retry_seconds: float | None = None) -> Sent:
        """Let the client go, and come back for the answer after a while (2025-11-25, Streamable HTTP).

        Elsewhere this does nothing: the answer simply comes.
        """
        milliseconds = None if retry_seconds is None else int(retry_seconds * 1000)
        self._run(lambda: self._call.sink.close_stream(milliseconds) if self._call.sink else None)
        return _SENT

    # Asking

    @overload
    def elicit(self, message: str, form: type[T], *, key: str | None = None) -> Pending[Elicited[T]]: ...
    @overload
    def elicit(self, message: str, form: Json, *, key: str | None = None) -> Pending[Elicited[Json]]: ...
    def elicit(self, message: str, form: Any, *, key: str | None = None) -> Pending[Elicited[Any]]:
        """Ask the person: `form` is a dataclass or the like with plain fields, or a schema of your own."""
        asked = Form.of(form)
        params: Json = {"message": message, "requestedSchema": asked.schema}
        if self.version >= V2025_11_25:
            params = {"mode": "form", **params}
        needs: Json = {"elicitation": {"form": {}}}
        return self._ask(Question("elicitation/create", params, key or asked.key, needs), asked.read)

    def elicit_url(
        self, message: str, url: str, *, identifier: str = "", key: str = "elicitation"
    ) -> Pending[Elicited[None]]:
        """Send the person to a page, for what must not pass through the client: passwords, payments."""
        params: Json = {"mode": "url", "message": message, "url": url}
        if not self._call.peer.is_modern:
            params["elicitationId"] = identifier or url
        question = Question("elicitation/create", params, key, {"elicitation": {"url": {}}})
        return self._ask(question, Form({}, None).read)

    def sample(
        self,
        messages: str | Message | Sequence[Message | Block | str],
        *,
        max_tokens: int = _SAMPLING_TOKENS,
        system_prompt: str | None = None,
        temperature: float | None = None,
        stop_sequences: Sequence[str] | None = None,
        model_preferences: Json | None = None,
        tools: Sequence[Json] | None = None,
        tool_choice: Json | None = None,
        key: str = "sampling",
    ) -> Pending[Sampled]:
        """Ask the client's model."""
        given = [messages] if isinstance(messages, str | Message) else messages
        optional = {
            "systemPrompt": system_prompt,
            "temperature": temperature,
            "stopSequences": list(stop_sequences) if stop_sequences is not None else None,
            "modelPreferences": model_preferences,
            "tools": list(tools) if tools is not None else None,
            "toolChoice": tool_choice,
        }
        params: Json = {
            "messages": [_message(each) for each in given],
            "maxTokens": max_tokens,
            **{name: value for name, value in optional.items() if value is not None},
        }
        needs: Json = {"sampling": {"tools": {}} if tools is not None else {}}
        return self._ask(Question("sampling/createMessage", params, key, needs), _read_sample)

    def roots(self, *, key: str = "roots") -> Pending[list[Root]]:
        """The places that the client lets this server work in."""
        return self._ask(Question("roots/list", {}, key, {"roots": {}}), _read_roots)

    def can(self, *capabilities: Literal["elicitation", "sampling", "roots"]) -> bool:
        """Whether the client can be asked these things."""
        return can(self._call.peer.capabilities, {name: {} for name in capabilities})

    def _ask(self, question: Question, read: Callable[[Json], T]) -> Pending[T]:
        if not can(self._call.peer.capabilities, question.needs):
            missing = ", ".join(question.needs)
            raise ClientCannot(f"the client did not declare what this needs: {missing}", question.needs)
        if self._in_loop:
            return Pending(self._call.peer.ask(self._call, question), read)
        self.check()
        outcome: concurrent.futures.Future[Json] = concurrent.futures.Future()

        def begin() -> None:
            asked = self._call.peer.ask(self._call, question)
            asked.add_done_callback(lambda done: _copy(done, outcome))

        self._loop.call_soon_threadsafe(begin)
        return Pending(outcome, read)

    @property
    def _in_loop(self) -> bool:
        return threading.get_ident() == self._thread

    def _notify(self, method: str, params: Json) -> None:
        self._run(lambda: self._call.notify(method, params))

    def _run(self, action: Callable[[], object]) -> None:
        if self._in_loop:
            action()
        else:
            self.check()
            self._loop.call_soon_threadsafe(action)


def _copy(done: asyncio.Future[Json], outcome: concurrent.futures.Future[Json]) -> None:
    if outcome.done():
        return
    if done.cancelled():
        outcome.cancel()
        outcome.set_running_or_notify_cancel()
    elif (error := done.exception()) is not None:
        outcome.set_exception(error)
    else:
        outcome.set_result(done.result())


def _loggable(data: Any) -> Any:
    """A line must not cost the call: what JSON has no counterpart for, such as an exception, is its text."""
    try:
        return plain(data)
    except (TypeError, ValueError, RecursionError):
        return str(data)


def _message(item: Message | Block | str) -> Json:
    return item.encode() if isinstance(item, Message) else {"role": "user", "content": encode_block(item)}


def _read_sample(answer: Json) -> Sampled:
    content = answer.get("content")
    found = cast("list[Any]", content if isinstance(content, list) else [content])
    blocks: list[Json] = [block for block in found if isinstance(block, dict)]
    if len(blocks) != len(found):
        raise ClientRefused("the client's model answered without `content`")
    return Sampled(
        str(answer.get("role", "")), blocks, str(answer.get("model", "")), answer.get("stopReason")
    )


def _read_roots(answer: Json) -> list[Root]:
    found = answer.get("roots")
    if not isinstance(found, list):
        raise ClientRefused("the client answered `roots/list` without `roots`")
    return [Root(str(root.get("uri", "")), root.get("name")) for root in cast("list[Json]", found)]
