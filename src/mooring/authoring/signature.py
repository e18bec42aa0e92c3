"""A function as something that takes a JSON object: its parameters, what they mean, and what it returns."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from mooring.authoring import docstrings
from mooring.authoring.containers import Member, Record
from mooring.authoring.docstrings import Docstring
from mooring.authoring.hints import Undescribable, hints_of
from mooring.authoring.inference import Inference
from mooring.authoring.metadata import MISSING, Facts, gather
from mooring.authoring.records import member_of
from mooring.authoring.shapes import Shape

_NOTHING: Final = inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class Signature:
    """What a function takes and gives, apart from the `Context` that we give it."""

    record: Record
    """Reads a JSON object into the arguments by name."""
    docs: Docstring
    returns: Any
    """The return annotation, or `inspect.Parameter.empty`."""
    context_name: str | None
    defaults: Mapping[str, Callable[[], Any]]
    """Arguments that we have to make up, since the function's own default is a description of one."""
    positional_only: tuple[str, ...]

    def arrange(self, arguments: dict[str, Any], context: Any) -> tuple[list[Any], dict[str, Any]]:
        """Positional and named arguments for the call."""
        for name, make in self.defaults.items():
            if name not in arguments:
                arguments[name] = make()
        if self.context_name is not None:
            arguments[self.context_name] = context
        if not self.positional_only:
            return [], arguments
        positional: list[Any] = []
        for name in self.positional_only:
            if name not in arguments:
                break
            positional.append(arguments.pop(name))
        return positional, arguments


def read_signature(
    function: Callable[..., Any], context_type: type, *, undescribed: Shape | None = None
) -> Signature:
    """Look at a function, a bound method, a partial or an object that can be called.

    `undescribed` stands in for parameters whose type has no counterpart in JSON; without it they are refused.
    """
    target = _with_annotations(function)
    docs = docstrings.parse(inspect.getdoc(target))
    hints = hints_of(target)
    inference = Inference()
    members: list[Member] = []
    positional_only: list[str] = []
    defaults: dict[str, Callable[[], Any]] = {}
    context_name = None
    others = None
    for name, parameter in inspect.signature(function).parameters.items():
        annotation = hints.get(name, Any)
        if _is_context(annotation, context_type):
            context_name = name
            if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
                raise Undescribable(f"`{_label(target)}`: make the context `{name}` an ordinary parameter")
        elif parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            raise Undescribable(
                f"`{_label(target)}`: `*{name}` has no counterpart in a JSON object; make it a list"
            )
        elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
            others = inference.shape(annotation)
        else:
            if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
                positional_only.append(name)
            try:
                member = _member(inference, parameter, annotation, docs, defaults)
            except Undescribable as error:
                if undescribed is None:
                    raise Undescribable(f"`{_label(target)}`, parameter `{name}`: {error}") from error
                member = Member(name, name, undescribed, parameter.default is _NOTHING, MISSING)
            members.append(member)
    record = Record(tuple(members), dict, others=others)
    returns = hints.get("return", _NOTHING)
    return Signature(record, docs, returns, context_name, defaults, tuple(positional_only))


def _member(
    inference: Inference,
    parameter: inspect.Parameter,
    annotation: Any,
    docs: Docstring,
    defaults: dict[str, Callable[[], Any]],
) -> Member:
    name, default = parameter.name, parameter.default
    said = _said(annotation)
    if type(default).__name__ == "FieldInfo":  # `count: int = Field(5, ge=1)`, as pydantic's users write it
        annotation = typing.Annotated[annotation, default]
        said = gather((default,), said)
        if not default.is_required():
            defaults[name] = functools.partial(default.get_default, call_default_factory=True)
        default = said.default if said.default is not MISSING else _NOTHING
    elif default is _NOTHING and said.default is not MISSING:
        default = said.default
        defaults[name] = lambda: said.default
    shown = MISSING if default is _NOTHING else default
    member = member_of(
        inference.shape,
        name,
        annotation,
        docs,
        shown,
        optional=name in defaults,
        wire_name=said.alias or "",
    )
    return replace(member, required=default is _NOTHING and name not in defaults)


def _said(annotation: Any) -> Facts:
    if typing.get_origin(annotation) is typing.Annotated:
        return gather(annotation.__metadata__)
    return Facts()


def _is_context(annotation: Any, context_type: type) -> bool:
    candidates = typing.get_args(annotation) or (annotation,)
    return any(isinstance(each, type) and issubclass(each, context_type) for each in candidates)


def _with_annotations(function: Callable[..., Any]) -> Any:
    """Where the annotations and the docstring are: inside a partial, or on `__call__`."""
    target: Any = function
    while isinstance(target, functools.partial):
        target = target.func  # pyright: ignore[reportUnknownMemberType]
    target = inspect.unwrap(target)
    if not (inspect.isfunction(target) or inspect.ismethod(target)) and not inspect.isclass(target):
        kind = cast("type[Any]", type(target))
        return getattr(kind, "__call__", target)  # noqa: B004 - the function itself
    return target


def _label(target: Any) -> str:
    return getattr(target, "__qualname__", repr(target))
