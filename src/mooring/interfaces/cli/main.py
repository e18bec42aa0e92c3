"""The `mooring` command: which words it knows, and how an error leaves it.

Results go to stdout, everything else to stderr. Exit 0: done; 1: failed; 2: wrong usage.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

from mooring import __version__
from mooring.interfaces.cli import words
from mooring.interfaces.cli.failure import Failed, reason_of


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and answer its exit code."""
    try:
        try:
            return _run(_parse(sys.argv[1:] if arguments is None else list(arguments)))
        finally:
            sys.stdout.flush()  # who has gone is noticed here, not when Python ends
    except Failed as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        from mooring.interfaces.cli.output import end_line  # noqa: PLC0415 - few are interrupted

        end_line()
        return 1
    except BrokenPipeError:
        # Whoever read our output has seen enough. Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        if error.filename is None:
            raise
        print(f"error: cannot use `{error.filename}`: {reason_of(error)}", file=sys.stderr)
        return 1


def _run(parsed: argparse.Namespace) -> int:
    module, _, function = parsed.handler.partition(":")
    gc.disable()  # what is loaded now stays: looking for garbage among it is a tenth of a slow start
    run = getattr(importlib.import_module(f"mooring.interfaces.cli.{module}"), function)
    gc.freeze()
    gc.enable()
    return run(parsed)


def _parse(given: list[str]) -> argparse.Namespace:
    """What follows `--` after these is the server's business, also where it looks like a flag of ours."""
    parser = build_parser(given[0] if given else None)
    if given[:1] not in (["run"], ["lint"], ["tokens"], ["record"]) or "--" not in given:
        return parser.parse_args(given)
    end = given.index("--")
    parsed = parser.parse_args(given[:end])
    parsed.after += given[end + 1 :]
    return parsed


def build_parser(word: str | None = None) -> words.Parser:
    """All commands and flags; docs and tests read them from here.

    With a word that is a command of one page, only that page: who starts a gateway does not wait for flags
    of all the others.
    """
    parser = words.Parser(prog="mooring", description="Connects any MCP client to any MCP server.")
    parser.add_argument("--version", action="version", version=__version__, help="print the version")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    pages = [add for known, add in _PAGES if word in known] or [add for _, add in _PAGES]
    for add in pages:
        add(commands)
    return parser


def _add_serve(commands: Any) -> None:
    serve = commands.add_parser(
        "serve",
        help="run the gateway in the foreground",
        description="Run the gateway until Ctrl-C. A change of its file is followed at once.",
    )
    what = serve.add_mutually_exclusive_group()
    what.add_argument(
        "--config",
        metavar="FILE",
        help="what to serve: a mooring.yaml or a client's file with `mcpServers` (default: ./mooring.yaml)",
    )
    what.add_argument(
        "--user",
        action="store_true",
        help="serve what you run with `mooring run`, and the servers of mooring.yaml in your configuration "
        "folder, if there is one",
    )
    serve.add_argument("--listen", metavar="HOST:PORT", help="listen here instead of where the file says")
    serve.add_argument(
        "--sandbox",
        choices=["on", "off"],
        default="on",
        help="`off` runs processes with a permission profile without it, with your rights (default: on)",
    )
    serve.add_argument(
        "--print-snippet",
        action="store_true",
        help="when ready, print the JSON for a client's mcp.json on stdout",
    )
    serve.add_argument(
        "--log-level",
        choices=["debug", "info", "warning", "error"],
        default="info",
        help="how much of its log to show on stderr; what servers write on their stderr is `info` (default)",
    )
    serve.set_defaults(handler="serve:run")


def _add_status(commands: Any) -> None:
    status = commands.add_parser(
        "status", help="show the servers of a running gateway", parents=[words.where()]
    )
    status.add_argument("name", metavar="NAME", nargs="?", help="only this one, closely")
    words.add_long(status)
    words.add_format(status)
    status.set_defaults(handler="status:run")


def _add_trace(commands: Any) -> None:
    trace = commands.add_parser(
        "trace",
        help="show the conversation of a server live",
        description="Show each message on both legs: direction, size, time since its request, state changes.",
        parents=[words.where()],
    )
    trace.add_argument("id", metavar="ID", help="the server's id")
    trace.add_argument("--bytes", action="store_true", help="also show the messages, secrets redacted")
    trace.add_argument(
        "--follow",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="keep showing new messages (default), or stop after those already recorded",
    )
    trace.add_argument(
        "--since",
        metavar="TIME",
        help="start with recorded messages not older than this, for example 30s, 5m, 1h",
    )
    words.add_format(trace)
    trace.set_defaults(handler="trace:run")


