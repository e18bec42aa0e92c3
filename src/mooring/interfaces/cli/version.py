"""`mooring version`."""

from __future__ import annotations

import argparse

from mooring import __version__


def run(_arguments: argparse.Namespace) -> int:
    """Print the version."""
    print(__version__)
    return 0
