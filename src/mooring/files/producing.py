"""What a tool makes becomes an artifact, and its result says so in three ways."""

from __future__ import annotations

import base64
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mooring.files.adapters import LocatorMode, Producer
from mooring.files.captured import Capturer, OnDisk, Owner, Source
from mooring.files.confinement import MAX_FOUND, NotCapturable, files_below
from mooring.files.consuming import Arguments
from mooring.files.disk import in_thread
from mooring.files.faults import FileFault
from mooring.files.links import Links
from mooring.files.locating import embedded, named_paths
from mooring.files.names import is_textual, safe_name
from mooring.files.quick import QuickKeeper
from mooring.files.records import FileRecord
from mooring.files.store import FileStore
from mooring.files.tool_results import ToolResult
from mooring.files.views import Views
from mooring.gateway.exchange import Client
from mooring.protocol.versions import V2025_06_18

log = logging.getLogger(__name__)
Json = dict[str, Any]
MAX_RAW_BYTES: Final = 8 * 1024**2
"""Larger bytes are not repeated in a result, whatever the adapter says: they can be read or downloaded."""


@dataclass(slots=True)
class Output:
    """Where the tools of one call may write."""

    folder: str
    shown: str
    """The folder as the workload sees it."""
    view: str
    alone: bool
    """A result may name any file of the view, not only of this folder."""
    injected: dict[str, str]
    """Path that a tool was given -> the name in it, which is all that the client said."""
    is_tidied: bool = False


@dataclass(slots=True)
class Made:
    """Artifacts, and where the workload saw each of them; nothing if its bytes stood in the result."""

    records: list[FileRecord]
    shown: list[str | None]


@dataclass(frozen=True, slots=True)
class ProducerRules:
    """What holds for all artifacts of a server."""

    expose_as_resources: bool = True
    downloads: bool = False
    ttl_seconds: float = 3600.0


