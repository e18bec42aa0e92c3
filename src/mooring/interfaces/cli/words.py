"""What the words of all commands have in common: how they are read, shared flags, and what a typo is told."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

LONG_USAGE = 6
"""With more flags than this, the usage line does not list them."""
_THEIR_WORDS = {
    ": not allowed with argument ": " cannot be given together with ",
    ": expected one argument": " needs a value",
    "one of the arguments ": "give one of these: ",
    " is required": "",
    "argument ": "",
}


FIRST_STEPS = """\
Mooring connects any MCP client to any MCP server.

run a server, and use it:
  mooring run npx://PACKAGE        start it (or uvx://, a URL, `-- COMMAND`)
  mooring client setup             tell your AI clients about it
  mooring search WORD              find servers in the registries

serve those of a file:
  mooring serve                    what ./mooring.yaml says, or --config FILE

look after them:
  mooring status                   which are up, and why one is not
  mooring logs NAME                what one wrote
  mooring tool list NAME           its tools
  mooring tool call NAME TOOL      call one: key=value, key@=FILE

all commands: mooring --help
"""


class Parser(argparse.ArgumentParser):
    """Flags are not abbreviated; whoever mistypes is told what was probably meant."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **{"allow_abbrev": False, **settings})

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride] - a Namespace is whatever it holds
        """As ever, with the command that was meant saying what it does not know."""
        known, unknown = self.parse_known_args(args, namespace)
        if unknown:
            self._meant(args or ())._refuse(unknown)
        return known

    def format_usage(self) -> str:
        self._shorten()
        return super().format_usage()

    def format_help(self) -> str:
        self._shorten()
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        for theirs, ours in _THEIR_WORDS.items():
            message = message.replace(theirs, ours)
        missing = message.removeprefix("the following arguments are required: ")
        if missing == "COMMAND":  # nothing was said at all: what can be said is more help than what was not
            self.exit(2, FIRST_STEPS)
        if missing != message:
            needed = self._needed(missing.split(", "))
            message = f"{', '.join(needed)} {'is' if len(needed) == 1 else 'are'} missing"
            if self._children:
                message += f": {advice('', list(self._children))}"
        self.exit(2, f"error: {message}\nsee `{self.prog} --help`\n")

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        try:
            return super()._get_value(action, arg_string)
        except argparse.ArgumentError as error:
            kind = "a whole number" if action.type is int else "a number"
            raise argparse.ArgumentError(
                None, f"{action.option_strings[0]} `{arg_string}` must be {kind}"
            ) from error

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        told = advice(str(value), [str(choice) for choice in action.choices])
        if action.option_strings:
            raise argparse.ArgumentError(None, f"{action.option_strings[0]} `{value}`: {told}")
        raise argparse.ArgumentError(None, f"`{value}` is no {str(action.metavar).lower()}: {told}")

    @property
    def _children(self) -> dict[str, Parser]:
        """The parsers of the words that may follow."""
        actions: list[Any] = self._actions
        found = [action.choices for action in actions if action.nargs == argparse.PARSER]
        return found[0] if found else {}

    def _meant(self, given: Iterable[str]) -> Parser:
        """The parser of the command that these words begin with."""
        found = self
        for word in given:
            found = found._children.get(word, found)
        return found

    def _needed(self, names: list[str]) -> list[str]:
        """Without those that may be left out: where something before them is missing, all are named."""
        free = {action.metavar for action in self._actions if action.nargs in ("*", "?")}
        return [name for name in names if name not in free] or names

    def _refuse(self, unknown: list[str]) -> NoReturn:
        flags = [flag for action in self._actions for flag in action.option_strings]
        word = unknown[0].partition("=")[0]
        if not word.startswith("-"):
            self.error(f"`{word}` is one word too many")
        meant = closest(word, flags)
        self.error(f"there is no {word}" + (f": did you mean {meant}?" if meant else ""))

    def _shorten(self) -> None:
        flags = [action for action in self._actions if action.option_strings]
        if self.usage is None and len(flags) > LONG_USAGE:
            forms = {"?": "[{}]", "*": "[{} ...]", "+": "{} ..."}
            words = [
                forms.get(str(action.nargs), "{}").format(action.metavar)
                for action in self._actions
                if not action.option_strings
            ]
            self.usage = " ".join(["%(prog)s", "[FLAG ...]", *words])


def advice(given: str, known: list[str]) -> str:
    """What was probably meant, or what there is."""
    meant = closest(given, known)
    return f"did you mean `{meant}`?" if meant else f"there are {', '.join(f'`{one}`' for one in known)}"


def closest(given: str, known: list[str]) -> str | None:
    """The one of these that was probably meant."""
    from difflib import get_close_matches  # noqa: PLC0415 - whoever makes no mistake need not wait for it

    return next(iter(get_close_matches(given, known, 1)), None)


def where() -> argparse.ArgumentParser:
    """The flags that say which running gateway is meant."""
    flags = argparse.ArgumentParser(add_help=False)
    group = flags.add_mutually_exclusive_group()
    group.add_argument("--config", metavar="FILE", help="the file the gateway was started with")
    group.add_argument("--socket", metavar="PATH", help="its control socket (or set MOORING_SOCKET)")
    return flags


def add_format(parser: argparse.ArgumentParser) -> None:
    """For what can be shown in two ways."""
    parser.add_argument(
        "--format", choices=["text", "json"], default="text", help="for people or for programs"
    )


def add_long(parser: argparse.ArgumentParser) -> None:
    """For tables that leave out columns where the terminal is too narrow for them."""
    parser.add_argument("--long", action="store_true", help="all columns, also where they need several lines")


def add_repeated(parser: Any, flag: str, metavar: str, text: str, *short: str) -> None:
    """A flag that may be given several times."""
    parser.add_argument(flag, *short, metavar=metavar, action="append", default=[], help=text)


def add_action(
    actions: Any, name: str, handler: str, text: str, *parents: argparse.ArgumentParser, description: str = ""
) -> Any:
    """A word that does something, with the flags that it shares with others."""
    parser = actions.add_parser(name, help=text, description=description or None, parents=parents)
    parser.set_defaults(handler=handler)
    return parser
