"""Tools, resources, templates and prompts: a function, what is said about it, and how it is called."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, cast

import jsonschema_rs
import msgspec

from mooring.authoring.cancellation import Threads, own_call_only
from mooring.authoring.containers import choices_of
from mooring.authoring.context import Context
from mooring.authoring.hints import Undescribable
from mooring.authoring.inference import shape_of, write
from mooring.authoring.problems import Invalid, Problem
from mooring.authoring.results import WRAPPED, says_nothing_structured
from mooring.authoring.schema import References, Schema
from mooring.authoring.shapes import Anything, Shape
from mooring.authoring.signature import Signature, read_signature
from mooring.authoring.uri_template import UriTemplate
from mooring.protocol import routing_headers
from mooring.protocol.versions import V2025_03_26, V2025_06_18, V2025_11_25, V2026_07_28

Json = dict[str, Any]
Describe = Literal["summary", "whole"]
MAX_NAME: Final = 128
_NAME_CHARACTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")


class BadDefinition(TypeError):
    """A tool, resource or prompt that cannot be offered as it is; the message says what to change."""


@dataclass(frozen=True, slots=True)
class Options:
    """What can be said about any item."""

    name: str | None = None
    title: str | None = None
    description: str | None = None
    describe: Describe = "summary"
    icons: tuple[Json, ...] = ()
    meta: Json = field(default_factory=dict[str, Any])
    thread: bool = True
    """Whether a handler that is no coroutine runs in a thread; without one it must not block."""


@dataclass(frozen=True, slots=True)
class ToolOptions(Options):
    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None
    input_schema: Schema | None = None
    output_schema: Schema | Literal[False] | None = None
    references: References = "inline"

    @property
    def hints(self) -> Json:
        hints = {
            "readOnlyHint": self.read_only,
            "destructiveHint": self.destructive,
            "idempotentHint": self.idempotent,
            "openWorldHint": self.open_world,
        }
        return {name: value for name, value in hints.items() if value is not None}


@dataclass(frozen=True, slots=True)
class ResourceOptions(Options):
    uri: str = ""
    mime_type: str | None = None
    size: int | None = None
    annotations: Json = field(default_factory=dict[str, Any])


class Handler:
    """The function of an item."""

    def __init__(self, function: Callable[..., Any], options: Options) -> None:
        self.function = function
        self.options = options
        self.signature = self._read_signature()
        self.name = options.name or _name_of(function)
        self._is_async = _is_coroutine_function(function)
        if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
            raise BadDefinition(
                f"`{self.name}` is a generator; return a list, and tell of it with `progress`"
            )

    def _read_signature(self) -> Signature:
        return read_signature(self.function, Context)

    @property
    def description(self) -> str:
        docs = self.signature.docs
        if self.options.description is not None:
            return self.options.description
        return docs.whole if self.options.describe == "whole" else docs.summary

    def about(self, version: str) -> Json:
        """Title, icons and `_meta`, as far as the revision knows them."""
        options = self.options
        members: Json = {}
        if options.title and version >= V2025_06_18:
            members["title"] = options.title
        if self.description:
            members["description"] = self.description
        if options.icons and version >= V2025_11_25:
            members["icons"] = list(options.icons)
        if options.meta and version >= V2025_06_18:
            members["_meta"] = options.meta
        return members

    async def invoke(self, arguments: Json, context: Context, threads: Threads) -> Any:
        positional, named = self.signature.arrange(arguments, context)
        with own_call_only():
            if self._is_async or not self.options.thread:
                outcome = self.function(*positional, **named)
            else:
                outcome = await threads.run(functools.partial(self.function, *positional, **named))
            return await outcome if inspect.isawaitable(outcome) else outcome


class Tool(Handler):
    def __init__(self, function: Callable[..., Any], options: ToolOptions) -> None:
        super().__init__(function, options)
        _check_name(self.name)
        self.hints = options.hints
        self.input_schema = options.input_schema or _input_schema(self.signature, options.references)
        self._arguments = self.signature.record
        self._explicit: jsonschema_rs.Draft202012Validator | None = None
        if options.input_schema is not None:
            self._explicit = _validator(options.input_schema, f"`input_schema` of `{self.name}`")
            if options.input_schema.get("type") != "object":
                raise BadDefinition(f"`input_schema` of `{self.name}` must say `type: object`")
            self._arguments = replace(self._arguments, ignores_others=True)
        try:
            self.headers = routing_headers.annotated(self.input_schema)
        except routing_headers.InvalidHeaderAnnotation as error:
            raise BadDefinition(f"tool `{self.name}`: {error}") from error
        self.output_schema = self._infer_output(options)
        self._output = (
            _validator(self.output_schema, f"`output_schema` of `{self.name}`")
            if self.output_schema
            else None
        )

    def _read_signature(self) -> Signature:
        if cast("ToolOptions", self.options).input_schema is None:
            return super()._read_signature()
        return read_signature(self.function, Context, undescribed=Anything())  # the author has described it

    def _infer_output(self, options: ToolOptions) -> Schema | None:
        if options.output_schema is not None:
            return options.output_schema or None
        returns = self.signature.returns
        if says_nothing_structured(returns):
            return None
        try:
            schema = write(shape_of(returns), options.references)
        except Undescribable as error:
            raise Undescribable(f"`{self.name}` returns what has no schema: {error}") from error
        said = self.signature.docs.returns
        return {**schema, "description": said} if said and "description" not in schema else schema

    def wraps(self, data: Any) -> bool:
        """Whether clients before 2026-07-28 get this data inside an object."""
        if self.output_schema is not None:
            return not _describes_object(self.output_schema)
        return not isinstance(data, dict)

    @property
    def may_repeat(self) -> bool:
        """Whether running it twice does no harm, as its author says."""
        return bool(self.hints.get("readOnlyHint") or self.hints.get("idempotentHint"))

    def definition(self, version: str) -> Json:
        members: Json = {"name": self.name, **self.about(version), "inputSchema": self.input_schema}
        if self.output_schema is not None and version >= V2025_06_18:
            members["outputSchema"] = _output_for(self.output_schema, version)
        if self.hints and version >= V2025_03_26:
            members["annotations"] = self.hints
        return members

    def read(self, arguments: Json) -> Json:
        """The arguments for the function; raises `Invalid`."""
        if self._explicit is not None:
            problems = [
                Problem(tuple(error.instance_path), f"will not do: {error.message}")
                for error in self._explicit.iter_errors(arguments)
            ]
            if problems:
                raise Invalid(problems)
        try:
            return self._arguments.read(arguments, ())
        except RecursionError:
            raise Invalid((Problem((), "is nested too deeply"),)) from None

    def keeps_promise(self, data: Any) -> bool:
        """Whether structured content is what the output schema says."""
        return self._output is None or self._output.is_valid(data)


def _input_schema(signature: Signature, references: References) -> Schema:
    return write(signature.record, references)


def _describes_object(schema: Schema) -> bool:
    if schema.get("type") == "object":
        return True
    target = schema.get("$defs", {}).get(str(schema.get("$ref", "")).rpartition("/")[2], {})
    return target.get("type") == "object"


def _output_for(schema: Schema, version: str) -> Schema:
    """Before 2026-07-28 an output schema describes an object, and says so."""
    if version >= V2026_07_28:
        return schema
    if _describes_object(schema):
        return {"type": "object", **schema}
    definitions = {"$defs": schema["$defs"]} if "$defs" in schema else {}
    inner = {key: value for key, value in schema.items() if key != "$defs"}
    return {"type": "object", "properties": {WRAPPED: inner}, "required": [WRAPPED], **definitions}


def _validator(schema: Schema, label: str) -> jsonschema_rs.Draft202012Validator:
    try:
        jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})
        return jsonschema_rs.Draft202012Validator(schema)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise BadDefinition(f"{label} is not a valid schema (2020-12): {reason}") from error


class TextArguments(Handler):
    """A handler whose arguments arrive as text: in a prompt's arguments, or in a URI."""

    def read_texts(self, texts: Mapping[str, str]) -> Json:
        members = self.signature.record.wire_names
        values = {
            name: _from_text(text, members[name].shape) if name in members else text
            for name, text in texts.items()
        }
        return self.signature.record.read(values, ())

    def choices(self, name: str) -> list[str]:
        member = self.signature.record.wire_names.get(name)
        return choices_of(member.shape) if member is not None else []


