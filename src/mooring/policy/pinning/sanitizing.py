"""Texts of tools that are not what they seem: invisible characters, look-alikes, novels."""

from __future__ import annotations

import logging
import unicodedata
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from msgspec import Raw

from mooring.gateway.exchange import Exchange, Handler
from mooring.policy.items import Item, read_listing
from mooring.policy.pinning.look_alikes import invisible, latinised, mixed_words, visible
from mooring.transports.wire import Answer

log = logging.getLogger(__name__)

REMEMBERED: Final = 10_000
_TEXTS: Final = ("title", "description")
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Sanitizer:
    """What counts as suspicious, and what is done about it."""

    mode: Literal["report", "strip", "block"] = "report"
    max_title_chars: int = 256
    max_description_chars: int = 8_000
    max_schema_text_chars: int = 2_000
    normalizes: bool = True
    removes_invisible: bool = True

    def findings(self, definition: Json) -> list[str]:
        """What is suspicious about a definition, in words."""
        found: list[str] = []
        name = str(definition.get("name", ""))
        if not name.isascii():
            found.append("its name has letters that look like others")
        for place, text, limit in self._texts(definition):
            hidden = invisible(text) if self.removes_invisible else []
            if hidden:
                codes = ", ".join(f"U+{ord(c):04X}" for c in dict.fromkeys(hidden[:5]))
                found.append(f"{place} has {len(hidden)} invisible characters ({codes})")
            mixed = mixed_words(text) if self.normalizes and text != name else []
            if mixed:
                found.append(f"{place} has letters that look like others (in {mixed[0]!a})")
            if len(text) > limit:
                found.append(f"{place} has {len(text)} characters, more than {limit}")
        return found

    def _texts(self, definition: Json) -> Iterator[tuple[str, str, int]]:
        yield "the name", str(definition.get("name", "")), 10**9
        for key, limit in (("title", self.max_title_chars), ("description", self.max_description_chars)):
            if isinstance(definition.get(key), str):
                yield f"the {key}", definition[key], limit
        hints = definition.get("annotations")
        if isinstance(hints, dict) and isinstance(title := cast("Json", hints).get("title"), str):
            yield "the hint `title`", title, self.max_title_chars
        for schema in ("inputSchema", "outputSchema"):
            for text in _schema_texts(definition.get(schema)):
                yield f"the {schema}", text, self.max_schema_text_chars

    def cleaned(self, definition: Json) -> Json:
        """The definition without what cannot be seen, normalised, and cut to length. Names stay: they are
        what is called."""
        limits = {"title": self.max_title_chars, "description": self.max_description_chars}
        clean = dict(definition)
        for key, limit in limits.items():
            if isinstance(clean.get(key), str):
                clean[key] = self._clean(clean[key], limit)
        hints = clean.get("annotations")
        if isinstance(hints, dict) and isinstance(title := cast("Json", hints).get("title"), str):
            clean["annotations"] = {**cast("Json", hints), "title": self._clean(title, self.max_title_chars)}
        for schema in ("inputSchema", "outputSchema"):
            if schema in clean:
                clean[schema] = self._clean_schema(clean[schema])
        return clean

    def _clean(self, text: str, limit: int) -> str:
        if self.removes_invisible:
            text = visible(text)
        return (latinised(unicodedata.normalize("NFKC", text)) if self.normalizes else text)[:limit]

    def _clean_schema(self, node: Any) -> Any:
        if isinstance(node, dict):
            return {
                key: self._clean(value, self.max_schema_text_chars)
                if key in _TEXTS and isinstance(value, str)
                else self._clean_schema(value)
                for key, value in cast("Json", node).items()
            }
        if isinstance(node, list):
            return [self._clean_schema(item) for item in cast("list[Any]", node)]
        return node


class Sanitizing:
    """The sanitizer, applied to one server's lists: below everything that adds words of ours to them.

    In the mode `block` a tool that is not shown is on no list, and so cannot be called either.
    """

    def __init__(self, sanitizer: Sanitizer, server_id: str) -> None:
        self._sanitizer = sanitizer
        self._server_id = server_id
        self._judged: dict[bytes, Raw | None] = {}

    def __call__(self, exchange: Exchange, handler: Handler) -> Awaitable[Answer | None]:
        return self._clean(exchange, handler) if exchange.method == "tools/list" else handler(exchange)

    async def _clean(self, exchange: Exchange, handler: Handler) -> Answer | None:
        exchange.relayable = False
        answer = await handler(exchange)
        listing = read_listing(exchange, answer) if answer is not None else None
        if answer is None or listing is None:
            return answer
        before = [item.raw for item in listing.items]
        listing.items = [item for item in listing.items if self._judge(item)]
        if [item.raw for item in listing.items] == before:
            return answer  # as it came, byte by byte
        return Answer(version=answer.version, result=listing.encode(), status=answer.status)

    def _judge(self, item: Item) -> bool:
        """Whether the tool stays on the list, perhaps cleaned."""
        raw = bytes(item.raw)
        if raw not in self._judged:
            if len(self._judged) >= REMEMBERED:
                self._judged.clear()
            self._judged[raw] = self._judgement(item)
        kept = self._judged[raw]
        if kept is not None:
            item.raw = kept
        return kept is not None

    def _judgement(self, item: Item) -> Raw | None:
        """The tool as it is shown; None: it is not."""
        sanitizer, definition = self._sanitizer, item.value()
        findings = sanitizer.findings(definition)
        if findings:
            log.warning("%s: tool `%s`: %s", self._server_id, ascii(item.name), "; ".join(findings))
        if findings and sanitizer.mode == "block":
            return None
        if sanitizer.mode == "strip":
            cleaned = sanitizer.cleaned(definition)
            changed = {key: value for key, value in cleaned.items() if value != definition[key]}
            if changed:
                item.replace(**changed)
        return item.raw


def _schema_texts(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in cast("Json", node).items():
            if key in _TEXTS and isinstance(value, str):
                yield value
            else:
                yield from _schema_texts(value)
    elif isinstance(node, list):
        for item in cast("list[Any]", node):
            yield from _schema_texts(item)
