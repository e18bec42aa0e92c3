"""Where in a tool's arguments or result something stands: `path`, `options.source`, `items[*].path`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, cast

from msgspec import Struct

_STEP: Final = re.compile(r"([^.\[\]]+)((?:\[(?:\*|\d+)\])*)")
_INDEX: Final = re.compile(r"\[(\*|\d+)\]")
ALL: Final = "*"


class Place(Struct, frozen=True):
    """One value, with the container it stands in, so that it can be replaced."""

    container: Any
    key: Any
    shown: str
    fits: bool = True
    """False: it stands on the way to the path, and is nothing that the path could go on in."""

    @property
    def value(self) -> Any:
        return self.container[self.key]

    def put(self, value: Any) -> None:
        self.container[self.key] = value


class ArgumentPath(Struct, frozen=True):
    """A dotted path; `[*]` is every item of a list, `[2]` the third one."""

    text: str
    steps: tuple[str | int, ...]

    @property
    def top(self) -> str:
        """The member that everything else is below."""
        return str(self.steps[0])

    def places(self, root: dict[str, Any]) -> Iterator[Place]:
        """Every value at this path. A list at its end counts as its items, so that one path serves both."""
        return (place for place in self.found(root) if place.fits)

    def found(self, root: dict[str, Any]) -> Iterator[Place]:
        """The same, and whatever a server could take for such a value though the path does not lead there:
        a text in place of a list, a name in other letters."""
        return _walk(root, self.steps, "")

    def put(self, root: dict[str, Any], value: Any) -> None:
        """Set the value, making the objects on the way; for paths without indexes."""
        for step in self.steps[:-1]:
            inner = root.get(str(step))
            if not isinstance(inner, dict):
                inner = root[str(step)] = dict[str, Any]()
            root = cast("dict[str, Any]", inner)
        root[str(self.steps[-1])] = value


def parse(text: str) -> ArgumentPath:
    """Read a path; ValueError says what is wrong with it."""
    steps: list[str | int] = []
    for part in text.split("."):
        match = _STEP.fullmatch(part)
        if match is None:
            raise ValueError(f"`{text}` is not a path: write names with dots between, `[*]` for lists")
        steps.append(match[1])
        steps.extend(ALL if index == ALL else int(index) for index in _INDEX.findall(match[2]))
    return ArgumentPath(text, tuple(steps))


def _walk(value: Any, steps: tuple[str | int, ...], shown: str) -> Iterator[Place]:
    """Below a value that the first step can lead into."""
    step, *rest = steps
    if isinstance(value, dict):
        members, wanted = cast("dict[str, Any]", value), str(step)
        for name in members:
            here = f"{shown}.{name}".lstrip(".")
            if name == wanted:
                yield from _below(members, name, tuple(rest), here)
            elif len(name) == len(wanted) and name.casefold() == wanted.casefold():
                yield Place(members, name, here, fits=False)
        return
    items = cast("list[Any]", value)
    for index in range(len(items)) if step == ALL else (int(step),):
        if index < len(items):
            yield from _below(items, index, tuple(rest), f"{shown}[{index}]")


def _below(container: Any, key: Any, rest: tuple[str | int, ...], shown: str) -> Iterator[Place]:
    found = container[key]
    if not rest:
        if isinstance(found, list):
            for index in range(len(cast("list[Any]", found))):
                yield Place(found, index, f"{shown}[{index}]")
        else:
            yield Place(container, key, shown)
    elif _leads_into(found, rest[0]):
        yield from _walk(found, rest, shown)
    elif found is not None:
        yield Place(container, key, shown, fits=False)


def _leads_into(value: Any, step: str | int) -> bool:
    return isinstance(value, list) if step == ALL or isinstance(step, int) else isinstance(value, dict)
