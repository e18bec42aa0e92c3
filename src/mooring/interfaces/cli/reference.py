"""Renders `docs/reference/commands.md` from the parser, so that the two cannot disagree.

`python -m mooring.interfaces.cli.reference FILE` writes it; a test compares.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mooring.interfaces.cli.main import build_parser

_INTRODUCTION = """\
# Commands

Results go to stdout, everything else to stderr. Exit codes: 0 done, 1 failed, 2 wrong usage. Colours appear
on a terminal only; `NO_COLOR=1` turns them off.

Commands that need a running gateway find it by `--socket`, `--config`, the variable `MOORING_SOCKET`,
`./mooring.yaml` or the user data directory, in this order.

This page is generated from `src/mooring/interfaces/cli/main.py`.
"""
_ACTIONS = "A..."
"""How argparse marks that further words follow."""


def render() -> str:
    """The whole page."""
    return _INTRODUCTION + "".join(_section(parser, text) for parser, text in _commands(build_parser(), ""))


def _commands(parser: Any, text: str) -> Iterator[tuple[Any, str]]:
    """Each command that does something, with its help. argparse shows them only under private names."""
    groups = [action for action in parser._actions if action.nargs == _ACTIONS]
    if not groups or parser.get_default("handler") is not None:
        yield parser, text
    for group in groups:
        helps = {choice.dest: choice.help for choice in group._choices_actions}
        for name, child in group.choices.items():
            yield from _commands(child, helps[name])


def _section(parser: Any, text: str) -> str:
    own = [action for action in parser._actions if action.nargs != _ACTIONS]
    known = sorted(own, key=lambda action: bool(action.option_strings))
    rows = [_row(action) for action in known if action.dest != "help"]
    words = " ".join([parser.prog, *(_positional(action) for action in own if not action.option_strings)])
    summary = parser.description or f"{text[:1].upper()}{text[1:]}."
    table = f"\n| argument | meaning |\n| --- | --- |\n{''.join(rows)}" if rows else ""
    return f"\n## `{words}`\n\n{summary}\n{table}"


def _positional(action: Any) -> str:
    forms = {"?": f"[{action.metavar}]", "*": f"[{action.metavar} ...]"}
    return forms.get(action.nargs, str(action.metavar))


def _row(action: Any) -> str:
    value = "|".join(action.choices) if action.choices else action.metavar
    shown = ", ".join(action.option_strings) or _positional(action)
    if action.option_strings and action.nargs != 0:
        shown += f" {value}"
    return f"| `{shown.replace('|', chr(92) + '|')}` | {action.help[:1].upper()}{action.help[1:]}. |\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(render(), encoding="utf-8")
