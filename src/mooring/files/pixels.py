"""How large a picture is for a model: by its pixels, which stand in its first bytes."""

from __future__ import annotations

import struct
from typing import Final

PIXELS_PER_TOKEN: Final = 750
BYTES_PER_TOKEN: Final = 4
UNKNOWN_TOKENS: Final = 1600
"""What models charge for a picture at most; also for one whose size we cannot read."""


def image_tokens(data: bytes) -> int:
    found = dimensions(data)
    if found is None:
        return UNKNOWN_TOKENS
    return min(UNKNOWN_TOKENS, max(1, found[0] * found[1] // PIXELS_PER_TOKEN))


def dimensions(data: bytes) -> tuple[int, int] | None:
    """Width and height of a PNG, GIF, JPEG or WebP picture."""
    if data[:8] == b"\x89PNG\r\n\x1a\n" and len(data) >= 24:
        width, height = struct.unpack(">II", data[16:24])
        return width, height
    if data[:3] == b"GIF" and len(data) >= 10:
        width, height = struct.unpack("<HH", data[6:10])
        return width, height
    if data[:2] == b"\xff\xd8":
        return _jpeg(data)
    if data[:4] == b"RIFF" and data[8:16] == b"WEBPVP8X" and len(data) >= 30:
        return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    return None


def _jpeg(data: bytes) -> tuple[int, int] | None:
    position = 2
    while position + 9 < len(data) and data[position] == 0xFF:
        marker = data[position + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[position + 5 : position + 9])
            return width, height
        position += 2 + int.from_bytes(data[position + 2 : position + 4], "big")
    return None
