"""What a tool makes becomes an artifact, and its result says so in three ways."""

from __future__ import annotations

import base64
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from mooring.files.adapters import LocatorMode, Producer
from mooring.files.captured import Capturer, OnDisk, Owner, Source
from mooring.files.confinement import NotCapturable, files_below
from mooring.files.consuming import Arguments
from mooring.files.disk import in_thread
from mooring.files.faults import FileFault
from mooring.files.links import Links
from mooring.files.locating import blocks, embedded, named_paths, plain_path, replaced
from mooring.files.names import is_textual, safe_name
from mooring.files.quick import QuickKeeper
from mooring.files.records import FileRecord
from mooring.files.store import FileStore
from mooring.files.views import Views, file_uri
from mooring.gateway.exchange import Client
from mooring.protocol.versions import V2025_06_18

log = logging.getLogger(__name__)
Json = dict[str, Any]
MAX_RAW_BYTES: Final = 8 * 1024**2
"""Larger bytes are not repeated in a result, whatever the adapter says: they can be read or downloaded."""


@dataclass(slots=True)
class Output:
    """Where the tools of one call may write."""

    folder: Path
    injected: Path | None
    reach: Path
    """The folder that a result may name files of."""
    view: str
    is_tidied: bool = False


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
        self._quick = QuickKeeper(store)

    async def prepare(
        self, arguments: Arguments, producers: tuple[Producer, ...], view: str, *, alone: bool
    ) -> Output:
        """Make a folder for the call, and tell the tool to write there if it can be told.

        `alone`: the workload works for this scope only, so that a result may name any file of its view.
        """
        folder = await self._views.fresh_output(view)
        injected: Path | None = None
        for producer in producers:
            if producer.output_argument is not None:
                path = producer.output_argument
                arguments.read(path.top)
                given = next((place.value for place in path.places(arguments.values)), None)
                injected = folder / safe_name(given if isinstance(given, str) else "", "artifact")
                path.put(arguments.values, self._views.shown(injected))
        return Output(folder, injected, self._views.folder(view) if alone else folder, view)

    async def finish(
        self, result: Json, producer: Producer, output: Output, scope: str, client: Client
    ) -> list[FileRecord]:
        """Capture what was made and say so in the result."""
        try:
            sources, made = await self._captured(result, producer, output, scope)
            if not sources:
                return []
        except (FileFault, NotCapturable) as error:
            log.info("%s: an artifact was not captured: %s", self._server, error)
            _append(result, {"type": "text", "text": f"What the tool made was not kept: {error}"})
            return []
        if producer.raw_output:
            for record in made:
                await self._add_raw(result, record)
        if not producer.persist:
            for record in made:
                await self._store.remove(record.id, "not kept")
            return []
        self._replace_paths(result, producer, sources, made)
        self._name(result, producer, made, client)
        return made

    async def _captured(
        self, result: Json, producer: Producer, output: Output, scope: str
    ) -> tuple[list[Source], list[FileRecord]]:
        """What was made, and what became of it."""
        exposed = self._is_exposed(producer)
        kept = await self._quick.keep(
            output.folder,
            scope,
            self._server,
            exposed=exposed,
            tidy=lambda names: self._views.tidy(output.view, output.folder, names),
        )
        if kept is not None and kept.made:
            output.is_tidied = True
            return [OnDisk(output.folder, output.folder / name) for name in kept.names], kept.made
        sources = await self._sources(result, producer, output)
        if not sources:
            return [], []
        return sources, await self._capturer.capture(sources, Owner(scope, self._server), exposed=exposed)

    def _is_exposed(self, producer: Producer) -> bool:
        return producer.expose and self._rules.expose_as_resources

    async def _sources(self, result: Json, producer: Producer, output: Output) -> list[Source]:
        """What was written where we said comes first; a locator is asked only if nothing was."""
        written = await in_thread(lambda: list(files_below(output.folder)))
        if written:
            return [OnDisk(output.folder, path) for path in written]
        if producer.locator.mode is LocatorMode.EMBEDDED:
            return list(embedded(result))
        found: list[Source] = []
        for text in named_paths(result, producer.locator):
            path = self._views.on_our_side(text, output.view)
            if path is None or ".." in path.parts:
                continue
            source = OnDisk(output.reach, path)
            if path.is_relative_to(output.reach) and source not in found and await in_thread(path.is_file):
                found.append(source)
        return found

    def _replace_paths(
        self, result: Json, producer: Producer, sources: list[Source], made: list[FileRecord]
    ) -> None:
        """The path was ours or our workload's business; what a client can use is the URI."""
        names = {
            self._views.shown(source.path): record.uri
            for source, record in zip(sources, made, strict=True)
            if isinstance(source, OnDisk)
        }
        for shown, uri in names.items():
            for block in blocks(result):
                if block.get("type") == "text" and isinstance(block.get("text"), str):
                    for written in (f"file://{shown}", file_uri(shown), shown):
                        block["text"] = replaced(block["text"], written, uri)
        structured, key = result.get("structuredContent"), producer.locator.key
        if key is not None and isinstance(structured, dict):
            for place in key.places(cast("Json", structured)):
                value = place.value
                if isinstance(value, str) and (uri := names.get(plain_path(value))) is not None:
                    place.put(uri)

    def _name(self, result: Json, producer: Producer, made: list[FileRecord], client: Client) -> None:
        described = [self._described(record, producer, client.principal) for record in made]
        meta = dict(cast("Json", result.get("_meta") or {}))
        meta["artifact"] = described[0]
        if len(described) > 1:
            meta["artifacts"] = described
        result["_meta"] = meta
        for record, about in zip(made, described, strict=True):
            if self._is_exposed(producer):
                _append(result, _link(record, client.version))
            if "download_url" in about:
                _append(result, {"type": "text", "text": f"Download {record.name}: {about['download_url']}"})

    def _described(self, record: FileRecord, producer: Producer, principal: str) -> Json:
        about: Json = {
            "artifact_uri": record.uri,
            "artifact_id": record.id,
            "filename": record.name,
            "mime_type": record.mime_type,
            "size_bytes": record.size,
            "sha256": record.sha256,
            "expose_as_resource": self._is_exposed(producer),
        }
        if self._rules.downloads:
            about["download_url"] = self._links.download_url(record, record.expires, principal)
        return about

    async def _add_raw(self, result: Json, record: FileRecord) -> None:
        if record.size > MAX_RAW_BYTES:
            note = f"{record.name} has {record.size} bytes, too many to show here; read it by its URI"
            _append(result, {"type": "text", "text": note})
            return
        data = await self._store.read_all(record)
        kind = record.mime_type.partition("/")[0]
        if kind in ("image", "audio") and record.mime_type != "image/svg+xml":
            encoded = base64.b64encode(data).decode()
            _append(result, {"type": kind, "data": encoded, "mimeType": record.mime_type})
        else:
            _append(result, {"type": "resource", "resource": contents(record, data)})


def contents(record: FileRecord, data: bytes) -> Json:
    """The contents of a resource: text where it is text, else base64."""
    about: Json = {"uri": record.uri, "mimeType": record.mime_type}
    if is_textual(record.mime_type):
        try:
            return {**about, "text": data.decode()}
        except UnicodeDecodeError:
            pass
    return {**about, "blob": base64.b64encode(data).decode()}


def _link(record: FileRecord, version: str) -> Json:
    if version < V2025_06_18:
        return {"type": "text", "text": f"[{record.name}]({record.uri})"}
    return {
        "type": "resource_link",
        "uri": record.uri,
        "name": record.name,
        "mimeType": record.mime_type,
        "size": record.size,
    }


def _append(result: Json, block: Json) -> None:
    content = result.get("content")
    result["content"] = [*(cast("list[Any]", content) if isinstance(content, list) else []), block]
