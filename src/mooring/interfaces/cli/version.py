"""`mooring version`."""

from __future__ import annotations

import argparse


def run(_arguments: argparse.Namespace) -> int:
    """Print the version."""
    print(installed_version())
    return 0


def installed_version() -> str:
    """The version of the installed package."""
    from importlib.metadata import version  # noqa: PLC0415 - 20 ms that most commands do not need

    return version("mooring")
