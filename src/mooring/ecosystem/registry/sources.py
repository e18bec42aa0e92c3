"""The registries a user has: the built-in catalogue, and those that were added."""

from __future__ import annotations

import importlib.resources
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from mooring.durable import locked, private_folder, replace_file
from mooring.ecosystem.registry.api import RegistryApi, check_url, fetch
from mooring.ecosystem.registry.entry import Catalogue, Entry, NoSuchEntry, RegistryError
from mooring.ecosystem.registry.reading import read_catalogue

BUILT_IN = "built-in"
SourceKind = Literal["built-in", "file", "url", "api"]
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


class AmbiguousName(RegistryError):
    """Several servers are called so."""


class Source(Struct, frozen=True, omit_defaults=True):
    """One registry."""

    name: str
    kind: SourceKind
    location: str = ""
    token_secret: str = ""
    """The secret that is sent as a bearer token."""
    header_secrets: dict[str, str] = {}
    """Header -> secret."""


class Sources(Struct, frozen=True):
    """The file."""

    version: int = 1
    registries: list[Source] = []


@dataclass(frozen=True, slots=True)
class Registries:
    """All registries of one user."""

    folder: Path
    secret: Callable[[str], str]
    """Opens the secret store and answers a secret's value."""

    def sources(self) -> list[Source]:
        """In the order they are asked; the built-in catalogue last."""
        return [*self._read(), Source(BUILT_IN, "built-in")]

    def add(self, source: Source) -> int:
        """Add a registry after reading it once; the answer is how many servers it showed."""
        if not _NAME.fullmatch(source.name) or source.name == BUILT_IN:
            raise RegistryError(f"`{source.name}` is no name for a registry: use `a-z`, `0-9`, `.`, `_`, `-`")
        if source.kind in ("url", "api"):
            check_url(source.location)
        count = len(self._live(source, "", 100).entries)
        with locked(self._lock()):
            others = [each for each in self._read() if each.name != source.name]
            self._write([*others, source])
        return count

    def remove(self, name: str) -> None:
        with locked(self._lock()):
            known = self._read()
            if name not in {each.name for each in known}:
                raise RegistryError(
                    f"no registry `{name}` was added: `mooring registry list --sources` shows them"
                )
            self._write([each for each in known if each.name != name])
        self._copy(name).unlink(missing_ok=True)

    def refresh(self, name: str | None) -> dict[str, int]:
        """Read registries anew and keep a copy; the answer is how many servers each has."""
        counts: dict[str, int] = {}
        for source in self._chosen(name):
            if source.kind == "api":
                servers = self._api(source).everything()
                self._keep(source, msgspec.json.encode({"servers": servers}))
                counts[source.name] = len(servers)
            elif source.kind == "url":
                data = fetch(source.location, self._headers(source))
                counts[source.name] = len(read_catalogue(data, source.location).entries)
                self._keep(source, data)
            else:
                counts[source.name] = len(self._live(source, "", 0).entries)
        return counts

    def search(self, text: str, limit: int, name: str | None = None) -> tuple[list[Entry], list[str], bool]:
        """Servers that fit the text, what went wrong on the way, and whether there are more."""
        found: list[Entry] = []
        problems: list[str] = []
        more = False
        for source in self._chosen(name):
            try:
                catalogue = self._catalogue(source, text, limit, problems)
            except RegistryError as error:
                problems.append(f"{source.name}: {error}")
                continue
            problems += [f"{source.name}: {each}" for each in catalogue.problems]
            more = more or catalogue.more
            found += [msgspec.structs.replace(entry, registry=source.name) for entry in catalogue.entries]
        fitting = _ranked(found, text)
        return fitting[:limit], problems, more or len(fitting) > limit

    def entry(self, name: str, version: str | None = None, registry: str | None = None) -> Entry:
        """The server of this name (its last part will do, if only one has it)."""
        problems: list[str] = []
        for source in self._chosen(registry):
            try:
                found = self._one(source, name, version, problems)
            except AmbiguousName:
                raise
            except RegistryError as error:
                problems.append(f"{source.name}: {error}")
                continue
            if found is not None:
                return msgspec.structs.replace(found, registry=source.name)
        reasons = f" ({'; '.join(problems)})" if problems else ""
        raise NoSuchEntry(f"no registry has a server `{name}`{reasons}: look for it with `mooring search`")

    def versions(self, entry: Entry) -> list[str]:
        """The versions its registry has; one that keeps only the latest has one."""
        source = next(each for each in self.sources() if each.name == entry.registry)
        if source.kind != "api":
            return [entry.version] if entry.version else []
        return [each.version for each in self._api(source).versions(entry.name)]

    def _one(self, source: Source, name: str, version: str | None, problems: list[str]) -> Entry | None:
        if source.kind == "api" and "/" in name:
            try:
                return self._api(source).entry(name, version or "latest")
            except RegistryError as error:
                problems.append(f"{source.name}: {error}")
                return None
        catalogue = self._catalogue(source, name.rpartition("/")[2], 100, problems)
        named = [entry for entry in catalogue.entries if entry.name == name]
        if not named:
            named = [entry for entry in catalogue.entries if entry.short_name == name]
        if len({entry.name for entry in named}) > 1:
            listed = ", ".join(f"`{entry.name}`" for entry in named[:5])
            raise AmbiguousName(f"several servers are called `{name}`: say which of {listed}")
        if version is not None:
            if named and source.kind == "api":
                return self._api(source).entry(named[0].name, version)
            named = [entry for entry in named if entry.version == version]
        return named[0] if named else None

    def _catalogue(self, source: Source, text: str, limit: int, problems: list[str]) -> Catalogue:
        """As it is now; if it cannot be reached, as the last copy has it."""
        try:
            return self._live(source, text, limit)
        except RegistryError as error:
            copy = self._copy(source.name)
            if source.kind not in ("url", "api") or not copy.exists():
                raise
            problems.append(f"{source.name}: {error}; this is from the last `mooring registry refresh`")
            return read_catalogue(copy.read_bytes(), str(copy))

    def _live(self, source: Source, text: str, limit: int) -> Catalogue:
        if source.kind == "api":
            return self._api(source).search(text, limit)
        if source.kind == "url":
            data = fetch(source.location, self._headers(source))
        elif source.kind == "file":
            data = _file_bytes(source.location)
        else:
            data = (
                importlib.resources.files("mooring.ecosystem.registry")
                .joinpath("catalogue.json")
                .read_bytes()
            )
        return read_catalogue(data, source.location or source.name)

    def _api(self, source: Source) -> RegistryApi:
        return RegistryApi(source.location, self._headers(source))

    def _headers(self, source: Source) -> dict[str, str]:
        headers = {header: self.secret(name) for header, name in source.header_secrets.items()}
        if source.token_secret:
            headers["Authorization"] = f"Bearer {self.secret(source.token_secret)}"
        return headers

    def _chosen(self, name: str | None) -> Iterable[Source]:
        found = [source for source in self.sources() if name in (None, source.name)]
        if not found:
            raise RegistryError(
                f"no registry is called `{name}`: `mooring registry list --sources` shows them"
            )
        return found

    @property
    def _file(self) -> Path:
        return self.folder / "registries.json"

    def _lock(self) -> Path:
        return private_folder(self.folder) / "registries.lock"

    def _copy(self, name: str) -> Path:
        return self.folder / "registry-copies" / f"{name}.json"

    def _keep(self, source: Source, data: bytes) -> None:
        private_folder(self._copy(source.name).parent)
        replace_file(self._copy(source.name), data)

    def _read(self) -> list[Source]:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=Sources).registries
        except FileNotFoundError:
            return []
        except msgspec.DecodeError as error:
            raise RegistryError(f"`{self._file}` makes no sense: move it away, then try again") from error

    def _write(self, sources: list[Source]) -> None:
        replace_file(self._file, msgspec.json.encode(Sources(registries=sources)) + b"\n")


