"""The words of the command line that belong to the guard; what they do is imported when used."""

from __future__ import annotations

import argparse
from typing import Any

from mooring.interfaces.cli import words


def add_parsers(commands: Any) -> None:
    _add_key(commands)
    _add_auth(commands)
    _add_audit(commands)
    _add_lock(commands)
    _add_policy(commands)
    _add_approve(commands)
    _add_cassettes(commands)


def _add_cassettes(commands: Any) -> None:
    record = commands.add_parser(
        "record",
        help="write a server's conversation into a file",
        description="Write what a server of the running gateway says and is told into a cassette, until "
        "Ctrl-C. With a command instead of an id: run it, stand between it and whoever started us, and write "
        "down what passes. Secrets are blotted out. `mooring replay` plays it.",
        parents=[words.where()],
    )
    record.add_argument("id", metavar="ID", nargs="?", help="the server's id")
    record.add_argument("-o", "--output", metavar="FILE", required=True, help="the cassette to write")
    record.add_argument(
        "--for", metavar="TIME", dest="duration", help="stop by itself after this time, for example 30s, 5m"
    )
    record.add_argument(
        "after",
        nargs="*",
        metavar="COMMAND",
        help="after `--`: a server that speaks on stdio, to stand before",
    )
    record.usage = "mooring record [options] -o FILE (ID | -- COMMAND ...)"
    record.set_defaults(handler="record:run")

    replay = commands.add_parser(
        "replay",
        help="be the server that a file was recorded from",
        description="Speak MCP on stdin and stdout exactly as recorded. A request that was not recorded is "
        "an error that names the nearest one, and so is a call made more often than recorded; lists and "
        "handshakes may be repeated. Exits with 1 if anything was unexpected.",
    )
    replay.add_argument("cassette", metavar="CASSETTE", help="what `mooring record` wrote")
    replay.add_argument(
        "--all", action="store_true", dest="everything", help="also fail if a recorded request was not made"
    )
    replay.set_defaults(handler="replay:run")


def _add_key(commands: Any) -> None:
    key = commands.add_parser("key", help="make and revoke API keys")
    actions = key.add_subparsers(title="actions", metavar="ACTION", required=True)
    create = actions.add_parser(
        "create",
        help="make a key",
        description="Make a key and print it. It is shown this once: only its hash is kept.",
        parents=[words.where()],
    )
    create.add_argument("name", metavar="NAME", help="whose key it is; policies call the caller by this name")
    create.add_argument(
        "--scope", metavar="SCOPE", action="append", default=[], help="a scope of the key; may be repeated"
    )
    create.add_argument(
        "--server",
        metavar="ID",
        action="append",
        default=[],
        help="a server it is good for; may be repeated (default: all of them)",
    )
    create.add_argument("--expires", metavar="TIME", help="how long it is good, for example 12h, 30d")
    words.add_format(create)
    create.set_defaults(handler="key:create")

    listing = actions.add_parser("list", help="list the keys", parents=[words.where()])
    words.add_format(listing)
    listing.set_defaults(handler="key:list_keys")

    revoke = actions.add_parser("revoke", help="take a key away", parents=[words.where()])
    revoke.add_argument("name", metavar="NAME", help="its name or id")
    revoke.set_defaults(handler="key:revoke")


def _add_auth(commands: Any) -> None:
    auth = commands.add_parser("auth", help="sign in at servers that want to know their user")
    actions = auth.add_subparsers(title="actions", metavar="ACTION", required=True)
    login = actions.add_parser(
        "login",
        help="sign in",
        description="Open the address at which you sign in, and wait until that is done.",
        parents=[words.where()],
    )
    login.add_argument("name", metavar="NAME", help="the server's id, or the name of a provider")
    login.add_argument(
        "--browser",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="open a browser (default), or only print the address",
    )
    login.add_argument("--timeout", metavar="TIME", default="5m", help="how long to wait (default: 5m)")
    _add_principal(login)
    login.set_defaults(handler="auth:login")

    status = actions.add_parser("status", help="show who is signed in where", parents=[words.where()])
    status.add_argument("name", metavar="NAME", nargs="?", help="only there")
    _add_principal(status)
    words.add_format(status)
    status.set_defaults(handler="auth:status")

    logout = actions.add_parser("logout", help="forget what was granted", parents=[words.where()])
    logout.add_argument("name", metavar="NAME", help="the server's id, or the name of a provider")
    _add_principal(logout)
    logout.set_defaults(handler="auth:logout")


def _add_principal(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--principal", metavar="ID", help="whose login, as the audit names them (default: your own)"
    )


