"""Everything that a server offers, as its lists show it; changes are announced."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from mooring.authoring.audience import Audience
from mooring.authoring.items import BadDefinition, Prompt, Resource, Template, Tool
from mooring.errors import InvalidParams
from mooring.protocol.subscriptions import PROMPTS_CHANGED, RESOURCES_CHANGED, TOOLS_CHANGED

Json = dict[str, Any]
Item = Tool | Resource | Template | Prompt
Completer = Callable[..., Any]
MAX_COMPLETIONS: Final = 100


class Catalog:
    """Items in the order they were added, so that lists are the same every time."""

    def __init__(self, audience: Audience, page_size: int | None) -> None:
        self.tools: dict[str, Tool] = {}
        self.resources: dict[str, Resource] = {}
        self.templates: dict[str, Template] = {}
        self.prompts: dict[str, Prompt] = {}
        self.completers: dict[tuple[str, str], Completer] = {}
        """By prompt name or URI template, and argument."""
        self.revision = 0
        """Grows with every change, for whoever keeps a list."""
        self._audience = audience
        self._page_size = page_size

    def add(self, item: Item) -> None:
        key, shelf, _ = self._place(item)
        if key in shelf:
            raise BadDefinition(
                f"`{key}` is there already; give one of the two another name, or remove it first"
            )
        shelf[key] = item
        self._changed(item)

    def remove(self, item: Item) -> None:
        key, shelf, _ = self._place(item)
        del shelf[key]
        self._changed(item)

    def _changed(self, item: Item) -> None:
        self.revision += 1
        self._audience.list_changed(self._place(item)[2])

    def _place(self, item: Item) -> tuple[str, dict[str, Any], str]:
        match item:
            case Tool():
                return item.name, self.tools, TOOLS_CHANGED
            case Prompt():
                return item.name, self.prompts, PROMPTS_CHANGED
            case Resource():
                return item.uri, self.resources, RESOURCES_CHANGED
            case Template():
                return item.template.text, self.templates, RESOURCES_CHANGED

    def capabilities(self, *, logging: bool) -> Json:
        found: Json = {}
        if logging:
            found["logging"] = {}
        if self.tools:
            found["tools"] = {"listChanged": True}
        if self.resources or self.templates:
            found["resources"] = {"subscribe": True, "listChanged": True}
        if self.prompts:
            found["prompts"] = {"listChanged": True}
        if self.prompts or self.templates:
            found["completions"] = {}
        return found

    def page(self, method: str, cursor: object, version: str) -> Json:
        """One page of a list, for a client of this revision."""
        name, shelf = self._shelf(method)
        items = list(shelf.values())
        start = self._start(cursor, len(items))
        end = len(items) if self._page_size is None else start + self._page_size
        members: Json = {name: [item.definition(version) for item in items[start:end]]}
        if end < len(items):
            members["nextCursor"] = str(end)
        return members

    def _shelf(self, method: str) -> tuple[str, Mapping[str, Item]]:
        match method:
            case "tools/list":
                return "tools", self.tools
            case "prompts/list":
                return "prompts", self.prompts
            case "resources/list":
                return "resources", self.resources
            case _:
                return "resourceTemplates", self.templates

    def _start(self, cursor: object, count: int) -> int:
        if cursor is None:
            return 0
        if isinstance(cursor, str) and self._page_size and cursor.isascii() and cursor.isdigit():
            start = int(cursor[:12])
            if start < count and start % self._page_size == 0:
                return start
        raise InvalidParams("this `cursor` is none of ours; ask for the list from its beginning")

    def find_resource(self, uri: str) -> tuple[Resource | Template, dict[str, str]] | None:
        """What answers for a URI: a resource of exactly this one, or the first template that fits."""
        resource = self.resources.get(uri)
        if resource is not None:
            return resource, {}
        for template in self.templates.values():
            values = template.template.match(uri)
            if values is not None:
                return template, values
        return None


def completion_of(values: Iterable[str], total: int | None = None) -> Json:
    """What `completion/complete` answers; no more than the protocol allows."""
    found = [str(value) for value in values]
    shown = found[:MAX_COMPLETIONS]
    count = len(found) if total is None else total
    return {"values": shown, "total": count, "hasMore": count > len(shown)}
