"""Middlewares of other people: found by entry point, given their settings, put into the same chain."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from mooring.errors import MooringError
from mooring.gateway.exchange import Middleware

GROUP: Final = "mooring.middleware"
"""The entry point group. Each entry names a function `(server_id, settings) -> Middleware`."""
NOTHING: Final = {"usagemetrics": "Mooring sends no usage figures to anybody"}
"""Middlewares of others that we know by name and have no use for."""
Factory = Callable[[str, Mapping[str, str]], Middleware]


class PluginMissing(MooringError):
    """No installed package brings a middleware of this name."""


def factory(name: str) -> Factory:
    """The maker of a middleware, by the name of its entry point."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - 20 ms that most gateways do not need

    for entry in entry_points(group=GROUP):
        if entry.name == name:
            return entry.load()
    known = ", ".join(sorted(entry.name for entry in entry_points(group=GROUP))) or "none"
    raise PluginMissing(
        f"no middleware `{name}` is installed (installed: {known}): install the package that brings it"
    )
