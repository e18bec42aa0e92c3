"""Texts of tools that are not what they seem: invisible characters, look-alikes, novels."""

from __future__ import annotations

import logging
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from mooring.gateway.exchange import Exchange
from mooring.policy.items import TOOLS, Item, Listing, absent, subject

log = logging.getLogger(__name__)

REMEMBERED: Final = 10_000
_TEXTS: Final = ("title", "description")
_KEPT: Final = "\n\t\r"
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Sanitizer:
    """What counts as suspicious, and what is done about it."""

    mode: Literal["report", "strip", "block"] = "report"
    max_title_chars: int = 256
    max_description_chars: int = 8_000
    max_schema_text_chars: int = 2_000

    def findings(self, definition: Json) -> list[str]:
        """What is suspicious about a definition, in words."""
        found: list[str] = []
        name = str(definition.get("name", ""))
        if not name.isascii():
            found.append("its name has letters that look like others")
        for place, text, limit in self._texts(definition):
            hidden = [c for c in text if is_invisible(c)]
            if hidden:
                codes = ", ".join(f"U+{ord(c):04X}" for c in dict.fromkeys(hidden[:5]))
                found.append(f"{place} has {len(hidden)} invisible characters ({codes})")
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
                clean[key] = _cleaned(clean[key], limit)
        hints = clean.get("annotations")
        if isinstance(hints, dict) and isinstance(title := cast("Json", hints).get("title"), str):
            clean["annotations"] = {**cast("Json", hints), "title": _cleaned(title, self.max_title_chars)}
        for schema in ("inputSchema", "outputSchema"):
            if schema in clean:
                clean[schema] = _clean_schema(clean[schema], self.max_schema_text_chars)
        return clean


class Sanitizing:
    """The sanitizer, applied to one server's lists."""

    def __init__(self, sanitizer: Sanitizer, server_id: str) -> None:
        self._sanitizer = sanitizer
        self._server_id = server_id
        self._judged: dict[bytes, list[str]] = {}
        self._blocked: set[str] = set()

    def check(self, exchange: Exchange) -> None:
        """A tool that is not shown for what is in its texts cannot be called either."""
        if exchange.method == "tools/call" and self._blocked:
            found = subject(exchange)
            assert found is not None
            if found[1] in self._blocked:
                raise absent(exchange, *found)

    def present(self, exchange: Exchange, listing: Listing) -> None:
        del exchange
        if listing.kind == TOOLS:
            listing.items = [item for item in listing.items if self._judge(item)]

    def _judge(self, item: Item) -> bool:
        """Whether the tool stays on the list, perhaps cleaned."""
        raw = bytes(item.raw)
        findings = self._judged.get(raw)
        if findings is None:
            if len(self._judged) >= REMEMBERED:
                self._judged.clear()
            findings = self._judged[raw] = self._sanitizer.findings(item.value())
            if findings:
                log.warning("%s: tool `%s`: %s", self._server_id, ascii(item.name), "; ".join(findings))
        self._blocked.discard(item.name)
        if not findings or self._sanitizer.mode == "report":
            return True
        if self._sanitizer.mode == "block":
            self._blocked.add(item.name)
            return False
        item.replace(**{k: v for k, v in self._sanitizer.cleaned(item.value()).items() if k != "name"})
        return True


def is_invisible(character: str) -> bool:
    """Format and control characters, private and unassigned ones: nothing that a reader would see."""
    return character not in _KEPT and unicodedata.category(character) in ("Cf", "Cc", "Co", "Cn", "Cs")


def _cleaned(text: str, limit: int) -> str:
    visible = "".join(c for c in text if not is_invisible(c))
    return unicodedata.normalize("NFKC", visible)[:limit]


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


def _clean_schema(node: Any, limit: int) -> Any:
    if isinstance(node, dict):
        return {
            key: _cleaned(value, limit)
            if key in _TEXTS and isinstance(value, str)
            else _clean_schema(value, limit)
            for key, value in cast("Json", node).items()
        }
    if isinstance(node, list):
        return [_clean_schema(item, limit) for item in cast("list[Any]", node)]
    return node