def _ranked(entries: list[Entry], text: str) -> list[Entry]:
    """Those that hold every word, names before descriptions; a name that several registries have once."""
    words = text.lower().split()
    ranked: list[tuple[int, int, Entry]] = []
    seen: set[str] = set()
    for index, entry in enumerate(entries):
        ranks = [_rank(entry, word) for word in words]
        if entry.name in seen or None in ranks:
            continue
        seen.add(entry.name)
        ranked.append((max((rank or 0 for rank in ranks), default=0), index, entry))
    return [entry for _, _, entry in sorted(ranked, key=lambda each: each[:2])]


def _rank(entry: Entry, word: str) -> int | None:
    """Where a word is found; lower is closer to what somebody looks for."""
    owner, _, name = entry.name.lower().rpartition("/")
    if word in re.split(r"[^a-z0-9]+", name):
        return 0
    where = (
        name,
        " ".join((entry.title, *entry.tags, *entry.tools)).lower(),
        entry.description.lower(),
        # The host says nothing: whoever looks for `git` does not want all that lies at GitHub.
        owner.removeprefix("io.github."),
        entry.name.lower() if "/" in word else "",
    )
    return next((rank for rank, each in enumerate(where, 1) if word in each), None)


def _file_bytes(location: str) -> bytes:
    try:
        return Path(location).read_bytes()
    except OSError as error:
        raise RegistryError(
            f"cannot read `{location}`: {(error.strerror or 'unreadable').lower()}"
        ) from error
