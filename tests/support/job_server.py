"""A scripted server with tools that run only as tasks, in the words of either era."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import scripted_server  # pyright: ignore[reportMissingImports]
import scripted_tools  # pyright: ignore[reportMissingImports]
from scripted_tools import Call, Json, Refused, text  # pyright: ignore[reportMissingImports]

EXTENSION = "io.modelcontextprotocol/tasks"
TIME = "2026-11-16T00:00:00Z"
JOBS: dict[str, Job] = {}
ordinary = scripted_tools.answer


class Job:
    """One task: working until its time is up or it is cancelled."""

    def __init__(self, call: Call) -> None:
        self.id = f"job-{len(JOBS) + 1}"
        self.call = call
        self.status = "working"
        self.over = threading.Event()
        JOBS[self.id] = self
        call.note("job began")
        seconds = float((call.params.get("arguments") or {}).get("seconds", 0.2))
        self._timer = threading.Timer(seconds, self.end, ["completed"])
        self._timer.daemon = True
        self._timer.start()

    def end(self, status: str) -> None:
        if not self.over.is_set():
            self.status = status
            self.call.note(f"job {status}")
            self.over.set()

    @property
    def result(self) -> Json:
        return text("the job is done")

    def describe(self, modern: bool) -> Json:
        ttl, poll = ("ttlMs", "pollIntervalMs") if modern else ("ttl", "pollInterval")
        about = {"taskId": self.id, "status": self.status, "createdAt": TIME, "lastUpdatedAt": TIME}
        done = {"result": self.result} if modern and self.status == "completed" else {}
        return {**about, ttl: None, poll: 50, **done}


def answer(call: Call) -> Json:
    if call.method == "tools/call" and call.params["name"] == "job":
        return begin(call)
    if not call.method.startswith("tasks/"):
        return ordinary(call)
    if call.method == "tasks/list":
        return {"tasks": [job.describe(call.modern) for job in JOBS.values()]}
    job = JOBS.get(call.params["taskId"])
    if job is None:
        raise Refused(-32602, "the server says: no such task")
    if call.method == "tasks/cancel":
        job.end("cancelled")
    if call.method == "tasks/result":
        job.over.wait(20)
        return job.result
    return {**job.describe(call.modern), **({"resultType": "complete"} if call.modern else {})}


def begin(call: Call) -> Json:
    if call.modern:
        if EXTENSION not in (call.capabilities.get("extensions") or {}):
            needed = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
            raise Refused(-32021, "this tool runs only as a task", needed)
        return {"resultType": "task", **started(call).describe(modern=True)}
    if "task" not in call.params:
        raise Refused(-32601, "this tool runs only as a task")
    return {"task": started(call).describe(modern=False)}


def started(call: Call) -> Job:
    job = Job(call)
    time.sleep(float((call.params.get("arguments") or {}).get("hesitate", 0)))
    return job


scripted_tools.answer = answer
scripted_tools.CAPABILITIES = {
    **scripted_tools.CAPABILITIES,
    "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}},
    "extensions": {EXTENSION: {}},
}

if __name__ == "__main__":
    scripted_server.main()
