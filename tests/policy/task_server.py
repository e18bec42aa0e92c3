"""A scripted server that keeps tasks, of either era's kind, for everybody who asks."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import scripted_server  # pyright: ignore[reportMissingImports]
import scripted_tools  # pyright: ignore[reportMissingImports]
from scripted_tools import Call, Json, Refused  # pyright: ignore[reportMissingImports]

EXTENSION = "io.modelcontextprotocol/tasks"
TIME = "2026-11-16T00:00:00Z"
TASKS: dict[str, Json] = {}
ordinary = scripted_tools.answer


def answer(call: Call) -> Json:
    task = TASKS.get(call.params.get("taskId", ""))
    if call.method == "tools/call" and ("task" in call.params or EXTENSION in str(call.capabilities)):
        name = f"job-{len(TASKS) + 1}"
        about = {"taskId": name, "status": "working", "createdAt": TIME, "lastUpdatedAt": TIME}
        TASKS[name] = {**about, "ttl": None, "ttlMs": None}
        return {"resultType": "task", **TASKS[name]} if call.modern else {"task": TASKS[name]}
    if call.method == "tasks/list":
        return {"tasks": list(TASKS.values())}
    if not call.method.startswith("tasks/"):
        return ordinary(call)
    if task is None:
        raise Refused(-32602, "the server says: no such task", {})
    if call.method == "tasks/cancel":
        task["status"] = "cancelled"
    if call.method == "tasks/result":
        return {"content": [{"type": "text", "text": f"result of {task['taskId']}"}]}
    return task


scripted_tools.answer = answer
scripted_tools.CAPABILITIES = {
    **scripted_tools.CAPABILITIES,
    "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}},
    "extensions": {EXTENSION: {}},
}

if __name__ == "__main__":
    scripted_server.main()
