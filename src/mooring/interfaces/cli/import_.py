"""`mooring import`: servers from another program's file into `mooring.yaml` or the running daemon."""

from __future__ import annotations

import argparse
import getpass
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from mooring.ecosystem.clients.editing import ClientFileError, preview, read_text
from mooring.ecosystem.clients.table import BY_ID
from mooring.ecosystem.clients.takeover import SERVERS, edit_of, ids_in, write_servers
from mooring.ecosystem.documents.editing import DocumentError
from mooring.ecosystem.importers.found import CannotImport, FoundFile
from mooring.ecosystem.importers.planning import (
    ImportPlan,
    as_configuration,
    as_run_config,
    plan_import,
    problems_of_run_config,
)
from mooring.ecosystem.importers.reading import read_section, read_servers
from mooring.interfaces.cli.asking import confirmed, show_diff
from mooring.interfaces.cli.failure import Failed, reason_of
from mooring.interfaces.cli.output import one_line, print_table
from mooring.interfaces.cli.own_gateway import GatewaySecrets, secret_store
from mooring.interfaces.cli.user_places import client_places
from mooring.interfaces.cli.workload_calls import run_workload, workload_names
from mooring.workloads.secrets.errors import NotSetUp, SecretsError
from mooring.workloads.secrets.store import SecretStore

T = TypeVar("T")


def run(arguments: argparse.Namespace) -> int:
    """Show what will happen, ask, do it."""
    found = _found(arguments.source)
    plan = plan_for(found, arguments)
    show(plan, arguments.format)
    if not plan.servers:
        raise Failed("there is nothing to import")
    target = None if arguments.run else Path(arguments.into)
    if target is not None:
        edit = edit_of(plan)
        change = _tried(lambda: preview(target, SERVERS, edit))
        show_diff(target, _text(change.before), _text(change.after))
    if arguments.dry_run or not confirmed(arguments, f"import {len(plan.servers)} servers?"):
        return 0
    carry_out(plan, target, arguments)
    return 0


def plan_for(found: FoundFile, arguments: argparse.Namespace) -> ImportPlan:
    """What would be imported, with ids and names of secrets that are still free."""
    into_daemon = arguments.run
    taken = workload_names(arguments) if into_daemon else _tried(lambda: ids_in(Path(arguments.into)))
    plan = plan_import(found, taken, _secret_names(), arguments.only, whole_headers=into_daemon)
    if into_daemon:
        problems = [problem for server in plan.servers for problem in problems_of_run_config(server)]
        if problems:
            raise Failed("; ".join(problems))
    return plan


def carry_out(plan: ImportPlan, target: Path | None, arguments: argparse.Namespace) -> None:
    """Secrets first: a server without its secret would fail, a secret without its server hurts nobody."""
    _store_secrets(plan)
    if target is None:
        for server in plan.servers:
            run_workload(arguments, as_run_config(server))
            print(f"`{server.id}` runs", file=sys.stderr)
        return
    _tried(lambda: write_servers(target, plan))
    say_where(target)


def say_where(target: Path) -> None:
    """The servers are in this file now; nobody serves them yet."""
    print(f"imported into `{target}`; serve it with `mooring serve --config {target}`", file=sys.stderr)


def show(plan: ImportPlan, format_: str) -> None:
    """The plan on stdout, without any secret's value."""
    if format_ == "json":
        print(json.dumps(_as_json(plan), indent=2, ensure_ascii=False))
        return
    show_rows(
        {
            "kind": plan.kind,
            "servers": [
                {
                    "id": each.id,
                    "name": each.server.name,
                    "remote": each.server.url is not None,
                    "secrets": len(each.secrets),
                    "summary": each.summary,
                }
                for each in plan.servers
            ],
            "secrets": [{"name": moved.name, "place": moved.place} for moved in plan.secrets],
            "notes": plan.notes,
        }
    )


def show_rows(plan: Mapping[str, Any]) -> None:
    """The plan as the API describes one, for people."""
    print(f"this is {plan['kind']}", file=sys.stderr)
    rows = [
        [
            each["id"],
            one_line(each["name"]),
            "remote" if each["remote"] else "process",
            str(each["secrets"]),
            one_line(each["summary"]),
        ]
        for each in plan["servers"]
    ]
    if rows:
        print_table(("id", "name there", "kind", "secrets", "what"), rows, sys.stdout)
    for moved in plan["secrets"]:
        print(
            f"secret `{moved['name']}`: the value of {moved['place']} goes into the secret store",
            file=sys.stderr,
        )
    for note in plan["notes"]:
        print(one_line(note), file=sys.stderr)


def _as_json(plan: ImportPlan) -> dict[str, object]:
    servers = [
        {
            "id": each.id,
            "name": each.server.name,
            "entry": as_configuration(each),
            "secrets": [{"name": moved.name, "from": moved.place} for moved in each.secrets],
        }
        for each in plan.servers
    ]
    return {"kind": plan.kind, "servers": servers, "notes": list(plan.notes)}


def _found(source: str) -> FoundFile:
    path = Path(source)
    try:
        if source in BY_ID and not path.exists():
            client = BY_ID[source]
            return read_section(
                read_text(client.path(client_places())), client.section, f"{client.title}'s file"
            )
        if not path.exists():
            raise Failed(f"there is no file `{source}`, and no client of this name: `mooring client status`")
        return read_servers(read_text(path), path.name)
    except (CannotImport, ClientFileError) as error:
        raise Failed(str(error)) from error
    except DocumentError as error:
        raise Failed(f"`{source}` {error}") from error


def _secret_names() -> list[str]:
    try:
        return secret_store().names()
    except NotSetUp:
        return []
    except SecretsError as error:
        raise Failed(str(error)) from error


def _store_secrets(plan: ImportPlan) -> None:
    need_store(bool(plan.secrets), plan.wanted_secrets)
    for moved in plan.secrets:
        _tried(lambda moved=moved: secret_store().set(moved.name, moved.value))


def need_store(holds_secrets: bool, wanted: dict[str, str]) -> None:
    """There is a place for secrets, if there are any; those that the file does not hold are asked for."""
    if not holds_secrets and not wanted:
        return
    try:
        store = secret_store()
        store.names()
        _ask_for(wanted, store)
    except NotSetUp as error:
        raise Failed(
            "there are secrets in this file and no place to keep them: run `mooring secret setup` first"
        ) from error
    except SecretsError as error:
        raise Failed(str(error)) from error


def _ask_for(wanted: dict[str, str], store: SecretStore | GatewaySecrets) -> None:
    for name, purpose in wanted.items():
        if name in store.names():
            continue
        if sys.stdin.isatty() and (value := getpass.getpass(f"{purpose} ({name}): ")):
            store.set(name, value)
        else:
            print(f"`{name}` is still needed ({purpose}): run `mooring secret set {name}`", file=sys.stderr)


def _text(data: bytes | None) -> str:
    return (data or b"").decode("utf-8", "replace")


def _tried(action: Callable[[], T]) -> T:
    try:
        return action()
    except (ClientFileError, SecretsError) as error:
        raise Failed(str(error)) from error
    except OSError as error:
        raise Failed(f"cannot write `{error.filename}`: {reason_of(error)}") from error
