"""The words of `run`, `list`, `logs`, `start`, `stop`, `restart`, `rm`, `export`, `group` and `service`."""

from __future__ import annotations

import argparse
from typing import Any

from mooring.interfaces.cli import run_guard, words


def add_parsers(commands: Any, where: argparse.ArgumentParser) -> None:
    """All commands of this page; `where` has the flags that say which gateway is meant."""
    _add_run(commands, where)
    _add_list(commands, where)
    _add_logs(commands, where)
    _add_several(commands, where)
    _add_export(commands, where)
    _add_group(commands, where)
    _add_service(commands, where)


def _add_run(commands: Any, where: argparse.ArgumentParser) -> None:
    run = commands.add_parser(
        "run",
        help="start a server and keep it running",
        description="Start a server in a sandbox, keep it running, and give it a URL that never changes. "
        "What follows `--` are its arguments, or, where nothing else says what to run, the command itself. "
        "The gateway is started in the background if it does not run.",
        parents=[where],
    )
    run.add_argument(
        "source",
        metavar="SERVER",
        nargs="?",
        help="`npx://PACKAGE[@VERSION]`, `uvx://PACKAGE[@VERSION]`, `go://PATH`, the name of a server in a "
        "registry, an image, a URL, or the file of a RunConfig",
    )
    run.add_argument(
        "after",
        metavar="ARGUMENT",
        nargs="*",
        help="arguments for the server; after `--` also such as look like flags",
    )
    run.add_argument(
        "--from-config", metavar="FILE", help="a RunConfig in JSON or YAML; other flags go before it"
    )
    run.add_argument("--name", metavar="NAME", help="its name (default: made from what runs)")
    run.add_argument("--group", metavar="GROUP", help="put it into this group, which is made if need be")
    words.add_repeated(run, "--label", "KEY=VALUE", "label it; may be repeated", "-l")
    words.add_repeated(run, "--tool", "NAME", "show only this tool; may be repeated")
    words.add_format(run)
    _add_speaking(run.add_argument_group("what it speaks"))
    _add_given(run.add_argument_group("what it is given"))
    _add_running(run.add_argument_group("how it runs"))
    _add_limits(run.add_argument_group("what it may use"))
    run_guard.add_flags(run)
    run.set_defaults(handler="run:run")


def _add_speaking(run: Any) -> None:
    run.add_argument(
        "--transport",
        choices=["stdio", "sse", "streamable-http"],
        help="what the server speaks (default: stdio, for a URL whatever it speaks)",
    )
    run.add_argument(
        "--proxy-mode",
        choices=["streamable-http", "sse"],
        help="which URL to tell clients; both are always served (default: streamable-http)",
    )
    run.add_argument(
        "--target-port", metavar="PORT", type=int, help="the port it listens on, if it speaks HTTP"
    )
    words.add_repeated(run, "--publish", "PORT:INSIDE", "make a port of it reachable; may be repeated", "-p")


def _add_given(run: Any) -> None:
    words.add_repeated(
        run, "--env", "NAME[=VALUE]", "set a variable, or pass on yours; may be repeated", "-e"
    )
    words.add_repeated(run, "--secret", "NAME,target=VARIABLE", "give it a stored secret; may be repeated")
    words.add_repeated(run, "--header", "NAME=VALUE", "send this header to a remote server; may be repeated")
    words.add_repeated(
        run, "--volume", "PATH[:INSIDE[:ro]]", "let it use this file or folder; may be repeated", "-v"
    )
    run.add_argument(
        "--permission-profile",
        metavar="PROFILE",
        help="what it may touch: `none` (default), `network`, or a JSON file",
    )


def _add_running(run: Any) -> None:
    run.add_argument(
        "--sandbox", choices=["on", "off"], help="`off` runs it with your own rights (default: on)"
    )
    run.add_argument(
        "--runtime",
        choices=["process", "container", "docker", "podman", "remote"],
        help="how to run it (default: whatever fits)",
    )
    run.add_argument(
        "--runtime-image",
        metavar="IMAGE",
        help="what the image of a package is made of, under a container engine (default: as configured)",
    )
    text = "install this system package into that image; may be repeated"
    words.add_repeated(run, "--runtime-add-package", "NAME", text)
    run.add_argument(
        "--share",
        choices=["global", "principal", "client", "call"],
        help="who shares one process (default: each client has its own)",
    )
    run.add_argument(
        "--idle-stop",
        metavar="TIME",
        help="stop it when nobody has called for this long, such as 30m, or `never`; the next call starts it "
        "(default: 30m)",
    )
    run.add_argument(
        "--verify",
        choices=["off", "warn", "require"],
        help="what to do when a later start finds another version or content (default: warn)",
    )


