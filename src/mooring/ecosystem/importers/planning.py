"""What an import will do, and what a server becomes: an entry of `mooring.yaml`, or a RunConfig."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from mooring.ecosystem.importers.found import FoundFile, FoundServer, identifier
from mooring.ecosystem.importers.secrets_found import Moved, without_secrets

Entry = dict[str, Any]

_VARIABLE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*(?::-[^}]*)?\}")
_SECRET = re.compile(r"\$\{secret:([^}]+)\}")


@dataclass(frozen=True, slots=True)
class PlannedServer:
    """One server as it will be."""

    id: str
    server: FoundServer
    secrets: tuple[Moved, ...]

    @property
    def summary(self) -> str:
        """What it is, in one line without secrets."""
        if self.server.url is not None:
            return self.server.url
        return " ".join(self.server.command)


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """A whole file."""

    kind: str
    servers: tuple[PlannedServer, ...]
    notes: tuple[str, ...]

    @property
    def secrets(self) -> tuple[Moved, ...]:
        return tuple(each for server in self.servers for each in server.secrets)

    @property
    def wanted_secrets(self) -> dict[str, str]:
        """Secrets that the person must store: name -> what it is for."""
        found = (each.server.wanted_secrets.items() for each in self.servers)
        return {name: purpose for items in found for name, purpose in items}


def plan_import(
    found: FoundFile,
    taken_ids: Iterable[str],
    taken_secrets: Iterable[str],
    only: Iterable[str] = (),
    *,
    whole_headers: bool = False,
) -> ImportPlan:
    """What becomes of each server; nothing is changed yet.

    `whole_headers`: a secret is the whole value of a header, not only what follows `Bearer`.
    """
    wanted = set(only)
    ids = set(taken_ids)
    names = set(taken_secrets)
    planned: list[PlannedServer] = []
    notes = [f"left out: {problem}" for problem in found.problems]
    for server in found.servers:
        if wanted and server.name not in wanted:
            continue
        if not server.enabled and server.name not in wanted:
            notes.append(f"left out: `{server.name}` is disabled")
            continue
        chosen = identifier(server.name, ids)
        ids.add(chosen)
        safe, secrets = without_secrets(server, chosen, names, whole_headers=whole_headers)
        names |= {each.name for each in secrets}
        planned.append(PlannedServer(chosen, safe, secrets))
        notes += [f"`{chosen}`: {note}" for note in server.notes]
    missing = wanted - {server.name for server in found.servers}
    notes += [f"left out: there is no `{name}` in the file" for name in sorted(missing)]
    return ImportPlan(found.kind, tuple(planned), tuple(notes))


def as_configuration(planned: PlannedServer) -> Entry:
    """The server as an entry under `servers` in `mooring.yaml`, without its id."""
    server = planned.server
    if server.url is not None:
        upstream: Entry = {"url": server.url, "transport": server.transport}
        if server.headers:
            upstream["headers"] = dict(server.headers)
        return {"upstream": upstream, **server.settings}
    workload: Entry = {"run": list(server.command)}
    if server.env:
        workload["env"] = dict(server.env)
    if server.cwd:
        workload["cwd"] = server.cwd
    return {"workload": workload, **server.settings}


def as_run_config(planned: PlannedServer) -> Entry:
    """The server as a RunConfig for the daemon; secrets are named, never held."""
    server = planned.server
    made: Entry = {"schema_version": "v0.1.0", "name": planned.id, "base_name": planned.id}
    if server.url is not None:
        made |= {
            "remote_url": server.url,
            "transport": "sse" if server.transport == "sse" else "streamable-http",
        }
        if server.headers:
            made["header_forward"] = _headers(server.headers)
        return made
    image, arguments, command = _source(server.command)
    made |= {"transport": "stdio", "permission_profile": _profile(arguments)}
    if image:
        made |= {"image": image, "cmd_args": arguments}
    else:
        made["mooring"] = {"command": command, **({"cwd": server.cwd} if server.cwd else {})}
    plain = {key: value for key, value in server.env.items() if not _SECRET.search(value)}
    if plain:
        made["env_vars"] = plain
    uses = [
        f"{match.group(1)},target={key}"
        for key, value in server.env.items()
        if (match := _SECRET.fullmatch(value))
    ]
    if uses:
        made["secrets"] = uses
    return made


def problems_of_run_config(planned: PlannedServer) -> list[str]:
    """What a RunConfig cannot say: a secret in an argument, in a URL, or in the middle of a value."""
    server = planned.server
    if any(_SECRET.search(word) for word in server.command):
        return [
            f"`{planned.id}` has a secret among its arguments: give it to the server in a variable instead"
        ]
    if server.url is not None and _SECRET.search(server.url):
        return [f"`{planned.id}` has a secret in its URL: import it into a mooring.yaml instead"]
    values = {**server.env, **server.headers}
    mixed = [key for key, value in values.items() if _SECRET.search(value) and not _SECRET.fullmatch(value)]
    open_ = [key for key, value in values.items() if _VARIABLE.search(value)]
    return [
        *(
            f"`{planned.id}` mixes a secret with other text in `{key}`: store the whole value"
            for key in mixed
        ),
        *(f"`{planned.id}` takes `{key}` from the environment: write its value instead" for key in open_),
    ]


def _headers(headers: dict[str, str]) -> Entry:
    plain = {key: value for key, value in headers.items() if not _SECRET.search(value)}
    secret = {key: match.group(1) for key, value in headers.items() if (match := _SECRET.fullmatch(value))}
    return {
        **({"add_plaintext_headers": plain} if plain else {}),
        **({"add_headers_from_secret": secret} if secret else {}),
    }


def _source(words: tuple[str, ...]) -> tuple[str, list[str], list[str]]:
    """`npx -y pkg ...` and `uvx pkg ...` as the scheme that runs them in the sandbox."""
    program = PurePath(words[0]).name.removesuffix(".cmd").removesuffix(".exe") if words else ""
    rest = list(words[1:])
    if program == "npx":
        rest = [word for word in rest if word not in ("-y", "--yes", "-q", "--quiet")]
    if program in ("npx", "uvx") and rest and not rest[0].startswith("-"):
        return f"{program}://{rest[0]}", rest[1:], []
    return "", [], list(words)


def _profile(arguments: list[str]) -> Entry:
    """As other clients ran it: the internet, and the folders it was given by name."""
    paths = [word for word in arguments if Path(word).is_absolute() and Path(word).exists()]
    return {"write": paths, "network": {"outbound": {"insecure_allow_all": True}}}
