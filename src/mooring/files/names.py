"""Names and types of files: what a stranger calls a file, made safe to use as one component of a path."""

from __future__ import annotations

import mimetypes
import re
import unicodedata
from functools import lru_cache
from typing import Final

MAX_NAME_BYTES: Final = 160
"""File systems allow 255; our own additions and a name in another encoding must fit beside it."""
SNIFF_BYTES: Final = 4096
OCTETS: Final = "application/octet-stream"

_FORBIDDEN: Final = re.compile(r'[\x00-\x1f\x7f/\\:*?"<>|]')
_EDGES: Final = re.compile(r"^[.\s]+|[.\s]+$")
_RESERVED: Final = re.compile(r"^(con|prn|aux|nul|com[0-9]|lpt[0-9])\s*(\.|$)", re.IGNORECASE)
_INVISIBLE: Final = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
_MAGIC: Final = (
    (b"%PDF-", "application/pdf"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"ID3", "audio/mpeg"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
    (b"SQLite format 3\0", "application/vnd.sqlite3"),
)
# A zip by its first bytes, and something more by its name.
_IN_ZIP: Final = {
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    ".odt": "application/vnd.oasis.opendocument.text",
    ".epub": "application/epub+zip",
    ".jar": "application/java-archive",
}
_EXTENSIONS: Final = {
    "image/jpeg": ".jpg",
    "text/plain": ".txt",
    "application/json": ".json",
    "audio/mpeg": ".mp3",
    "audio/wav": ".wav",
}


@lru_cache(maxsize=1024)
def safe_name(given: str, fallback: str = "file") -> str:
    """The last component of what somebody called a file; letters of every script stay as they are."""
    text = given.replace("\\", "/").rsplit("/", 1)[-1]
    text = "".join(sign for sign in text if unicodedata.category(sign) not in _INVISIBLE)
    text = unicodedata.normalize("NFC", text)
    text = _EDGES.sub("", _FORBIDDEN.sub("_", text))
    if not text:
        return fallback
    if _RESERVED.match(text):
        text = f"_{text}"
    return _shortened(text)


def _shortened(name: str) -> str:
    if len(name.encode()) <= MAX_NAME_BYTES:
        return name
    stem, dot, ending = name.rpartition(".")
    if not dot or len(ending.encode()) > 16:
        stem, ending = name, ""
    else:
        ending = f".{ending}"
    room = MAX_NAME_BYTES - len(ending.encode())
    return stem.encode()[:room].decode("utf-8", "ignore").rstrip().rstrip(".") + ending


def sniff(head: bytes, name: str) -> str:
    """The type of a file by its first bytes, then by its name, then by whether it reads as text."""
    ending = "." + name.rpartition(".")[2].lower() if "." in name else ""
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return _IN_ZIP.get(ending, kind) if kind == "application/zip" else kind
    if head[:4] == b"RIFF" and head[8:12] in (b"WEBP", b"WAVE"):
        return "image/webp" if head[8:12] == b"WEBP" else "audio/wav"
    if head[4:8] == b"ftyp":
        return "video/mp4"
    guessed = _guessed(ending)
    if guessed is not None and not guessed.startswith("image/"):
        return guessed
    if guessed == "image/svg+xml":
        return guessed
    return "text/plain" if _is_text(head) else OCTETS


@lru_cache(maxsize=1024)
def _guessed(ending: str) -> str | None:
    return mimetypes.guess_type(f"x{ending}", strict=False)[0] if ending else None


def _is_text(head: bytes) -> bool:
    if not head or b"\0" in head:
        return False
    try:
        head.decode()
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data" and error.start >= len(head) - 3
    return True


def with_extension(name: str, mime_type: str) -> str:
    """A name without an ending gets the one of its type."""
    if "." in name.strip("."):
        return name
    return name + (_EXTENSIONS.get(mime_type) or mimetypes.guess_extension(mime_type) or "")


def is_textual(mime_type: str) -> bool:
    """Whether bytes of this type are shown as text."""
    return (
        mime_type.startswith("text/")
        or mime_type in ("application/json", "application/xml", "application/yaml", "image/svg+xml")
        or mime_type.endswith(("+json", "+xml"))
    )
