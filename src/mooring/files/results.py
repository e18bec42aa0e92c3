"""Results too big for a model's context: kept, replaced by a preview and a handle, looked into by tools."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, cast

import msgspec

from mooring.files import answers, handles
from mooring.files.budgets import ResultRules
from mooring.files.faults import BadUpload, FileFault
from mooring.files.inspecting import inspected
from mooring.files.locating import blocks
from mooring.files.records import FileRecord
from mooring.files.store import FileStore
from mooring.protocol import surrogates
from mooring.transports.wire import Answer

Json = dict[str, Any]
MAX_PART_BYTES: Final = 64 * 1024
DEFAULT_PART_BYTES: Final = 8 * 1024
LETTER_BYTES: Final = 4
"""No letter has more of them in UTF-8."""


def tool_names(server_id: str) -> list[str]:
    """Our tools for looking into results: to read, search, query and list."""
    prefix = server_id.replace(".", "_")
    return [f"{prefix}_result_{word}" for word in ("read", "search", "query", "list")]


class ResultKeeper:
    """Keeps the large results of one server."""

    def __init__(
        self,
        store: FileStore,
        server_id: str,
        rules: ResultRules,
        shown: Callable[[str], str | None],
    ) -> None:
        self._store = store
        self._shown = shown
        self._server = server_id
        self.rules = rules
        work = (self._read, self._search, self._query, self._list)
        self._tools: dict[str, Callable[[Json, str | None], Awaitable[Json]]] = dict(
            zip(tool_names(server_id), work, strict=True)
        )

    def is_own(self, tool: str) -> bool:
        return tool in self._tools

    def definitions(self) -> list[Json]:
        handle = {"type": "string", "description": "The `result://` handle."}
        most = {"type": "integer", "minimum": 1, "maximum": 50, "description": "Most matches (50)."}
        read, search, query, listing = self._tools
        return [
            _tool(
                read,
                "Read part of a large result.",
                {
                    "handle": handle,
                    "offset": _whole(0, "First byte (0)."),
                    "length": _whole(1, "Bytes (8192)."),
                },
                ["handle"],
            ),
            _tool(
                search,
                "Search a large result with a regular expression.",
                {"handle": handle, "pattern": {"type": "string"}, "most": most},
                ["handle", "pattern"],
            ),
            _tool(
                query,
                "Query a large JSON result with a JSONPath such as `$.items[?@.id == 7].name`.",
                {"handle": handle, "path": {"type": "string"}, "most": most},
                ["handle", "path"],
            ),
            _tool(
                listing,
                "List the large results that are kept, newest first.",
                {"cursor": {"type": "string", "description": "The `next_cursor` of the page before."}},
                [],
            ),
        ]

    # Keeping

    async def shortened(self, tool: str, answer: Answer, scope: str) -> tuple[Answer, bool]:
        """The answer, or what stands for it when it is too big; and whether it was."""
        raw = bytes(answer.result)
        budget = self.rules.of(tool)
        if not budget.may_be_exceeded(raw):
            return answer, False
        result = _decoded(raw)
        if (
            result is None
            or result.get("resultType") not in ("complete", None)
            or not await budget.is_exceeded(result)
        ):
            return answer, False
        links = _links(result, budget.link_bytes)
        if links:
            result["content"] = [block for block in result["content"] if block not in links]
        text, mime_type = _readable(result)
        file = await self._store.begin("result", scope, self._server, f"{tool}.{_ending(mime_type)}")
        try:
            file.note = f"the result of `{tool}`"
            await file.write(text.encode())
            await file.finish()
            [record] = await self._store.commit([file])
        except BaseException:
            await file.abandon()
            raise
        room = budget.preview_bytes(self.rules.preview_bytes)
        shown = preview(result, text).encode()[:room].decode("utf-8", "ignore")
        return answers.changed(answer, self._stand_in(result, record, shown, links)), True

    def _stand_in(self, result: Json, record: FileRecord, shown: str, links: list[Json]) -> Json:
        does = ("reads more of it", "searches it", "queries it" if is_json(record) else None)
        named = ((self._shown(tool), words) for tool, words in zip(self._tools, does, strict=False))
        advice = ", ".join(f"`{tool}` {words}" for tool, words in named if tool and words)
        note = (
            f"The result has {record.size} bytes and is kept as {record.uri}; "
            f"{advice or 'read that resource'}. It begins:\n{shown}"
        )
        made: Json = {
            name: value for name, value in result.items() if name not in ("content", "structuredContent")
        }
        made["content"] = [{"type": "text", "text": note}, *links]
        meta = dict(made.get("_meta") or {})
        meta["result"] = {"result_uri": record.uri, "size_bytes": record.size, "mime_type": record.mime_type}
        made["_meta"] = meta
        return made

    # Looking into them

    async def answer(self, tool: str, given: Json, scope: str | None) -> Answer:
        try:
            return answers.own_tool_result(await self._tools[tool](given, scope))
        except FileFault as error:
            return answers.own_tool_error(str(error))
        except FileNotFoundError:  # it went away since it was found
            return answers.own_tool_error("not found: the result is gone: call the tool again that made it")

    async def _record(self, given: Json, scope: str | None) -> FileRecord:
        handle = handles.parse(str(given.get("handle")))
        if handle is None or handle.kind != "result" or (scope is not None and handle.scope != scope):
            raise BadUpload(f"`handle`: not found: `{str(given.get('handle'))[:200]}`")
        return await self._store.find(handle, self._server)

    async def _read(self, given: Json, scope: str | None) -> Json:
        record = await self._record(given, scope)
        start = _number(given, "offset", 0)
        length = min(_number(given, "length", DEFAULT_PART_BYTES, least=1), MAX_PART_BYTES)
        start = min(start, record.size)
        stop = min(start + length, record.size)
        data = await self._store.read_all(record, start, min(stop + LETTER_BYTES - 1, record.size))
        while stop - start < len(data) and data[stop - start] & 0xC0 == 0x80:
            stop += 1  # a letter that has begun is told to its end, or neither part would have it
        data = data[: stop - start]
        part: Json = {"text": data.decode("utf-8", "replace"), "offset": start, "total_bytes": record.size}
        return part | ({"next_offset": stop} if stop < record.size else {})

    async def _search(self, given: Json, scope: str | None) -> Json:
        return await self._inspect("search", await self._record(given, scope), given, "pattern")

    async def _query(self, given: Json, scope: str | None) -> Json:
        return await self._inspect("query", await self._record(given, scope), given, "path")

    async def _list(self, given: Json, scope: str | None) -> Json:
        cursor = given.get("cursor")
        if cursor is not None and not isinstance(cursor, str):
            raise BadUpload("`cursor` must be a text that a list gave you: list without it to begin")
        if scope is None:
            return {"results": []}
        page = await self._store.page(scope, self._server, ["result"], cursor)
        results = [
            {"handle": record.uri, "name": record.name, "size_bytes": record.size} for record in page.records
        ]
        return {"results": results} | ({} if page.next is None else {"next_cursor": page.next})

    async def _inspect(self, do: str, record: FileRecord, given: Json, key: str) -> Json:
        what = given.get(key)
        if not isinstance(what, str) or not what:
            raise BadUpload(f"`{key}` must be a text")
        question = {"do": do, "what": what, "most": _number(given, "most", 50)}
        self._store.hold([record])  # it must not expire while others have their turn
        try:
            async with self._store.inspections.turn(record.scope):
                answer = await inspected(question, self._store.read(record), self.rules.search_seconds)
        finally:
            self._store.let_go([record])
        if "error" in answer:
            raise BadUpload(str(answer["error"]))
        return answer


def _decoded(raw: bytes) -> Json | None:
    """A result to look at, without half characters, which no file has; None if it cannot be read at all."""
    for data in (raw, surrogates.readable(raw)):
        with suppress(msgspec.DecodeError, RecursionError):
            return None if data is None else msgspec.json.decode(data, type=Json)
    return None


def _links(result: Json, room: int) -> list[Json]:
    """The links of a result, which stay in it, to be followed; if they are too many they are kept with it.

    Those to artifacts are texts, too: for clients that know no others, and to download by.
    """
    meta = _object(result.get("_meta"))
    named = meta.get("artifacts")
    made = cast("list[Any]", named) if isinstance(named, list) else [meta.get("artifact")]
    texts: set[str] = set()
    for about in map(_object, made):
        name = about.get("filename")
        texts |= {f"Download {name}: {about.get('download_url')}", f"[{name}]({about.get('artifact_uri')})"}
    found = [
        block
        for block in blocks(result)
        if block.get("type") == "resource_link" or str(block.get("text")) in texts
    ]
    return found if len(msgspec.json.encode(found)) <= room else []


def _readable(result: Json) -> tuple[str, str]:
    """What a model would want to look into: all texts together, or JSON; nothing of a result is left out."""
    structured = result.get("structuredContent")
    found = blocks(result)
    texts = [str(block.get("text", "")) for block in found if block.get("type") == "text"]
    text = "\n".join(texts)
    if structured is None and texts and len(texts) == len(found):
        return text, "text/plain" if _json_in(text) is None else "application/json"
    if structured is None:
        value: Any = result.get("content")
    elif len(texts) == len(found) and (not texts or _json_in(text) == structured):
        value = structured
    else:
        value = {"content": result.get("content"), "structuredContent": structured}
    return msgspec.json.encode(value).decode(), "application/json"


def preview(result: Json, text: str) -> str:
    """What the beginning is shown of: pictures and other bytes say nothing to whoever reads their base64."""
    found = blocks(result)
    if result.get("structuredContent") is not None or all(block.get("type") == "text" for block in found):
        return text
    return "\n".join(map(_shown, found))


def _shown(block: Json) -> str:
    if block.get("type") == "text":
        return str(block.get("text", ""))
    data = block.get("data")
    if not isinstance(data, str):
        return msgspec.json.encode(block).decode()
    return f"[{block.get('type')} {block.get('mimeType')}, {len(data)} characters of base64]"


def _object(value: Any) -> Json:
    return cast("Json", value) if isinstance(value, dict) else {}


def _json_in(text: str) -> Any:
    """The object or list that a text is; None if it is none."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):  # the latter for what is nested beyond reading
        return None


def is_json(record: FileRecord) -> bool:
    return record.mime_type == "application/json"


def _ending(mime_type: str) -> str:
    return "json" if mime_type == "application/json" else "txt"


def _number(given: Json, name: str, default: int, least: int = 0) -> int:
    value = given.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise BadUpload(f"`{name}` must be a whole number from {least}")
    return value


def _whole(least: int, description: str) -> Json:
    return {"type": "integer", "minimum": least, "description": description}


def _tool(name: str, description: str, properties: Json, required: list[str]) -> Json:
    return {
        "name": name,
        "description": description,
        "inputSchema": {"type": "object", "properties": properties, "required": required},
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    }
