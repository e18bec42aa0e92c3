"""`mooring run NAME` for a server of a registry: ask what it needs, keep its secrets, check its origin."""

from __future__ import annotations

import argparse
import getpass
import re
import sys
from pathlib import Path
from typing import Any

import msgspec

from mooring.ecosystem.registry.entry import Entry, NoSuchEntry, Offer, RegistryError
from mooring.ecosystem.registry.image_registry import verified_image
from mooring.ecosystem.registry.running import Question, questions, run_config
from mooring.interfaces.cli.failure import Failed
from mooring.interfaces.cli.output import one_line
from mooring.interfaces.cli.own_gateway import secret_store
from mooring.interfaces.cli.registry_api import registries
from mooring.workloads.secrets.errors import SecretsError
from mooring.workloads.secrets.names import SecretUse

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
    kind = "image" if arguments.runtime in ("container", "docker", "podman") and _has_image(entry) else None
    whole = entry.offer(kind)
    offer = _reduced(whole, arguments)
    answers = dict(given)
    for question in questions(offer, answers):
        answers[question.name] = _answer(entry, question)
    document = run_config(entry, offer, _with_whole_paths(whole, answers), _keep)
    used = {each.name for each in (*offer.env, *offer.headers)}
    used |= {each.input.name for each in offer.arguments}
    arguments.env = [each for each in arguments.env if each.partition("=")[0] not in used]
    if document.get("secrets"):
        arguments.secret = [*document["secrets"], *arguments.secret]
    if arguments.after:
        words, paths = _words(whole, arguments.after)
        document["cmd_args"] = [*document.get("cmd_args", []), *words]
        document["volumes"] = [*document.get("volumes", []), *paths]
    arguments.volume = [*document.pop("volumes", []), *arguments.volume]
    _show(entry, offer)
    if offer.kind == "image" and entry.provenance is not None and entry.provenance.public_key:
        document["image"] = verified_image(offer.source, entry.provenance.public_key)
        print("its signature is by the key that the registry names", file=sys.stderr)
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


def _words(offer: Offer, after: list[str]) -> tuple[list[str], list[str]]:
    """What follows `--`; where the server's arguments are paths, those that exist are its to use."""
    if not any(each.input.path for each in offer.arguments):
        return after, []
    words = [_whole(word) if _is_path(word) else word for word in after]
    return words, [word for word in words if _is_path(word)]


def _is_path(word: str) -> bool:
    return not word.startswith("-") and Path(word).expanduser().exists()


def _has_image(entry: Entry) -> bool:
    return any(each.kind == "image" for each in entry.offers)


def _reduced(offer: Offer, arguments: argparse.Namespace) -> Offer:
    """Without what the flags already say: stored secrets, and arguments after `--`."""
    targets = {SecretUse.parse(each).target for each in arguments.secret}
    env = tuple(each for each in offer.env if each.name not in targets)
    words = tuple(
        each for each in offer.arguments if each.input.value is not None and not each.input.variables
    )
    return msgspec.structs.replace(
        offer, env=env, arguments=words if arguments.after and offer.kind != "remote" else offer.arguments
    )


def _answer(entry: Entry, question: Question) -> str:
    if not sys.stdin.isatty():
        how = f"--secret NAME,target={question.name}" if question.secret else f"--env {question.name}=VALUE"
        what = question.description or "it is required"
        raise Failed(f"`{entry.name}` needs `{question.name}` ({what}): give it with {how}")
    choices = f" [{', '.join(question.choices)}]" if question.choices else ""
    prompt = f"{question.name}{f' ({question.description})' if question.description else ''}{choices}: "
    if question.secret:
        return getpass.getpass(prompt)
    print(prompt, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip()


def _keep(name: str, value: str) -> str:
    secret_store().set(name, value)
    print(f"its secret is kept as `{name}`", file=sys.stderr)
    return name


def _show(entry: Entry, offer: Offer) -> None:
    print(f"{entry.name} from {entry.registry}: {one_line(offer.source)}", file=sys.stderr)
    if entry.provenance is not None:
        built = entry.provenance
        told = [text for text in (built.signer_identity, built.repository_uri) if text]
        print(f"built by {one_line(', '.join(told) or 'nobody that is named')}", file=sys.stderr)
    if entry.oauth is not None:
        print("its users sign in at it when it first wants to know them", file=sys.stderr)
