"""From a registry's entry to a RunConfig: what must be asked, and what the answers make of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from mooring.ecosystem.importers.found import identifier
from mooring.ecosystem.registry.entry import Argument, Entry, Input, Offer, RegistryError

_VARIABLE = re.compile(r"\{([A-Za-z0-9_.-]+)\}")


class Question(Struct, frozen=True):
    """Something the person must say before the server can run."""

    name: str
    description: str
    secret: bool
    choices: tuple[str, ...] = ()


def questions(offer: Offer, given: Mapping[str, str]) -> list[Question]:
    """What is required, not fixed, has no default and was not given."""
    inputs = [*offer.env, *offer.headers, *(each.input for each in offer.arguments)]
    nested = [inner for each in inputs for inner in each.variables]
    asked: dict[str, Question] = {}
    for each in [*inputs, *nested]:
        open_ = each.required and each.value is None and each.default is None
        if open_ and each.name not in given and each.name not in asked:
            asked[each.name] = Question(each.name, each.description, each.secret, each.choices)
    return list(asked.values())


def run_config(
    entry: Entry, offer: Offer, given: Mapping[str, str], keep: Callable[[str, str], str]
) -> dict[str, Any]:
    """The RunConfig; `keep` stores a secret's value and answers the name it is kept under."""
    _check(offer, given)
    made: dict[str, Any] = {
        "schema_version": "v0.1.0",
        "name": identifier(entry.short_name, ()),
        "registry_server_name": entry.name,
        "transport": offer.transport,
    }
    if offer.kind == "remote":
        made["remote_url"] = _filled(offer.source, {**_defaults(offer.arguments), **given})
        headers = _headers(entry, offer, given, keep)
        if entry.oauth:
            made["remote_auth_config"] = entry.oauth
        return {**made, **({"header_forward": headers} if headers else {})}
    made["image"] = offer.source
    if entry.permissions:
        made["permission_profile"] = entry.permissions
    else:
        made["permission_profile_name_or_path"] = "none"
    if arguments := _arguments(offer.arguments, given):
        made["cmd_args"] = arguments
    if offer.transport != "stdio":
        made["mooring"] = {"path": offer.path}
        if offer.target_port:
            made["target_port"] = offer.target_port
    if paths := _paths(offer, given):
        made["volumes"] = paths
    plain, uses = _environment(entry, offer, given, keep)
    return {**made, **({"env_vars": plain} if plain else {}), **({"secrets": uses} if uses else {})}


def _check(offer: Offer, given: Mapping[str, str]) -> None:
    missing = questions(offer, given)
    if missing:
        names = ", ".join(f"`{each.name}`" for each in missing)
        raise RegistryError(f"the server needs {names}: give it with `--env NAME=VALUE` or `--secret`")
    for each in [*offer.env, *offer.headers, *(argument.input for argument in offer.arguments)]:
        value = given.get(each.name)
        if value is not None and each.choices and value not in each.choices:
            raise RegistryError(f"`{each.name}` must be one of {', '.join(each.choices)}, not `{value}`")


def _environment(
    entry: Entry, offer: Offer, given: Mapping[str, str], keep: Callable[[str, str], str]
) -> tuple[dict[str, str], list[str]]:
    plain: dict[str, str] = {}
    uses: list[str] = []
    for each in offer.env:
        value = _value(each, given)
        if value is None:
            continue
        if each.secret:
            uses.append(f"{keep(f'{entry.short_name}-{each.name}', value)},target={each.name}")
        else:
            plain[each.name] = value
    return plain, uses


def _headers(
    entry: Entry, offer: Offer, given: Mapping[str, str], keep: Callable[[str, str], str]
) -> dict[str, Any]:
    plain: dict[str, str] = {}
    secret: dict[str, str] = {}
    for each in offer.headers:
        value = _value(each, given)
        if value is None:
            continue
        if each.secret or any(inner.secret for inner in each.variables):
            secret[each.name] = keep(f"{entry.short_name}-{each.name}", value)
        else:
            plain[each.name] = value
    made = {"add_plaintext_headers": plain, "add_headers_from_secret": secret}
    return {key: value for key, value in made.items() if value}


def _arguments(arguments: tuple[Argument, ...], given: Mapping[str, str]) -> list[str]:
    words: list[str] = []
    for each in arguments:
        value = _value(each.input, given)
        if value is None:
            continue
        values = value.split(",") if each.repeated and each.input.name in given else [value]
        for one in values:
            words += [each.flag, one] if each.flag and one else [each.flag or one]
    return words


def _paths(offer: Offer, given: Mapping[str, str]) -> list[str]:
    """What was named with an input that is for paths; the publisher's own values lie in its package."""
    inputs = [(each, False) for each in offer.env] + [(each.input, each.repeated) for each in offer.arguments]
    named = [
        text
        for each, repeated in inputs
        if each.path and each.name in given
        for text in (given[each.name].split(",") if repeated else [given[each.name]])
    ]
    for text in named:
        if not text.startswith("/"):
            raise RegistryError(f"`{text}` must be an absolute path")
    return named


def _value(each: Input, given: Mapping[str, str]) -> str | None:
    if each.value is not None:
        inner = {one.name: given.get(one.name, one.default) for one in each.variables}
        return _filled(each.value, {key: value for key, value in inner.items() if value is not None})
    return given.get(each.name, each.default)


def _defaults(arguments: tuple[Argument, ...]) -> dict[str, str]:
    return {each.input.name: each.input.default for each in arguments if each.input.default is not None}


def _filled(text: str, values: Mapping[str, str]) -> str:
    """`{name}` from the values; what is not among them stays, as the format says."""
    return _VARIABLE.sub(lambda match: values.get(match.group(1), match.group()), text)
