"""A notebook over stdio: one MCP server in one file, with nothing but the standard library.

It speaks every revision with an `initialize` handshake (2024-11-05 to 2025-11-25). Tools add, list and search
notes; each note is a resource; `import_notes` reports progress and can be cancelled.

    mooring tool call notes add_note title=Milk text="two bottles"
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from typing import Any

VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
STRUCTURED_SINCE = "2025-06-18"

Object = dict[str, Any]


class Refused(Exception):
    """Becomes a JSON-RPC error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Connection:
    """Messages as lines of JSON; several threads may send."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.version = VERSIONS[-1]
        self.cancelled: dict[Any, threading.Event] = {}

    def send(self, message: Object) -> None:
        line = json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":"), ensure_ascii=False)
        with self._lock:
            sys.stdout.buffer.write(line.encode() + b"\n")
            sys.stdout.buffer.flush()


class Notebook:
    """The notes, and the tools that work on them. A tool runs in a thread: who looks takes the lock."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.notes: dict[int, Object] = {}
        self.lock = threading.Lock()
        self.add("Welcome", "These notes live as long as this process does.")

    def add(self, title: str, text: str, cancelled: threading.Event | None = None) -> Object:
        with self.lock:
            # Asked here, so that who lists the notes after a cancel has seen the last of them.
            if cancelled is not None and cancelled.is_set():
                raise InterruptedError
            number = len(self.notes) + 1
            self.notes[number] = {"id": number, "title": title, "text": text}
        return self.notes[number]

    def all(self) -> list[Object]:
        with self.lock:
            return list(self.notes.values())

    def add_note(self, arguments: Object, _call: Call) -> Object:
        note = self.add(_text(arguments, "title"), _text(arguments, "text"))
        self.connection.send({"method": "notifications/resources/list_changed"})
        return {"id": note["id"], "uri": f"note://{note['id']}"}

    def list_notes(self, _arguments: Object, _call: Call) -> Object:
        return {"notes": [{"id": note["id"], "title": note["title"]} for note in self.all()]}

    def search_notes(self, arguments: Object, _call: Call) -> Object:
        wanted = _text(arguments, "query").lower()
        found = [note for note in self.all() if wanted in (note["title"] + note["text"]).lower()]
        return {"notes": found}

    def import_notes(self, arguments: Object, call: Call) -> Object:
        count = arguments.get("count", 5)
        if not isinstance(count, int) or not 1 <= count <= 100:
            raise ValueError("`count` must be a whole number from 1 to 100")
        for number in range(1, count + 1):
            call.cancelled.wait(0.1)
            self.add(f"Imported {number}", "from elsewhere", call.cancelled)
            call.progress(number, count, f"imported {number} of {count}")
        self.connection.send({"method": "notifications/resources/list_changed"})
        return {"imported": count}


class Call:
    """What a running tool knows about its call."""

    def __init__(self, connection: Connection, params: Object, cancelled: threading.Event) -> None:
        self.cancelled = cancelled
        self._connection = connection
        self._token = (params.get("_meta") or {}).get("progressToken")

    def progress(self, done: int, total: int, message: str) -> None:
        if self._token is not None:
            params: Object = {"progressToken": self._token, "progress": done, "total": total}
            if self._connection.version != VERSIONS[0]:
                params["message"] = message
            self._connection.send({"method": "notifications/progress", "params": params})


def tool(name: str, description: str, required: list[str], **properties: Object) -> Object:
    schema = {"type": "object", "properties": properties, "required": required}
    return {"name": name, "description": description, "inputSchema": schema}


TEXT = {"type": "string"}
TOOLS = [
    tool(
        "add_note",
        "Write a note. It can then be read as a resource.",
        ["title", "text"],
        title=TEXT,
        text=TEXT,
    ),
    tool("list_notes", "List the titles of all notes.", []),
    tool("search_notes", "Find notes by a word in their title or text.", ["query"], query=TEXT),
    tool(
        "import_notes",
        "Import notes one by one, with progress.",
        [],
        count={"type": "integer", "minimum": 1, "maximum": 100, "default": 5},
    ),
]