def _from_text(text: Any, shape: Shape) -> Any:
    """Text as it is, where that fits; otherwise what it says as JSON: `3`, `true`, `[1, 2]`."""
    if not isinstance(text, str):
        return text
    try:
        shape.read(text, ())
    except Invalid:
        try:
            return msgspec.json.decode(text)
        except msgspec.DecodeError:
            return text
    return text


class Resource(Handler):
    def __init__(self, function: Callable[..., Any], options: ResourceOptions) -> None:
        super().__init__(function, options)
        self.uri = options.uri
        self.mime_type = options.mime_type
        if "{" in self.uri:
            raise BadDefinition(f"`{self.uri}` is a template: use `resource_template`")
        if self.signature.record.members:
            raise BadDefinition(f"`{self.name}`: a resource has no arguments; use `resource_template`")
        self._options = options

    def definition(self, version: str) -> Json:
        members = {"uri": self.uri, "name": self.name, **self.about(version)}
        return {**members, **_file_facts(self._options)}


class Template(TextArguments):
    def __init__(self, function: Callable[..., Any], options: ResourceOptions) -> None:
        super().__init__(function, options)
        self.template = UriTemplate(options.uri)
        self.mime_type = options.mime_type
        self._options = options
        known = self.signature.record.wire_names
        for name in self.template.names:
            if name not in known and self.signature.record.others is None:
                raise BadDefinition(
                    f"`{options.uri}` has `{{{name}}}`, but `{self.name}` has no such parameter"
                )
        for name, member in known.items():
            if member.required and (name not in self.template.names or name in self.template.optional):
                raise BadDefinition(f"`{self.name}` needs `{name}`, which `{options.uri}` may not have")

    def definition(self, version: str) -> Json:
        members = {"uriTemplate": self.template.text, "name": self.name, **self.about(version)}
        return {**members, **_file_facts(self._options)}


