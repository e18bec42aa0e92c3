"""The annotations of functions and classes, looked up and ready to be read."""

from __future__ import annotations

import inspect
import typing
from typing import Any


class Undescribable(TypeError):
    """A type that JSON has no counterpart for; the message says where it stands and what to use instead."""


def hints_of(owner: Any) -> dict[str, Any]:
    """The annotations of a function or class, with `Annotated` kept and names looked up."""
    try:
        try:
            return typing.get_type_hints(owner, include_extras=True)
        except NameError:  # perhaps it is local to the function in which `owner` is being defined
            return typing.get_type_hints(owner, localns=_locals_of_definer(), include_extras=True)
    except NameError as error:
        name = getattr(owner, "__qualname__", repr(owner))
        raise Undescribable(
            f"`{name}`: the annotation `{error.name}` cannot be found; define it before, or at module level"
        ) from error


def _locals_of_definer() -> dict[str, Any]:
    """The names where the code stands that defines a tool: the nearest frame that is not ours."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith(__package__ or ""):
        frame = frame.f_back
    return dict(frame.f_locals) if frame is not None else {}


def hints_with_arguments(kind: Any) -> dict[str, Any]:
    """The annotations of a class; of a generic one with its arguments in place of its parameters."""
    origin = typing.get_origin(kind)
    if origin is None:
        return hints_of(kind)
    given = dict(zip(origin.__parameters__, typing.get_args(kind), strict=False))
    return {name: _substituted(hint, given) for name, hint in hints_of(origin).items()}


def _substituted(hint: Any, given: dict[Any, Any]) -> Any:
    if isinstance(hint, typing.TypeVar):
        return given.get(hint, hint)
    parameters = getattr(hint, "__parameters__", ())
    if not parameters or inspect.isclass(hint):
        return hint
    return hint[tuple(given.get(parameter, parameter) for parameter in parameters)]
