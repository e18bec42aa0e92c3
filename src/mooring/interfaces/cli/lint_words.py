"""The words of `lint` and `tokens`; what they do is imported when used."""

from __future__ import annotations

import argparse
from typing import Any

from mooring.interfaces.cli import words


def add_parsers(commands: Any, where: argparse.ArgumentParser) -> None:
    """Both commands; `where` has the flags that say which gateway is meant."""
    lint = commands.add_parser(
        "lint",
        help="say what in a server's tools will trip a model or a client",
        description="Read a server's tools and say what will trip a model or a client, each with the fix. "
        "Exit 1 if there are errors.",
        parents=[where],
    )
    _add_source(lint, "the server's id or URL, or a JSON file with the result of `tools/list`")
    words.add_format(lint)
    lint.set_defaults(handler="lint:run")
    _add_tokens(commands, where)


def _add_tokens(commands: Any, where: argparse.ArgumentParser) -> None:
    tokens = commands.add_parser(
        "tokens",
        help="count what a server's tools cost a model on every turn",
        description="Write a server's tools as a model sees them and count the tokens, by tool and by field, "
        "and what could be saved.",
        parents=[where],
    )
    _add_source(
        tokens,
        "the server's id or URL, `all` servers of the gateway, or a JSON file with what `tools/list` gave",
    )
    tokens.add_argument(
        "--layout",
        choices=["functions", "chat", "typescript", "listing"],
        default="functions",
        help="how the host writes tools for its model (default: functions)",
    )
    tokens.add_argument("--show", action="store_true", help="print the block itself instead of counting")
    tokens.add_argument(
        "--description-limit",
        metavar="N",
        type=int,
        default=300,
        help="the limit whose savings are shown, in characters (default: 300)",
    )
    tokens.add_argument(
        "--allow",
        metavar="PATTERN",
        action="append",
        default=[],
        help="show what `tools.allow` with this would save; may be repeated",
    )
    tokens.add_argument(
        "--deny",
        metavar="PATTERN",
        action="append",
        default=[],
        help="show what `tools.deny` with this would save; may be repeated",
    )
    words.add_format(tokens)
    tokens.set_defaults(handler="tokens:run")


def _add_source(parser: argparse.ArgumentParser, text: str) -> None:
    parser.add_argument("source", metavar="SERVER", nargs="?", help=text)
    parser.add_argument(
        "after",
        metavar="COMMAND",
        nargs="*",
        help="after `--`: a command that is started for this, and spoken to on its pipes",
    )
