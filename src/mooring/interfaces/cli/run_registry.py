"""`mooring run NAME` for a server of a registry: ask what it needs, keep its secrets, check its origin."""

from __future__ import annotations

import argparse
import getpass
import re
import sys
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from mooring.ecosystem.registry.entry import Entry, NoSuchEntry, Offer, RegistryError
from mooring.ecosystem.registry.preparing import Prepared, Wish, offer_for, prepare
from mooring.ecosystem.registry.running import Question
from mooring.interfaces.cli.failure import Failed
from mooring.interfaces.cli.output import one_line
from mooring.interfaces.cli.own_gateway import secret_store
from mooring.interfaces.cli.registry_api import registries
from mooring.workloads.secrets.errors import SecretsError

_NAME = re.compile(r"(?P<name>[A-Za-z0-9._-]+(?:/[A-Za-z0-9._-]+)?)(?:@(?P<version>[\w.+-]+))?")


def document_for(source: str, given: dict[str, str], arguments: argparse.Namespace) -> dict[str, Any] | None:
    """The RunConfig of this server, or None if no registry knows it (then it is an image).

    What was given and used is taken out of the flags: a secret among it must not stand in the RunConfig.
    """
    match = _NAME.fullmatch(source)
    if match is None:
        return None
    try:
        entry = registries().entry(match["name"], match["version"])
        return _document(entry, given, arguments)
    except NoSuchEntry:
        return None
    except (RegistryError, SecretsError) as error:
        raise Failed(str(error)) from error


def _document(entry: Entry, given: dict[str, str], arguments: argparse.Namespace) -> dict[str, Any]:
    wish = Wish(given, arguments.secret, [], arguments.runtime in ("container", "docker", "podman"))
    offer = offer_for(entry, wish)
    wish = replace(wish, given=_with_whole_paths(offer, given), arguments=_words(offer, arguments.after))
    prepared = prepare(entry, wish, _keep)
    if prepared.run_config is None:
        answers = {question.name: _answer(entry, question) for question in prepared.questions}
        wish = replace(wish, given={**wish.given, **_with_whole_paths(offer, answers)})
        prepared = prepare(entry, wish, _keep)
    document = prepared.run_config
    assert document is not None
    used = {each.name for each in (*offer.env, *offer.headers)}
    used |= {each.input.name for each in offer.arguments}
    arguments.env = [each for each in arguments.env if each.partition("=")[0] not in used]
    arguments.secret = document.pop("secrets", [])
    arguments.volume = [*document.pop("volumes", []), *arguments.volume]
    _show(entry, prepared)
    return document


def _with_whole_paths(offer: Offer, answers: dict[str, str]) -> dict[str, str]:
    """Paths as they are from everywhere: the gateway is not in the folder of whoever asks it."""
    repeated = {each.input.name: each.repeated for each in offer.arguments if each.input.path}
    single = {each.name: False for each in offer.env if each.path}
    kinds = {name: many for name, many in {**single, **repeated}.items() if name in answers}
    whole = {
        name: ",".join(_whole(text) for text in (answers[name].split(",") if many else [answers[name]]))
        for name, many in kinds.items()
    }
    return {**answers, **whole}


def _whole(text: str) -> str:
    path = Path(text).expanduser().absolute()
    if not path.exists():
        raise Failed(f"there is no `{path}`: give it a file or folder that is there")
    return str(path)


def _words(offer: Offer, after: list[str]) -> list[str]:
    """What follows `--`, with whole paths where the server's arguments are paths."""
    if not any(each.input.path for each in offer.arguments):
        return after
    return [
        word if word.startswith("-") or not Path(word).expanduser().exists() else _whole(word)
        for word in after
    ]


def _answer(entry: Entry, question: Question) -> str:
    if not sys.stdin.isatty():
        how = f"--secret NAME,target={question.name}" if question.secret else f"--env {question.name}=VALUE"
        what = question.description or "it is required"
        raise Failed(f"`{entry.name}` needs `{question.name}` ({what}): give it with {how}")
    choices = f" [{', '.join(question.choices)}]" if question.choices else ""
    prompt = f"{question.name}{f' ({question.description})' if question.description else ''}{choices}: "
    if question.secret:
        secret_store().names()  # where there is no place for it, say so before anybody has typed it
        return getpass.getpass(prompt)
    print(prompt, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip()


def _keep(name: str, value: str) -> None:
    secret_store().set(name, value)
    print(f"its secret is kept as `{name}`", file=sys.stderr)


def _show(entry: Entry, prepared: Prepared) -> None:
    print(f"{entry.name} from {entry.registry}: {one_line(prepared.source)}", file=sys.stderr)
    if entry.provenance is not None:
        built = entry.provenance
        told = [text for text in (built.signer_identity, built.repository_uri) if text]
        print(f"built by {one_line(', '.join(told) or 'nobody that is named')}", file=sys.stderr)
    if prepared.signed:
        print("its signature is by the key that the registry names", file=sys.stderr)
    if entry.oauth is not None:
        print("its users sign in at it when it first wants to know them", file=sys.stderr)