class ArtifactMaker:
    """Prepares calls of tools that make files, and takes what they made."""

    def __init__(
        self, store: FileStore, views: Views, links: Links, server_id: str, rules: ProducerRules
    ) -> None:
        self._store = store
        self._views = views
        self._links = links
        self._server = server_id
        self._rules = rules
        self._capturer = Capturer(store)
        self._quick = QuickKeeper(store, views)

    async def prepare(
        self, arguments: Arguments, producers: tuple[Producer, ...], view: str, *, alone: bool
    ) -> Output:
        """Make a folder for the call, and tell the tool to write there if it can be told.

        `alone`: the workload works for this scope only, so that a result may name any file of its view.
        """
        folder = await self._views.fresh_output(view)
        shown = self._views.shown(folder)
        injected: dict[str, str] = {}
        for producer in producers:
            path = producer.output_argument
            if path is not None:
                arguments.read(path.top)
                given = next((place.value for place in path.places(arguments.values)), None)
                name = safe_name(given if isinstance(given, str) else "", "artifact")
                target = f"{shown}/{name}"
                injected[target] = name
                path.put(arguments.values, target)
        return Output(folder, shown, view, alone, injected)

    async def finish(
        self, result: ToolResult, producer: Producer, output: Output, scope: str, client: Client
    ) -> list[FileRecord]:
        """Capture what was made and say so in the result."""
        try:
            made = await self._captured(result, producer, output, scope)
        except (FileFault, NotCapturable) as error:
            log.info("%s: an artifact was not captured: %s", self._server, error)
            result.append({"type": "text", "text": f"What the tool made was not kept: {error}"})
            return []
        if made is None:
            return []
        if producer.raw_output:
            for record in made.records:
                await self._add_raw(result, record)
        if not producer.persist:
            for record in made.records:
                await self._store.remove(record.id, "not kept")
            return []
        uris = [record.uri for record in made.records]
        _replace(result, producer, output, dict(zip(made.shown, uris, strict=True)))
        self._name(result, producer, made.records, uris, client)
        return made.records

    def hide_paths(self, result: ToolResult, output: Output) -> None:
        """Nothing was kept, so there is no URI: of the path that we gave the client knows only the name."""
        if output.injected:
            result.replace_paths(output.injected, output.folder.rpartition("/")[2])

    async def _captured(
        self, result: ToolResult, producer: Producer, output: Output, scope: str
    ) -> Made | None:
        """What was made, and what became of it."""
        exposed = self._is_exposed(producer)
        kept = await self._quick.keep(output.folder, output.view, scope, self._server, exposed=exposed)
        if kept is not None:
            output.is_tidied = True
            names, records = kept
            return _in_order(Made(records, [f"{output.shown}/{name}" for name in names]), output)
        sources = await self._sources(result, producer, output)
        if not sources:
            return None
        shown = [self._views.shown(each.path) if isinstance(each, OnDisk) else None for each in sources]
        return Made(await self._capturer.capture(sources, Owner(scope, self._server), exposed=exposed), shown)

    def _is_exposed(self, producer: Producer) -> bool:
        return producer.expose and self._rules.expose_as_resources

    async def _sources(self, result: ToolResult, producer: Producer, output: Output) -> list[Source]:
        """What was written where we said comes first; a locator is asked only if nothing was."""
        folder = Path(output.folder)
        written = await in_thread(_written, folder, [folder / name for name in output.injected.values()])
        if written:
            if len(written) > MAX_FOUND:
                note = f"Only the first {MAX_FOUND} files were kept: one call may make no more"
                result.append({"type": "text", "text": note})
            return [OnDisk(folder, path) for path in written[:MAX_FOUND]]
        if producer.locator.mode is LocatorMode.EMBEDDED:
            return list(embedded(result.decoded))
        found: list[Source] = []
        reach = self._views.folder(output.view) if output.alone else folder
        for text in await named_paths(result.decoded, producer.locator):
            path = self._views.on_our_side(text, output.view)
            if path is None or ".." in path.parts:
                continue
            source = OnDisk(reach, path)
            if path.is_relative_to(reach) and source not in found and await in_thread(path.is_file):
                found.append(source)
        return found

    def _name(
        self,
        result: ToolResult,
        producer: Producer,
        made: list[FileRecord],
        uris: list[str],
        client: Client,
    ) -> None:
        is_exposed = self._is_exposed(producer)
        described: list[Json] = []
        for record, uri in zip(made, uris, strict=True):
            about: Json = {
                "artifact_uri": uri,
                "artifact_id": record.id,
                "filename": record.name,
                "mime_type": record.mime_type,
                "size_bytes": record.size,
                "sha256": record.sha256,
                "expose_as_resource": is_exposed,
            }
            described.append(about)
            if is_exposed:
                result.append(_link(record, uri, client.version))
            if self._rules.downloads:
                url = about["download_url"] = self._links.download_url(
                    record, record.expires, client.principal
                )
                result.append({"type": "text", "text": f"Download {record.name}: {url}"})
        if len(described) > 1:
            result.add_meta(artifact=described[0], artifacts=described)
        else:
            result.add_meta(artifact=described[0])

    async def _add_raw(self, result: ToolResult, record: FileRecord) -> None:
        if record.size > MAX_RAW_BYTES:
            note = f"{record.name} has {record.size} bytes, too many to show here; read it by its URI"
            result.append({"type": "text", "text": note})
            return
        data = await self._store.read_all(record)
        kind = record.mime_type.partition("/")[0]
        if kind in ("image", "audio") and record.mime_type != "image/svg+xml":
            encoded = base64.b64encode(data).decode()
            result.append({"type": kind, "data": encoded, "mimeType": record.mime_type})
        else:
            result.append({"type": "resource", "resource": contents(record, data)})


def _replace(result: ToolResult, producer: Producer, output: Output, by_path: dict[str | None, str]) -> None:
    """The path was ours or our workload's business; what a client can use is the URI."""
    uris = output.injected | {shown: uri for shown, uri in by_path.items() if shown is not None}
    if uris:
        result.replace_paths(uris, output.folder.rpartition("/")[2] if output.is_tidied else "")
        if producer.locator.key is not None:
            result.replace_structured(uris, producer.locator.key)


def _written(folder: Path, asked: list[Path]) -> list[Path]:
    """The files that are there; what was asked for is not the one too many."""
    first = [path for path in asked if path.is_file() and not path.is_symlink()]
    return [*first, *(path for path in files_below(folder) if path not in first)]


def _in_order(made: Made, output: Output) -> Made:
    """What was asked for comes first: many hosts look at one artifact only."""
    if len(made.records) > 1 and output.injected and made.shown[0] not in output.injected:
        order = sorted(range(len(made.shown)), key=lambda index: made.shown[index] not in output.injected)
        return Made([made.records[index] for index in order], [made.shown[index] for index in order])
    return made


def contents(record: FileRecord, data: bytes) -> Json:
    """The contents of a resource: text where it is text, else base64."""
    about: Json = {"uri": record.uri, "mimeType": record.mime_type}
    if is_textual(record.mime_type):
        try:
            return {**about, "text": data.decode()}
        except UnicodeDecodeError:
            pass
    return {**about, "blob": base64.b64encode(data).decode()}


def _link(record: FileRecord, uri: str, version: str) -> Json:
    if version < V2025_06_18:
        return {"type": "text", "text": f"[{record.name}]({uri})"}
    return {
        "type": "resource_link",
        "uri": uri,
        "name": record.name,
        "mimeType": record.mime_type,
        "size": record.size,
    }
