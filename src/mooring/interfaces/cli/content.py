"""Prints what tools, resources and prompts answer; files are saved, never dumped on a terminal."""

from __future__ import annotations

import base64
import binascii
import json
import mimetypes
import re
from pathlib import Path
from typing import Any, TextIO

from mooring.interfaces.cli.failure import Failed, reason_of
from mooring.interfaces.cli.output import one_line, printable, size

Block = dict[str, Any]


class Printer:
    """Prints blocks of content; saves binary ones into the folder, if there is one."""

    def __init__(self, folder: Path | None, name: str) -> None:
        self._folder = folder
        self._name = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-") or "file"

    def result(self, result: Block, stream: TextIO) -> None:
        """A tool's result: its blocks, or its structured content where that says the same or more."""
        structured = result.get("structuredContent")
        blocks: list[Block] = result.get("content", [])
        for block in blocks:
            if structured is None or not _repeats(block, structured):
                self.block(block, stream)
        if structured is not None:
            print(_shown(json.dumps(structured, indent=2, ensure_ascii=False), stream), file=stream)

    def block(self, block: Block, stream: TextIO) -> None:
        """One content block."""
        match block.get("type"):
            case "text":
                print(_shown(str(block.get("text", "")), stream), file=stream)
            case "image" | "audio" as kind:
                self._binary(kind, block.get("data", ""), block.get("mimeType"), stream)
            case "resource":
                self.resource(block.get("resource") or {}, stream)
            case "resource_link":
                print(
                    f"{one_line(str(block.get('uri')))}  {one_line(str(block.get('name') or ''))}".rstrip(),
                    file=stream,
                )
            case _:
                print(_shown(json.dumps(block, ensure_ascii=False), stream), file=stream)

    def resource(self, contents: Block, stream: TextIO) -> None:
        """The contents of a resource."""
        if "text" in contents:
            print(_shown(str(contents["text"]), stream), file=stream)
        else:
            self._binary("file", contents.get("blob", ""), contents.get("mimeType"), stream)

    def _binary(self, kind: str, encoded: str, mime_type: str | None, stream: TextIO) -> None:
        try:
            data = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError) as error:
            raise Failed(f"the server sent {kind} data that is not base64: {error}") from error
        described = f"{kind} {one_line(mime_type or 'of unknown type')}, {size(len(data))}"
        if self._folder is None:
            print(f"[{described}: save it with --output DIR]", file=stream)
        else:
            print(f"[{described}: saved as {self._save(data, mime_type)}]", file=stream)

    def _save(self, data: bytes, mime_type: str | None) -> Path:
        """Under a name of our own: one that a server chose could point anywhere or replace something."""
        assert self._folder is not None
        ending = mimetypes.guess_extension(mime_type or "") or ".bin"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            for number in range(1, 100_000):
                path = self._folder / f"{self._name}-{number}{ending}"
                try:
                    with path.open("xb") as file:
                        file.write(data)
                except FileExistsError:
                    continue
                return path
        except OSError as error:
            raise Failed(f"cannot save into `{self._folder}`: {reason_of(error)}") from error
        raise Failed(f"`{self._folder}` is full of files called {self._name}: give another one with --output")


def _shown(text: str, stream: TextIO) -> str:
    """Into a file or a pipe the bytes go as they are."""
    return printable(text) if stream.isatty() else text


def _repeats(block: Block, structured: Any) -> bool:
    """Servers send structured content a second time as JSON text, for older clients."""
    if block.get("type") != "text":
        return False
    try:
        return json.loads(str(block.get("text"))) == structured
    except ValueError:
        return False