def _add_tool(commands: Any) -> None:
    tool = commands.add_parser("tool", help="use a server from the terminal")
    actions = tool.add_subparsers(title="actions", metavar="ACTION", required=True)
    where = [words.where()]

    listing = actions.add_parser("list", help="list its tools", parents=where)
    listing.add_argument("id", metavar="ID", help="the server's id")
    words.add_format(listing)
    listing.set_defaults(handler="tool:list_tools")

    call = actions.add_parser("call", help="call a tool", parents=where)
    call.add_argument("id", metavar="ID", help="the server's id")
    call.add_argument("name", metavar="NAME", help="the tool's name")
    call.add_argument(
        "arguments",
        metavar="ARGUMENT",
        nargs="*",
        help="one JSON object, or key=value (text), key:=JSON and key@=FILE",
    )
    call.add_argument(
        "--output", metavar="DIR", help="save what it makes, images, audio and other files here"
    )
    words.add_format(call)
    call.set_defaults(handler="tool:call_tool")

    read = actions.add_parser("read", help="read a resource", parents=where)
    read.add_argument("id", metavar="ID", help="the server's id")
    read.add_argument(
        "uri", metavar="URI", help="the resource; without it the resources are listed", nargs="?"
    )
    read.add_argument("--output", metavar="DIR", help="save binary contents here")
    words.add_format(read)
    read.set_defaults(handler="tool:read_resource")

    prompt = actions.add_parser("prompt", help="get a prompt", parents=where)
    prompt.add_argument("id", metavar="ID", help="the server's id")
    prompt.add_argument(
        "name", metavar="NAME", help="the prompt; without it the prompts are listed", nargs="?"
    )
    prompt.add_argument("arguments", metavar="KEY=VALUE", nargs="*", help="its arguments")
    words.add_format(prompt)
    prompt.set_defaults(handler="tool:get_prompt")


def _add_proxy(commands: Any) -> None:
    proxy = commands.add_parser("proxy", help="make a server usable by a client that launches commands")
    kinds = proxy.add_subparsers(title="kinds", metavar="KIND", required=True)
    stdio = kinds.add_parser(
        "stdio",
        help="speak MCP on stdin and stdout",
        description="Connect stdin and stdout to a server of the running gateway.",
        parents=[words.where()],
    )
    stdio.add_argument("id", metavar="ID", help="the server's id")
    stdio.set_defaults(handler="proxy:run_stdio")


def _add_version(commands: Any) -> None:
    version = commands.add_parser("version", help="print the version")
    version.set_defaults(handler="version:run")


def _add_running(commands: Any) -> None:
    from mooring.interfaces.cli import run_words  # noqa: PLC0415

    run_words.add_parsers(commands, words.where())


def _add_linting(commands: Any) -> None:
    from mooring.interfaces.cli import lint_words  # noqa: PLC0415

    lint_words.add_parsers(commands, words.where())


def _add_convert(commands: Any) -> None:
    from mooring.interfaces.cli import convert  # noqa: PLC0415

    convert.add_parser(commands)


def _add_guard(commands: Any) -> None:
    from mooring.interfaces.cli import guard_words  # noqa: PLC0415

    guard_words.add_parsers(commands)


def _add_ecosystem(commands: Any) -> None:
    from mooring.interfaces.cli import ecosystem_words  # noqa: PLC0415

    ecosystem_words.add_parsers(commands)


def _add_files(commands: Any) -> None:
    from mooring.interfaces.cli import upload_words  # noqa: PLC0415

    upload_words.add_parsers(commands)


_PAGES: Final[tuple[tuple[tuple[str, ...], Callable[[Any], None]], ...]] = (
    (("serve",), _add_serve),
    (
        ("run", "list", "logs", "start", "stop", "restart", "rm", "export", "group", "service"),
        _add_running,
    ),
    (("status",), _add_status),
    (("trace",), _add_trace),
    (("tool",), _add_tool),
    (("proxy",), _add_proxy),
    (("lint", "tokens"), _add_linting),
    (("convert",), _add_convert),
    (("key", "auth", "audit", "lock", "policy", "approve", "record", "replay"), _add_guard),
    (("secret", "client", "import", "registry", "search"), _add_ecosystem),
    (("upload", "artifact", "doctor"), _add_files),
    (("version",), _add_version),
)
"""Which commands stand together, in the order of `--help`. A word missing here works, slowly."""


if __name__ == "__main__":
    sys.exit(main())