def _add_limits(run: Any) -> None:
    run.add_argument("--memory", metavar="SIZE", help="the most memory it may use, such as 512Mi")
    run.add_argument("--cpus", metavar="NUMBER", type=float, help="the most processors it may use: 0.5")
    run.add_argument("--processes", metavar="NUMBER", type=int, help="the most processes it may have")
    run.add_argument("--open-files", metavar="NUMBER", type=int, help="the most files it may have open")


def _add_list(commands: Any, where: argparse.ArgumentParser) -> None:
    listing = commands.add_parser("list", help="list the servers that are run", parents=[where])
    listing.add_argument("--group", metavar="GROUP", help="only those of this group")
    words.add_repeated(listing, "--label", "KEY[=VALUE]", "only those with this label; may be repeated", "-l")
    words.add_long(listing)
    words.add_format(listing)
    listing.set_defaults(handler="list_workloads:run")


def _add_logs(commands: Any, where: argparse.ArgumentParser) -> None:
    logs = commands.add_parser(
        "logs",
        help="show what a server wrote and what became of it",
        description="Show what a server wrote on its standard error, and what was done with it "
        "(`[mooring]`). With `--server`, `--events` or `--network` only that.",
        parents=[where],
    )
    logs.add_argument("name", metavar="NAME", help="the workload")
    logs.add_argument("--follow", "-f", action="store_true", help="keep showing new lines")
    logs.add_argument("--lines", "-n", metavar="NUMBER", type=int, default=100, help="how many (100)")
    logs.add_argument("--server", action="store_true", help="what the server wrote")
    logs.add_argument("--events", action="store_true", help="what was done with it")
    logs.add_argument("--network", action="store_true", help="connections it was refused")
    words.add_format(logs)
    logs.set_defaults(handler="logs_show:run")


def _add_several(commands: Any, where: argparse.ArgumentParser) -> None:
    verbs = {
        "start": ("start servers that were stopped", "start"),
        "stop": ("stop servers; their URLs and settings stay", "stop"),
        "restart": ("stop servers and start them again", "restart"),
        "rm": ("stop servers and forget them", "remove"),
    }
    for word, (text, function) in verbs.items():
        parser = commands.add_parser(word, help=text, parents=[where])
        parser.add_argument("names", metavar="NAME", nargs="*", help="the workloads")
        parser.add_argument("--all", action="store_true", help="all of them")
        parser.add_argument("--group", metavar="GROUP", help="all of this group")
        words.add_format(parser)
        parser.set_defaults(handler=f"stop_several:{function}")


def _add_export(commands: Any, where: argparse.ArgumentParser) -> None:
    export = commands.add_parser(
        "export",
        help="write the RunConfig of a server",
        description="Write the RunConfig of a server; `mooring run --from-config` and ToolHive read it. "
        "Secrets are in it by name only.",
        parents=[where],
    )
    export.add_argument("name", metavar="NAME", help="the workload")
    export.add_argument("file", metavar="FILE", nargs="?", help="where to (default: stdout)")
    export.set_defaults(handler="export:run")


def _add_group(commands: Any, where: argparse.ArgumentParser) -> None:
    group = commands.add_parser("group", help="put servers together")
    actions = group.add_subparsers(title="actions", metavar="ACTION", required=True)

    create = actions.add_parser("create", help="make a group", parents=[where])
    create.add_argument("name", metavar="NAME", help="its name")
    create.set_defaults(handler="group:create")

    listing = actions.add_parser("list", help="list groups", parents=[where])
    words.add_format(listing)
    listing.set_defaults(handler="group:list_groups")

    remove = actions.add_parser("rm", help="remove a group", parents=[where])
    remove.add_argument("name", metavar="NAME", help="the group")
    remove.add_argument(
        "--with-workloads",
        action="store_true",
        help="remove its servers too (default: they move to the group `default`)",
    )
    remove.set_defaults(handler="group:remove")

    move = actions.add_parser("move", help="put servers into a group", parents=[where])
    move.add_argument("group", metavar="GROUP", help="the group")
    move.add_argument("names", metavar="NAME", nargs="+", help="the workloads")
    move.set_defaults(handler="group:move")


def _add_service(commands: Any, where: argparse.ArgumentParser) -> None:
    service = commands.add_parser("service", help="run the gateway from log-in on")
    actions = service.add_subparsers(title="actions", metavar="ACTION", required=True)
    for word, text in (("install", "write the unit of your service manager"), ("uninstall", "remove it")):
        parser = actions.add_parser(word, help=text)
        parser.add_argument(
            "--kind", choices=["systemd", "launchd"], help="which one (default: the one of this system)"
        )
        if word == "install":
            parser.add_argument("--print", action="store_true", help="print it instead of writing it")
        parser.set_defaults(handler=f"service:{word}")
    stop = actions.add_parser(
        "stop",
        help="stop the gateway that runs in the background",
        description="Stop the gateway and everything it runs. Its next start brings back what ran.",
        parents=[where],
    )
    stop.set_defaults(handler="service:stop")