def _add_audit(commands: Any) -> None:
    audit = commands.add_parser("audit", help="check and read the audit log")
    actions = audit.add_subparsers(title="actions", metavar="ACTION", required=True)
    verify = actions.add_parser(
        "verify", help="check that no line was changed, removed or moved", parents=[words.where()]
    )
    verify.add_argument("--file", metavar="FILE", help="the log (default: the gateway's own)")
    verify.add_argument("--public-key", metavar="FILE", help="the key to check with (default: audit.pub)")
    words.add_format(verify)
    verify.set_defaults(handler="audit:run_verify")

    show = actions.add_parser("show", help="print events", parents=[words.where()])
    show.add_argument("--file", metavar="FILE", help="the log (default: the gateway's own)")
    show.add_argument("--since", metavar="TIME", help="not older than this, for example 30s, 5m, 12h, 7d")
    show.add_argument("--server", metavar="ID", help="of this server only")
    show.add_argument("--user", metavar="NAME", help="of this caller only")
    show.add_argument("--tool", metavar="NAME", help="about this tool only")
    show.add_argument("--type", metavar="TYPE", help="of this type only, for example mcp_tool_call")
    show.add_argument(
        "--outcome",
        choices=["success", "failure", "error", "denied", "application_error"],
        help="with this outcome only",
    )
    show.add_argument("--limit", metavar="N", type=int, default=0, help="only the last N (default: all)")
    words.add_format(show)
    show.set_defaults(handler="audit:show")


def _add_lock(commands: Any) -> None:
    lock = commands.add_parser(
        "lock",
        help="approve tool definitions",
        description="Without an action: lock the tools of servers that are not in the lock yet, and say "
        "which of the others differ from it.",
    )
    lock.set_defaults(handler="lock:begin", server=None, config=None, socket=None)
    actions = lock.add_subparsers(title="actions", metavar="ACTION")
    for name, text, handler in (
        ("write", "lock all tools as the servers offer them now", "lock:write"),
        ("diff", "say in words what differs from the lock", "lock:diff"),
        ("approve", "take differences into the lock", "lock:approve"),
    ):
        action = actions.add_parser(name, help=text, parents=[words.where()])
        action.add_argument("server", metavar="ID", nargs="?", help="only of this server")
        if name == "approve":
            action.add_argument("tool", metavar="TOOL", nargs="?", help="only this tool")
        words.add_format(action)
        action.set_defaults(handler=handler)


def _add_policy(commands: Any) -> None:
    policy = commands.add_parser("policy", help="try out authorization policies")
    actions = policy.add_subparsers(title="actions", metavar="ACTION", required=True)

    test = actions.add_parser("test", help="check the policies against cases in a file")
    _add_policy_source(test)
    test.add_argument("cases", metavar="CASES", help="a YAML file with a list `cases`")
    words.add_format(test)
    test.set_defaults(handler="policy:test")

    explain = actions.add_parser("explain", help="say why something is allowed or denied")
    _add_policy_source(explain)
    explain.add_argument("resource", metavar="NAME", help="the tool, prompt or resource")
    explain.add_argument(
        "arguments", metavar="KEY=VALUE", nargs="*", help="arguments of the call (KEY:=JSON for other types)"
    )
    explain.add_argument("--principal", metavar="NAME", default="anonymous", help="who asks")
    explain.add_argument(
        "--claim",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a claim of the caller; may be repeated",
    )
    explain.add_argument("--server", metavar="ID", default="", help="the server it is about")
    explain.add_argument(
        "--group", metavar="NAME", help="its group (default: as the file says, else `default`)"
    )
    explain.add_argument(
        "--action",
        choices=["call_tool", "get_prompt", "read_resource"],
        default="call_tool",
        help="what is done",
    )
    explain.add_argument(
        "--hint", metavar="NAME", action="append", default=[], help="a hint of the tool that is true"
    )
    words.add_format(explain)
    explain.set_defaults(handler="policy:explain")

    simulate = actions.add_parser(
        "simulate",
        help="decide recorded calls anew",
        description="Decide the calls in the audit log anew, with the policies as they are in the files now.",
    )
    _add_policy_source(simulate)
    simulate.add_argument("--file", metavar="FILE", help="the audit log (default: the configured one)")
    simulate.add_argument("--since", metavar="TIME", help="calls not older than this, for example 1h, 7d")
    words.add_format(simulate)
    simulate.set_defaults(handler="policy:simulate")


def _add_approve(commands: Any) -> None:
    approve = commands.add_parser(
        "approve", help="say yes or no to calls that wait for a person", parents=[words.where()]
    )
    approve.add_argument("id", metavar="ID", nargs="?", help="the waiting call; without it they are listed")
    approve.add_argument("--deny", action="store_true", help="say no")
    words.add_format(approve)
    approve.set_defaults(handler="approve:run")


def _add_policy_source(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config", metavar="FILE", default="mooring.yaml", help="the configuration (default: ./mooring.yaml)"
    )
    parser.add_argument(
        "--policies",
        metavar="FILE",
        action="append",
        default=[],
        help="these policies instead; may be repeated",
    )