class Server:
    """Answers requests; a tool runs in a thread of its own, so that the reader stays free for a cancel."""

    def __init__(self) -> None:
        self.connection = Connection()
        self.notebook = Notebook(self.connection)
        self.methods: dict[str, Callable[[Object], Object]] = {
            "initialize": self.initialize,
            "ping": lambda _: {},
            "tools/list": lambda _: {"tools": TOOLS},
            "resources/list": self.list_resources,
            "resources/templates/list": lambda _: {"resourceTemplates": [TEMPLATE]},
            "resources/read": self.read_resource,
            "prompts/list": lambda _: {"prompts": [PROMPT]},
            "prompts/get": self.get_prompt,
        }

    def run(self) -> None:
        for line in sys.stdin.buffer:
            if line.strip():
                self.receive(line)

    def receive(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            self.connection.send({"id": None, "error": {"code": -32700, "message": "that line is not JSON"}})
            return
        method, number, params = message.get("method"), message.get("id"), message.get("params") or {}
        if method == "notifications/cancelled":
            if event := self.connection.cancelled.get(params.get("requestId")):
                event.set()
        elif method == "tools/call" and number is not None:
            cancelled = self.connection.cancelled[number] = threading.Event()
            threading.Thread(target=self.call_tool, args=(number, params, cancelled), daemon=True).start()
        elif method is not None and number is not None:
            self.answer(
                number, lambda: self.methods[method](params) if method in self.methods else _unknown(method)
            )

    def answer(self, number: str | int, work: Callable[[], Object]) -> None:
        try:
            self.connection.send({"id": number, "result": work()})
        except Refused as error:
            self.connection.send({"id": number, "error": {"code": error.code, "message": str(error)}})

    def call_tool(self, number: str | int, params: Object, cancelled: threading.Event) -> None:
        try:
            self.answer(number, lambda: self.tool_result(params, cancelled))
        except InterruptedError:
            print(f"call {number} was cancelled", file=sys.stderr)
        finally:
            del self.connection.cancelled[number]

    def tool_result(self, params: Object, cancelled: threading.Event) -> Object:
        name = str(params.get("name"))
        if name not in [tool["name"] for tool in TOOLS]:
            raise Refused(-32602, f"there is no tool `{name}`")
        try:
            found = getattr(self.notebook, name)(
                params.get("arguments") or {}, Call(self.connection, params, cancelled)
            )
        except ValueError as error:
            return {"content": [{"type": "text", "text": str(error)}], "isError": True}
        result: Object = {"content": [{"type": "text", "text": json.dumps(found, ensure_ascii=False)}]}
        if self.connection.version >= STRUCTURED_SINCE:
            result["structuredContent"] = found
        return result

    def initialize(self, params: Object) -> Object:
        wanted = params.get("protocolVersion")
        self.connection.version = wanted if wanted in VERSIONS else VERSIONS[-1]
        return {
            "protocolVersion": self.connection.version,
            "capabilities": {"tools": {}, "resources": {"listChanged": True}, "prompts": {}},
            "serverInfo": {"name": "notes", "version": "1.0"},
            "instructions": "Keeps short notes while it runs.",
        }

    def list_resources(self, _params: Object) -> Object:
        notes = self.notebook.all()
        return {
            "resources": [
                {"uri": f"note://{note['id']}", "name": note["title"], "mimeType": "text/plain"}
                for note in notes
            ]
        }

    def read_resource(self, params: Object) -> Object:
        uri = str(params.get("uri"))
        number = uri.removeprefix("note://")
        note = self.notebook.notes.get(int(number)) if number.isdigit() else None
        if note is None:
            raise Refused(-32002, f"there is no note `{uri}`")
        return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": note["text"]}]}

    def get_prompt(self, params: Object) -> Object:
        if params.get("name") != PROMPT["name"]:
            raise Refused(-32602, f"there is no prompt `{params.get('name')}`")
        titles = "\n".join(f"- {note['title']}: {note['text']}" for note in self.notebook.all())
        style = (params.get("arguments") or {}).get("style", "short")
        text = f"Sum up these notes ({style}):\n{titles}"
        return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}


TEMPLATE = {"uriTemplate": "note://{id}", "name": "A note by its number", "mimeType": "text/plain"}
PROMPT = {
    "name": "sum_up",
    "description": "Sum up all notes.",
    "arguments": [{"name": "style", "description": "short or long", "required": False}],
}


def _text(arguments: Object, key: str) -> str:
    if not isinstance(value := arguments.get(key), str):
        raise ValueError(f"`{key}` must be a text")  # noqa: TRY004 - one kind of error for the caller
    return value


def _unknown(method: str) -> Object:
    raise Refused(-32601, f"there is no method `{method}`")


if __name__ == "__main__":
    Server().run()
