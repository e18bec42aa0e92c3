"""A scripted server whose tools are whatever a JSON file says at the moment; a call answers what was asked.

    shelf_server.py FILE [options of scripted_server.py]

Over HTTP it also writes the headers of each request into its journal.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import scripted_server  # pyright: ignore[reportMissingImports]
import scripted_tools  # pyright: ignore[reportMissingImports]
from scripted_tools import Call, Json, Refused  # pyright: ignore[reportMissingImports]

SHELF = Path(sys.argv.pop(1))
refused: set[str] = set()
ordinary = scripted_tools.answer


def answer(call: Call) -> Json:
    shelf = json.loads(SHELF.read_text())
    if call.method == "tools/list":
        return {"tools": shelf["tools"], "ttlMs": 0, "cacheScope": "private"}
    if call.method == "resources/read" and call.params["uri"] not in shelf.get("resources", []):
        raise Refused(-32002, f"the server says: no {call.params['uri']}", {"uri": call.params["uri"]})
    if call.method == "resources/read":
        return {
            "contents": [{"uri": call.params["uri"], "text": "read"}],
            "ttlMs": 0,
            "cacheScope": "private",
        }
    if call.method == "resources/list":
        listed = [{"uri": uri, "name": uri} for uri in shelf.get("resources", [])]
        return {"resources": listed, "ttlMs": 0, "cacheScope": "private"}
    if call.method != "tools/call":
        return ordinary(call)
    name = call.params["name"]
    if name == "change":
        method = "notifications/tools/list_changed"
        call.session.changed(method, {})
    if name not in [tool["name"] for tool in shelf["tools"]]:
        return {"isError": True, "content": [{"type": "text", "text": f"the server knows no {name}"}]}
    refusal = next(tool.get("refusedOnce") for tool in shelf["tools"] if tool["name"] == name)
    if refusal is not None and name not in refused:
        refused.add(name)
        raise Refused(refusal["code"], refusal["message"], refusal["data"])
    said = {"called": name, "arguments": call.params.get("arguments")}
    return {
        "content": [{"type": "text", "text": json.dumps(said)}],
        "structuredContent": said,
        "isError": name == "broken",
    }


class Http(scripted_server.Http):
    def do_POST(self) -> None:  # noqa: N802 - named by the standard library
        self.scripted.journal.write(event="headers", headers=dict(self.headers.items()))
        super().do_POST()


scripted_tools.answer = answer
scripted_server.Http = Http

if __name__ == "__main__":
    scripted_server.main()
