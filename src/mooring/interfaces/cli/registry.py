"""`mooring registry` and `mooring search`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from mooring.ecosystem.registry.entry import Entry, Offer, RegistryError
from mooring.ecosystem.registry.running import questions, run_config
from mooring.ecosystem.registry.sources import Source, SourceKind
from mooring.interfaces.cli.failure import Failed, Misused
from mooring.interfaces.cli.output import one_line, print_table
from mooring.interfaces.cli.registry_api import registries
from mooring.workloads.secrets.errors import SecretsError

T = TypeVar("T")


def list_servers(arguments: argparse.Namespace) -> int:
    """The servers of all registries, or the registries themselves."""
    if not arguments.sources:
        return _show_found(arguments, "")
    sources = _tried(lambda: registries().sources())
    if arguments.format == "json":
        print(json.dumps({"registries": msgspec.to_builtins(sources)}, indent=2, ensure_ascii=False))
    else:
        rows = [[each.name, each.kind, each.token_secret or "-", each.location or "-"] for each in sources]
        print_table(("name", "kind", "token", "location"), rows, sys.stdout)
    return 0


def search(arguments: argparse.Namespace) -> int:
    """Servers that hold all the words."""
    return _show_found(arguments, " ".join(arguments.words))


def _show_found(arguments: argparse.Namespace, text: str) -> int:
    if arguments.limit < 1:
        raise Misused("--limit must be at least 1")
    found, problems, more = _tried(lambda: registries().search(text, arguments.limit, arguments.registry))
    for problem in problems:
        print(one_line(problem), file=sys.stderr)
    if arguments.format == "json":
        servers = [msgspec.to_builtins(entry) for entry in found]
        print(json.dumps({"servers": servers, "more": more}, indent=2, ensure_ascii=False))
    elif found:
        print_table(
            ("name", "version", "kind", "registry", "description"), [_row(each) for each in found], sys.stdout
        )
        print("run one with `mooring run NAME`, see more with `mooring registry info NAME`", file=sys.stderr)
    else:
        print("nothing was found: try fewer words, or add a registry", file=sys.stderr)
    if more and arguments.format == "text":
        print(f"there are more than {arguments.limit}; search for words, or raise --limit", file=sys.stderr)
    return 0 if found or not problems else 1


def _row(entry: Entry) -> list[str]:
    kinds = ", ".join(dict.fromkeys(each.kind for each in entry.offers)) or "-"
    description = (
        entry.description
        if entry.status in ("", "active", "Active")
        else f"({entry.status}) {entry.description}"
    )
    return [
        one_line(entry.name),
        one_line(entry.version) or "-",
        kinds,
        entry.registry,
        one_line(description),
    ]


def info(arguments: argparse.Namespace) -> int:
    """Everything about one server."""
    known = registries()
    entry = _tried(lambda: known.entry(arguments.name, arguments.version, arguments.registry))
    if arguments.versions:
        for version in _tried(lambda: known.versions(entry)):
            print(version)
        return 0
    if arguments.run_config:
        print(json.dumps(_tried(lambda: _run_config(entry)), indent=2, ensure_ascii=False))
        return 0
    if arguments.format == "json":
        print(json.dumps(msgspec.to_builtins(entry), indent=2, ensure_ascii=False))
        return 0
    for name, value in _facts(entry):
        print(f"{name + ':':<14} {one_line(value)}")
    for offer in entry.offers:
        _print_offer(offer)
    return 0


def _run_config(entry: Entry) -> dict[str, Any]:
    """With the names of what must still be given in place of values."""
    offer = entry.offer()
    given = {each.name: f"<{each.name}>" for each in questions(offer, {})}
    return run_config(entry, offer, given, lambda name, _: name)


def _facts(entry: Entry) -> list[tuple[str, str]]:
    made = [
        ("name", entry.name),
        ("title", entry.title),
        ("description", entry.description),
        ("version", entry.version),
        ("status", entry.status),
        ("registry", entry.registry),
        ("repository", entry.repository),
        ("website", entry.website),
        ("updated", entry.updated),
        ("tags", ", ".join(entry.tags)),
        ("tools", ", ".join(entry.tools)),
        ("permissions", json.dumps(entry.permissions) if entry.permissions else ""),
        ("oauth", json.dumps(entry.oauth) if entry.oauth else ""),
    ]
    if entry.provenance is not None:
        built = entry.provenance
        told = {"by": built.signer_identity, "from": built.repository_uri, "signed at": built.sigstore_url}
        made.append(
            ("provenance", ", ".join(f"{key} {value}" for key, value in told.items() if value) or "-")
        )
        made.append(
            (
                "verified",
                "`mooring run` checks it with the key it names"
                if built.public_key
                else "no: it names no key",
            )
        )
    return [(name, value) for name, value in made if value]


def _print_offer(offer: Offer) -> None:
    print(f"\n{offer.kind}: {one_line(offer.source)} ({offer.transport})")
    inputs = [
        *(("variable", each.name, each) for each in offer.env),
        *(("header", each.name, each) for each in offer.headers),
        *(
            ("argument", each.flag or each.input.name or str(each.input.value), each.input)
            for each in offer.arguments
        ),
    ]
    for kind, name, each in inputs:
        marks = [word for word, on in (("required", each.required), ("secret", each.secret)) if on]
        if each.default is not None:
            marks.append(f"default {each.default}")
        if each.choices:
            marks.append(f"one of {', '.join(each.choices)}")
        shown = f" ({'; '.join(marks)})" if marks else ""
        about = f": {each.description}" if each.description else ""
        print(f"  {kind} {one_line(name + shown + about)}")
    for note in offer.notes:
        print(f"  note: {note}")


def add(arguments: argparse.Namespace) -> int:
    """Add a registry after reading it once."""
    headers: dict[str, str] = {}
    for pair in arguments.header_secret:
        header, equals, secret = pair.partition("=")
        if not equals or not header or not secret:
            raise Misused(f"`{pair}` must be `HEADER=SECRET`, for example `X-Api-Key=registry-key`")
        headers[header] = secret
    kind, location = _kind(arguments.location)
    source = Source(arguments.name, kind, location, arguments.token_secret, headers)
    count = _tried(lambda: registries().add(source))
    more = " or more" if kind == "api" and count >= 100 else ""
    print(f"`{arguments.name}` was added; it has {count}{more} servers", file=sys.stderr)
    return 0


def _kind(location: str) -> tuple[SourceKind, str]:
    if "://" not in location:
        path = Path(location).absolute()
        if not path.is_file():
            raise Failed(f"there is no file `{location}`")
        return "file", str(path)
    return ("url" if location.partition("?")[0].endswith(".json") else "api"), location


def remove(arguments: argparse.Namespace) -> int:
    """Forget a registry."""
    _tried(lambda: registries().remove(arguments.name))
    return 0


def refresh(arguments: argparse.Namespace) -> int:
    """Read registries anew."""
    counts = _tried(lambda: registries().refresh(arguments.name))
    for name, count in counts.items():
        print(f"{name}: {count} servers", file=sys.stderr)
    return 0


def _tried(action: Callable[[], T]) -> T:
    try:
        return action()
    except (RegistryError, SecretsError) as error:
        raise Failed(str(error)) from error
