"""An example server on stdio whose tools take and make files, without any library.

It knows nothing of Mooring: `count_words` wants a path to read, `make_poster` a path to write. The adapters
in `mooring.yaml` let clients on other machines use both.

    mooring tool call papers count_words path@=README.md
    mooring tool call papers make_poster text=Ahoy filename=ahoy.svg
"""

from __future__ import annotations

import json
import sys
from html import escape
from pathlib import Path
from typing import Any

VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
Object = dict[str, Any]
TEXT = {"type": "string"}
TOOLS: list[Object] = [
    {
        "name": "count_words",
        "description": "Count the words of a text file.",
        "inputSchema": {"type": "object", "properties": {"path": TEXT}, "required": ["path"]},
    },
    {
        "name": "make_poster",
        "description": "Write a text on a poster (SVG).",
        "inputSchema": {
            "type": "object",
            "properties": {"text": TEXT, "filename": TEXT},
            "required": ["text", "filename"],
        },
    },
]


def count_words(given: Object) -> str:
    text = Path(given["path"]).read_text(encoding="utf-8", errors="replace")
    return f"{len(text.split())} words in {len(text.splitlines())} lines"


def make_poster(given: Object) -> str:
    text = escape(str(given["text"]))
    words = f'<text x="300" y="115" font-size="40" fill="#fff" text-anchor="middle">{text}</text>'
    sheet = '<rect width="100%" height="100%" fill="#134"/>'
    poster = f'<svg xmlns="http://www.w3.org/2000/svg" width="600" height="200">{sheet}{words}</svg>'
    Path(given["filename"]).write_text(poster, encoding="utf-8")
    return f"the poster is in {given['filename']}"


FUNCTIONS = {"count_words": count_words, "make_poster": make_poster}


def call(params: Object) -> Object:
    try:
        return said(FUNCTIONS[params["name"]](params.get("arguments") or {}))
    except KeyError as error:
        return {**said(f"`{error.args[0]}` is missing"), "isError": True}
    except OSError as error:
        return {**said(f"that did not work: {error}"), "isError": True}


def said(text: str) -> Object:
    return {"content": [{"type": "text", "text": text}]}


def answer(method: str, params: Object) -> Object | None:
    match method:
        case "initialize":
            wanted = params.get("protocolVersion")
            return {
                "protocolVersion": wanted if wanted in VERSIONS else VERSIONS[-1],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "papers", "version": "1.0"},
            }
        case "tools/list":
            return {"tools": TOOLS}
        case "tools/call" if params.get("name") in FUNCTIONS:
            return call(params)
        case "ping":
            return {}
        case _:
            return None


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        params = message.get("params") or {}
        result = answer(message["method"], params)
        outcome = {"result": result}
        if result is None:
            unknown = params.get("name") or message["method"]
            outcome = {"error": {"code": -32601, "message": f"there is no `{unknown}`"}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **outcome}), flush=True)


if __name__ == "__main__":
    main()
