"""From a file to a Config: which format it is, what is wrong with it, and what it means."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from msgspec import Struct
from msgspec.structs import replace

from mooring.config import adapter_format, adapter_keys, desktop, run_config_file
from mooring.config.absent import refuse_absent
from mooring.config.locations import adapter_places, default_data_directory
from mooring.config.problems import ConfigError, Problem
from mooring.config.reading import Reader
from mooring.config.rules import RULES
from mooring.config.schema import Config, Server
from mooring.config.secret_references import expand_secrets
from mooring.config.source import Document, expand_variables, parse

__all__ = ["ConfigError", "Loaded", "load", "load_with_notes"]

# Far above any configuration somebody wrote; a wrong file name must not fill the memory.
MAX_FILE_BYTES = 16 * 1024**2

_OWN_FORMAT = "write its servers in Mooring's own format (docs/reference/configuration.md)"


class Loaded(Struct, frozen=True):
    """A usable configuration, and what the person should know about how it was understood."""

    config: Config
    notes: tuple[str, ...] = ()
    data_key: str = "storage.root"
    """The key of the file that says where the data directory is."""


def load(
    path: Path,
    *,
    listen: str | None = None,
    environment: Mapping[str, str] | None = None,
    sandboxed: bool = True,
) -> Config:
    """Read the file; `listen` replaces the file's own address before the rules look at it."""
    return load_with_notes(path, listen=listen, environment=environment, sandboxed=sandboxed).config


def load_with_notes(
    path: Path,
    *,
    listen: str | None = None,
    environment: Mapping[str, str] | None = None,
    sandboxed: bool = True,
) -> Loaded:
    """As `load`, with a line for each thing that was decided for the person.

    Not `sandboxed`: permission profiles are read, and set aside, as the person has asked for.
    """
    document = parse(_text(path), is_json=path.suffix.lower() in (".json", ".jsonc"))
    _stop_on_problems(path, document)
    _refuse_foreign(path, document)
    variables = os.environ if environment is None else environment
    expand_variables(document, variables)
    expand_secrets(document, variables)
    notes: tuple[str, ...] = ()
    given = document.value
    is_adapter = adapter_keys.is_adapter(given)
    if desktop.is_desktop(document.value):
        notes = desktop.translate(document, default_data_directory(variables))
    elif run_config_file.is_run_config(document.value):
        notes = run_config_file.translate(document, default_data_directory(variables))
    elif is_adapter:
        notes = adapter_format.translate(document, adapter_places(path, document.value, variables))
        if document.value is given:  # it was not translated, and is none of ours
            _stop_on_problems(path, document)
    if listen is not None:
        document.value["listen"] = listen
        document.positions.pop(("listen",), None)
    refuse_absent(document)
    config = Reader(document, path.absolute().parent, RULES).read(Config)
    _stop_on_problems(path, document)
    assert config is not None, "a document without problems is a Config"
    if is_adapter:  # its servers run elsewhere
        return Loaded(config, notes, adapter_keys.STATE)
    return Loaded(config, notes) if sandboxed else _unsandboxed(config)


def _unsandboxed(config: Config) -> Loaded:
    servers: list[Server] = []
    notes: list[str] = []
    for server in config.servers:
        if server.workload is not None and server.workload.permission_profile is not None:
            notes.append(f"`{server.id}` runs unsandboxed, with your rights")
            server = replace(server, workload=replace(server.workload, permission_profile=None))  # noqa: PLW2901
        servers.append(server)
    return Loaded(replace(config, servers=servers), tuple(notes))


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        raise ConfigError(
            str(path), [Problem((), f"{reason}: give the file with `--config FILE`")]
        ) from error
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(str(path), [Problem((), "is too large to be a configuration")])
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(str(path), [Problem((), "is not UTF-8 text: save it as UTF-8")]) from error


def _stop_on_problems(path: Path, document: Document) -> None:
    if document.problems:
        order = {id(problem): index for index, problem in enumerate(document.problems)}
        by_place = sorted(
            document.problems,
            key=lambda problem: (problem.position.line if problem.position else 0, order[id(problem)]),
        )
        raise ConfigError(str(path), by_place)


def _refuse_foreign(path: Path, document: Document) -> None:
    """Files that are in no format we know, or in none at all."""
    value = document.value
    if not isinstance(value, dict):
        document.report((), "holds no keys: start it with `mooring: 1`")
    elif not ("mooring" in value or any(known(cast("object", value)) for known in _FORMATS)):
        document.report((), "is not a Mooring file: add the line `mooring: 1` at its top")
    _stop_on_problems(path, document)


_FORMATS = (desktop.is_desktop, adapter_keys.is_adapter, run_config_file.is_run_config)
