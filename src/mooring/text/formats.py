"""Which formats there are, and the modules that read and write them (imported when first used).

A format module offers `read(source, report, *, lenient=False) -> Node` and
`write(doc, report, *, dialect="extended") -> str`. It may also offer, for patching stored text in place,
`outline(source) -> list[Section]` and `splice(source, section, replacement) -> str` (see `patch`).
"""

from importlib import import_module
from types import ModuleType
from typing import Literal, Protocol, cast

from mooring.text.errors import UnknownFormat
from mooring.text.report import Report
from mooring.text.tree import Node

Format = Literal["adf", "markdown", "storage", "wiki"]
Dialect = Literal["extended", "plain"]

MODULES: dict[str, str] = {
    "adf": "mooring.text.adf",
    "markdown": "mooring.text.markdown",
    "storage": "mooring.text.storage",
    "wiki": "mooring.text.wiki",
}


class Reader(Protocol):
    def __call__(self, source: str | bytes, report: Report, *, lenient: bool = False) -> Node: ...


class Writer(Protocol):
    def __call__(self, doc: Node, report: Report, *, dialect: str = "extended") -> str: ...


def module(name: str) -> ModuleType:
    try:
        return import_module(MODULES[name])
    except KeyError:
        known = ", ".join(f"`{each}`" for each in MODULES)
        raise UnknownFormat(f"no format is called `{name}`; use one of {known}") from None


def reader(name: str) -> Reader:
    return cast(Reader, module(name).read)


def writer(name: str) -> Writer:
    return cast(Writer, module(name).write)
