"""The words of `lint` and `tokens`; what they do is imported when used."""

from __future__ import annotations

import argparse
from typing import Any


def add_parsers(commands: Any, where: argparse.ArgumentParser) -> None:
    """Both commands; `where` has the flags that say which gateway is meant."""
    lint = commands.add_parser(
        "lint",
        help="say what in a server's tools will trip a model or a client",
        description="Read a server's tools and say what will trip a model or a client, each with the fix. "
        "Exit 1 if there are errors.",
        parents=[where],
        allow_abbrev=False,
    )
    _add_source(lint, "the server's id, or a JSON file with the result of `tools/list`")
    _add_format(lint)
    lint.set_defaults(handler="lint:run")


def _add_source(parser: argparse.ArgumentParser, text: str) -> None:
    parser.add_argument("source", metavar="SERVER", nargs="?", help=text)
    parser.add_argument(
        "after",
        metavar="COMMAND",
        nargs="*",
        help="after `--`: a command that is started for this, and spoken to on its pipes",
    )


def _add_format(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--format", choices=["text", "json"], default="text", help="for people or for programs"
    )
