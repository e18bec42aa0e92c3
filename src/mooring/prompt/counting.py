"""Counting tokens with a real tokenizer: of a block, of each tool in it, and of each field of a tool."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import Any, Final

from mooring.prompt.layouts import FRAME, Layout, Piece
from mooring.prompt.schemas import Json

ENCODING: Final = "o200k_base"
TURNS: Final = 10
_MOST_CHARACTERS: Final = 500_000
"""The tokenizer refuses a million at once."""
_COUNTED_CHARACTERS: Final = 16_384
"""Large enough that where a text is cut hardly matters, small enough to stop soon."""


def count_tool(layout: Layout, tool: Json) -> Counter[str]:
    """The tokens of one tool by field. A token belongs to the field that its first byte is there for."""
    return _count(list(layout.tool(tool)))


def count_frame(layout: Layout) -> int:
    """The tokens around the tools."""
    return _count([(FRAME, layout.begin)]).total() + _count([(FRAME, layout.end)]).total()


def count_block(layout: Layout, tools: Iterable[Json]) -> int:
    """The tokens of the whole block, as on every turn."""
    return count_frame(layout) + sum(count_tool(layout, tool).total() for tool in tools)


def exceeds(text: str, most: int) -> bool:
    """Whether a text has more tokens than this; no more of it is counted than that takes."""
    count = 0
    for start in range(0, len(text), _COUNTED_CHARACTERS):
        part = _bytes(text[start : start + _COUNTED_CHARACTERS]).decode()
        count += len(encoding().encode_ordinary(part))
        if count > most:
            return True
    return False


def _count(pieces: list[Piece]) -> Counter[str]:
    found: Counter[str] = Counter()
    ends: list[tuple[int, str]] = []
    size = 0
    for field, text in pieces:
        size += len(_bytes(text))
        ends.append((size, field))
    position = index = 0
    for length in _token_lengths("".join(text for _, text in pieces)):
        while index < len(ends) - 1 and position >= ends[index][0]:
            index += 1
        found[ends[index][1]] += 1
        position += length
    return found


def _token_lengths(text: str) -> Iterable[int]:
    text = _bytes(text).decode()
    for start in range(0, len(text), _MOST_CHARACTERS):
        tokens: list[int] = encoding().encode_ordinary(text[start : start + _MOST_CHARACTERS])
        yield from (len(encoding().decode_single_token_bytes(token)) for token in tokens)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")


@cache
def encoding() -> Any:
    """The tokenizer, with its data. Loading it is a second of work that only counting needs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # its way of opening its own data, on 3.11
        import bpe_openai  # noqa: PLC0415  # pyright: ignore[reportMissingTypeStubs]

        return bpe_openai.get_encoding(ENCODING)
