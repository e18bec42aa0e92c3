"""What tools, resources and prompts can answer with: text, images, audio, resources, and links to them."""

from __future__ import annotations

import base64
import mimetypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias

Json: TypeAlias = dict[str, Any]
Role: TypeAlias = Literal["user", "assistant"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotations:
    """For whom a block is, how much it matters (0 to 1), and how fresh it is (ISO 8601)."""

    audience: tuple[Role, ...] = ()
    priority: float | None = None
    last_modified: str | None = None

    def encode(self) -> Json:
        return _without_nothing(
            audience=list(self.audience) or None, priority=self.priority, lastModified=self.last_modified
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Remarks:
    annotations: Annotations | None = None
    meta: Json | None = None

    def _remarks(self) -> Json:
        return _without_nothing(
            annotations=self.annotations.encode() if self.annotations else None, _meta=self.meta
        )


@dataclass(frozen=True, slots=True)
class Text(_Remarks):
    text: str

    def encode(self) -> Json:
        return {"type": "text", "text": self.text, **self._remarks()}


@dataclass(frozen=True, slots=True)
class Image(_Remarks):
    data: bytes
    mime_type: str = "image/png"

    @classmethod
    def from_file(cls, path: str | Path) -> Self:
        return cls(Path(path).read_bytes(), guess_type(path, "image/png"))

    def encode(self) -> Json:
        return {"type": "image", "data": _base64(self.data), "mimeType": self.mime_type, **self._remarks()}


@dataclass(frozen=True, slots=True)
class Audio(_Remarks):
    data: bytes
    mime_type: str = "audio/wav"

    @classmethod
    def from_file(cls, path: str | Path) -> Self:
        return cls(Path(path).read_bytes(), guess_type(path, "audio/wav"))

    def encode(self) -> Json:
        return {"type": "audio", "data": _base64(self.data), "mimeType": self.mime_type, **self._remarks()}


@dataclass(frozen=True, slots=True)
class Contents:
    """What is in a resource: text, or bytes."""

    uri: str
    data: str | bytes
    mime_type: str | None = None
    meta: Json | None = None

    def encode(self) -> Json:
        content = {"text": self.data} if isinstance(self.data, str) else {"blob": _base64(self.data)}
        return {"uri": self.uri, **_without_nothing(mimeType=self.mime_type), **content, **_meta(self.meta)}


@dataclass(frozen=True, slots=True)
class Embedded(_Remarks):
    """A resource, carried along with its contents."""

    contents: Contents

    def encode(self) -> Json:
        return {"type": "resource", "resource": self.contents.encode(), **self._remarks()}


@dataclass(frozen=True, slots=True)
class Link(_Remarks):
    """A resource that the client may fetch when it is wanted; costs a model next to nothing until then."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None

    def encode(self) -> Json:
        members = _without_nothing(
            title=self.title, description=self.description, mimeType=self.mime_type, size=self.size
        )
        return {"type": "resource_link", "uri": self.uri, "name": self.name, **members, **self._remarks()}


Block: TypeAlias = Text | Image | Audio | Embedded | Link
BLOCKS = (Text, Image, Audio, Embedded, Link)


@dataclass(frozen=True, slots=True)
class Result:
    """The whole answer of a tool, for when its value alone does not say it all."""

    content: Sequence[Block | str] = ()
    structured: Any = None
    is_error: bool = False
    meta: Json = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a prompt, or of a conversation for the client's model."""

    content: Block | str
    role: Role = "user"

    def encode(self) -> Json:
        return {"role": self.role, "content": encode_block(self.content)}


def encode_block(block: Block | str) -> Json:
    return {"type": "text", "text": block} if isinstance(block, str) else block.encode()


def guess_type(path: str | Path, otherwise: str) -> str:
    return mimetypes.guess_type(str(path))[0] or otherwise


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _meta(meta: Json | None) -> Json:
    return {"_meta": meta} if meta else {}


def _without_nothing(**members: Any) -> Json:
    return {name: value for name, value in members.items() if value is not None}
