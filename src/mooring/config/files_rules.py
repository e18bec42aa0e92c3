"""Rules about the sections for files that their types cannot say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from mooring.config.files import Adapter, Locator, Uploads
from mooring.config.files_sight import Sight, share_of, sight_of
from mooring.config.problems import KeyPath
from mooring.config.schema import Server
from mooring.files import argument_paths

Findings = Iterator[tuple[KeyPath, str]]
_OURS: Final = ("/artifacts/", "/files/once/", "/api/v1/", "/oauth/")


def adapter(entry: Adapter) -> Findings:
    consumes = entry.type == "upload_consumer"
    if consumes and not entry.file_path_argument:
        yield (), "needs the key `file_path_argument`: the argument that takes the file"
    for name, given in (
        ("output_path_argument", entry.output_path_argument is not None),
        ("output_locator", entry.output_locator != Locator()),
        ("allow_raw_output", entry.allow_raw_output),
    ):
        if consumes and given:
            yield (name,), "belongs to an `artifact_producer`: a tool that does both has two entries"
    if not consumes and entry.file_path_argument:
        yield (
            ("file_path_argument",),
            "belongs to an `upload_consumer`: a tool that does both has two entries",
        )
    if consumes and entry.uri_prefix and entry.delivery not in ("auto", "file_uri"):
        yield ("uri_prefix",), f"and `delivery: {entry.delivery}` exclude each other: keep one"
    for index, text in enumerate(entry.file_path_argument):
        if wrong := _wrong_path(text):
            yield ("file_path_argument", index), wrong
    output, located = entry.output_path_argument, entry.output_locator
    if output is None and located.mode == "structured" and located.output_path_key is None:
        yield ("output_locator",), "needs the key `output_path_key` in the mode `structured`"
    if output is not None and (wrong := _wrong_path(output)):
        yield ("output_path_argument",), wrong
    if output is not None and "[" in output:
        yield ("output_path_argument",), "cannot have `[...]` in it: one call writes to one place"


def uploads(entry: Uploads) -> Findings:
    if entry.path == "/mcp" or f"{entry.path}/".startswith(_OURS):
        yield ("path",), "is an address of ours already: use another, such as `/upload`"


def locator(entry: Locator) -> Findings:
    if entry.output_path_key is not None and (wrong := _wrong_path(entry.output_path_key)):
        yield ("output_path_key",), wrong
    for index, text in enumerate(entry.output_path_regexes):
        try:
            re.compile(text)
        except re.error as error:
            yield ("output_path_regexes", index), f"is not a regular expression: {error}"


def _wrong_path(text: str) -> str | None:
    try:
        argument_paths.parse(text)
    except ValueError as error:
        return str(error)
    return None


def server(entry: Server) -> Findings:
    """What adapters mean for the rest of a server's entry."""
    mounted_at = entry.files.mounted_at
    if mounted_at is not None and (not mounted_at.startswith("/") or ".." in mounted_at.split("/")):
        yield ("files", "mounted_at"), "must be a path that begins with `/`, without `..`"
    if not any(_needs_paths(item) for item in entry.adapters):
        return
    sight, share = sight_of(entry), share_of(entry)
    if sight is Sight.NOTHING and entry.run_config is not None and entry.files.reachable is None:
        yield (
            ("adapters",),
            (
                "hand paths to a sandbox that serves all sessions, and so may see the files of none: run it "
                "over stdio, give `files.shared_directory` and name it in the profile's `write`, or use "
                "another `delivery`"
            ),
        )
    if sight in (Sight.MACHINE, Sight.VIEW) and share in ("global", "principal"):
        yield (
            ("share",),
            (
                f"cannot be `{share}` for a process with adapters: a process sees one set of files, so "
                "each session needs its own; use `client`, or give `files.shared_directory`"
            ),
        )


def _needs_paths(entry: Adapter) -> bool:
    if entry.type == "artifact_producer":
        return entry.output_path_argument is not None or entry.output_locator.mode in ("regex", "structured")
    return entry.delivery in ("auto", "path", "file_uri")


FILE_RULES: dict[type[Any], Any] = {Adapter: adapter, Locator: locator, Uploads: uploads}
