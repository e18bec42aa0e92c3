"""How much of a model's context a result may take, and how much it takes: bytes, tokens, pixels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from mooring.files.captured import decoded
from mooring.files.disk import in_thread
from mooring.files.locating import blocks
from mooring.files.pixels import BYTES_PER_TOKEN, image_tokens

Json = dict[str, Any]
HEAD_CHARACTERS: Final = 64 * 1024
"""The size of a picture stands within these first characters of its base64."""
FEW_LINKS_BYTES: Final = 1024


@dataclass(frozen=True, slots=True)
class Budget:
    """What a result may have; None: any number."""

    bytes: int | None = None
    tokens: int | None = None

    @property
    def is_set(self) -> bool:
        return self.bytes is not None or self.tokens is not None

    def may_be_exceeded(self, raw: bytes) -> bool:
        """Whether it is worth looking: no token is shorter than a byte, but a small picture may cost much."""
        least = min(limit for limit in (self.bytes, self.tokens) if limit is not None)
        return len(raw) > least or b'"image"' in raw

    def preview_bytes(self, most: int) -> int:
        """How much of the beginning may be shown: what stands for a result must not be as large as it."""
        halves = (self.bytes and self.bytes // 2, self.tokens)  # a token of anything has a byte or more
        return min(most, *(half for half in halves if half is not None))

    @property
    def link_bytes(self) -> int:
        """How much the links of a result may have that stay in it; those of a few files always do."""
        halves = (self.bytes, self.tokens and self.tokens * BYTES_PER_TOKEN // 2)
        return max(FEW_LINKS_BYTES, min(half for half in halves if half is not None))

    async def is_exceeded(self, result: Json) -> bool:
        if self.bytes is not None and cost(result) > self.bytes:
            return True
        return self.tokens is not None and await self._has_more_tokens(result, self.tokens)

    async def _has_more_tokens(self, result: Json, most: int) -> bool:
        """Pictures count by their pixels; texts are counted by a tokenizer, if they are long enough."""
        left = most - sum(_picture_tokens(block) for block in blocks(result))
        if left < 0:
            return True
        texts = "\n".join(_text(block) for block in blocks(result) if not _is_picture(block))
        structured = result.get("structuredContent")
        other = "" if structured is None else msgspec.json.encode(structured).decode()
        return await _exceeds(texts, left) or await _exceeds(other, most)


@dataclass(frozen=True, slots=True)
class ResultRules:
    """When a result is too big, and how it is then looked into."""

    budget: Budget = field(default_factory=Budget)
    by_tool: Mapping[str, Budget] = field(default_factory=dict[str, Budget])
    preview_bytes: int = 2048
    search_seconds: float = 5.0
    ttl_seconds: float = 3600.0
    tools: frozenset[str] = frozenset()
    """The only ones that `budget` is about; none: all."""

    @property
    def enabled(self) -> bool:
        return self.budget.is_set or any(budget.is_set for budget in self.by_tool.values())

    def of(self, tool: str) -> Budget:
        found = self.by_tool.get(tool)
        if found is not None:
            return found
        return self.budget if not self.tools or tool in self.tools else Budget()

    def concerns(self, tool: str) -> bool:
        return self.of(tool).is_set


def cost(result: Json) -> int:
    """How much of a context a result takes, in bytes of text; pictures count by their pixels."""
    total = 0
    for block in blocks(result):
        if _is_picture(block):
            total += _picture_tokens(block) * BYTES_PER_TOKEN
        else:
            total += len(msgspec.json.encode(block))
    structured = result.get("structuredContent")
    return max(total, 0 if structured is None else len(msgspec.json.encode(structured)))


def _is_picture(block: Json) -> bool:
    return block.get("type") == "image" and isinstance(block.get("data"), str)


def _picture_tokens(block: Json) -> int:
    if not _is_picture(block):
        return 0
    return image_tokens(decoded(block["data"][:HEAD_CHARACTERS]) or b"")


def _text(block: Json) -> str:
    if block.get("type") == "text" and isinstance(block.get("text"), str):
        return block["text"]
    return msgspec.json.encode(block).decode()


async def _exceeds(text: str, most: int) -> bool:
    if len(text.encode("utf-8", "replace")) <= most:
        return False
    # Loaded only where somebody counts: it carries its data with it.
    from mooring.prompt.counting import exceeds  # noqa: PLC0415

    return await in_thread(exceeds, text, most)
