"""Showing what will happen, and asking whether it may."""

from __future__ import annotations

import argparse
import difflib
import sys
from pathlib import Path

from mooring.ecosystem.importers.secrets_found import hidden
from mooring.interfaces.cli.failure import Failed
from mooring.interfaces.cli.output import printable, styled, wants_colour


def show_diff(path: Path, before: str, after: str) -> None:
    """The change as a unified diff on stderr; what looks like a secret is not shown."""
    colour = wants_colour(sys.stderr)
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), str(path), str(path), lineterm="", n=2
    )
    for line in lines:
        style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
        print(styled(printable(hidden(line)), style, colour), file=sys.stderr)


def confirmed(arguments: argparse.Namespace, question: str) -> bool:
    """Whether to go on: --yes, or the person says so. Nobody to ask is an error."""
    if arguments.yes:
        return True
    if not sys.stdin.isatty():
        raise Failed("nobody is here to confirm this: add --yes to do it, or --dry-run to only see it")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