def _file_facts(options: ResourceOptions) -> Json:
    facts = {
        "mimeType": options.mime_type,
        "size": options.size,
        "annotations": options.annotations or None,
    }
    return {name: value for name, value in facts.items() if value is not None}


class Prompt(TextArguments):
    def definition(self, version: str) -> Json:
        arguments = [
            _prompt_argument(member.name, member.shape, member.required)
            for member in self.signature.record.members
        ]
        listed: Json = {"arguments": arguments} if arguments else {}
        return {"name": self.name, **self.about(version), **listed}


def _prompt_argument(name: str, shape: Shape, required: bool) -> Json:
    written = write(shape, "inline")
    description = written.get("description")
    said = {"description": description} if description else {}
    return {"name": name, **said, "required": required}


def _is_coroutine_function(function: Any) -> bool:
    while isinstance(function, functools.partial):
        function = function.func  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - its coroutine-ness, not whether it is there
    )


def _name_of(function: Any) -> str:
    while isinstance(function, functools.partial):
        function = function.func  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    name = getattr(function, "__name__", "") or type(function).__name__  # pyright: ignore[reportUnknownArgumentType]
    if name == "<lambda>":
        raise BadDefinition("a lambda needs a `name`")
    return name


def _check_name(name: str) -> None:
    if not 1 <= len(name) <= MAX_NAME or not set(name) <= _NAME_CHARACTERS:
        raise BadDefinition(
            f"`{name}` is no name for a tool: use up to {MAX_NAME} letters, digits, `_`, `-` and `.`"
        )
