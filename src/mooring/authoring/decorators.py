"""`@tool` and the like: they mark a function; a server that is given it makes the item."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, Literal, TypedDict, TypeVar, Unpack, overload

from mooring.authoring.catalog import Item
from mooring.authoring.content import Annotations
from mooring.authoring.items import (
    Describe,
    Options,
    Prompt,
    Resource,
    ResourceOptions,
    Template,
    Tool,
    ToolOptions,
)
from mooring.authoring.schema import References, Schema

F = TypeVar("F", bound=Callable[..., Any])
MARK: Final = "__mooring_items__"
Json = dict[str, Any]
Maker = Callable[[Callable[..., Any]], Item]


class CommonSettings(TypedDict, total=False):
    name: str
    """What clients call it; the function's own name otherwise."""
    title: str
    """A name for people."""
    description: str
    """Instead of what the docstring says."""
    describe: Describe
    """How much of the docstring is the description: its `summary`, or the `whole` text."""
    icons: Sequence[Json]
    meta: Json
    thread: bool
    """Whether a function that is no coroutine runs in a thread (it does); without, it must never block."""


class ToolSettings(CommonSettings, total=False):
    read_only: bool
    destructive: bool
    idempotent: bool
    open_world: bool
    input_schema: Schema
    """Instead of the inferred one; arguments are checked against it."""
    output_schema: Schema | Literal[False]
    """Instead of the inferred one; `False` for none."""
    references: References


class ResourceSettings(CommonSettings, total=False):
    mime_type: str
    size: int
    annotations: Annotations


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(**settings: Unpack[ToolSettings]) -> Callable[[F], F]: ...
def tool(function: Any = None, /, **settings: Any) -> Any:
    """A typed function as a tool: `@tool`, or `@tool(read_only=True)`."""
    return _marked(function, partial(_make_tool, settings))


@overload
def prompt(function: F, /) -> F: ...
@overload
def prompt(**settings: Unpack[CommonSettings]) -> Callable[[F], F]: ...
def prompt(function: Any = None, /, **settings: Any) -> Any:
    """A function that returns messages as a prompt; its parameters are the prompt's arguments."""
    return _marked(function, partial(_make_prompt, settings))


def resource(uri: str, /, **settings: Unpack[ResourceSettings]) -> Callable[[F], F]:
    """A function without arguments as the contents of a resource."""
    return _marked(None, partial(_make_resource, Resource, uri, dict(settings)))


def resource_template(uri_template: str, /, **settings: Unpack[ResourceSettings]) -> Callable[[F], F]:
    """A function as the contents of every resource whose URI fits: `book://{isbn}`."""
    return _marked(None, partial(_make_resource, Template, uri_template, dict(settings)))


def items_of(thing: Any) -> Iterator[Item]:
    """The items that a marked function makes, or the marked functions and methods of an object or module."""
    makers: Sequence[Maker] = getattr(thing, MARK, ()) if callable(thing) else ()
    if makers:
        yield from (make(thing) for make in makers)
        return
    for name in dir(thing):
        if not name.startswith("__"):
            part = getattr(thing, name, None)
            if callable(part):
                yield from (make(part) for make in getattr(part, MARK, ()))


def _marked(function: Any, make: Maker) -> Any:
    def mark(function: Any) -> Any:
        setattr(function, MARK, (*getattr(function, MARK, ()), make))
        return function

    return mark if function is None else mark(function)


def _make_tool(settings: Json, function: Callable[..., Any]) -> Tool:
    return Tool(function, ToolOptions(**_tupled(settings)))


def _make_prompt(settings: Json, function: Callable[..., Any]) -> Prompt:
    return Prompt(function, Options(**_tupled(settings)))


def _make_resource(
    kind: type[Resource | Template], uri: str, settings: Json, function: Callable[..., Any]
) -> Resource | Template:
    said = settings.get("annotations")
    settings = {**settings, "annotations": said.encode() if said is not None else {}}
    return kind(function, ResourceOptions(uri=uri, **_tupled(settings)))


def _tupled(settings: Json) -> Json:
    return {**settings, "icons": tuple(settings["icons"])} if "icons" in settings else settings
