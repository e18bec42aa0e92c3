"""What the scripted server can do, the same in both eras: tools, prompts, resources, completion, logging."""

from __future__ import annotations

import json
import os
import threading
import time
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

INFO = {"name": "scripted", "version": "1.2.3", "vendorField": {"kept": True}}
CAPABILITIES: Json = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "completions": {},
    "logging": {},
    "experimental": {"scripted/feature": {"level": 3}},
}
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
LOG_LEVEL = "io.modelcontextprotocol/logLevel"
TOOLS = (
    "echo",
    "count",
    "wait",
    "ask",
    "change",
    "touch",
    "log",
    "fail",
    "crash",
    "raw",
    "big",
    "whoami",
    "nap",
    "withdraw",
)
UNLISTED = ("nag", "impatient", "ask_both")
PAGE = 5
ITEMS = [f"item://{number}" for number in range(1, 8)]
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
RAW_RESULT = (
    b'{ "structuredContent" : {"z":1.0,"a":1e3,"big":123456789012345678901234567890,"n":null,"neg":-0.0,'
    b'"e":"\\u00e9\\u2028\\ud83d\\ude00\\ud83d",'
    b'"nested":{"$defs":{"x":{"$ref":"#/$defs/x"}},"empty":{},"list":[ ]}},'
    b'"content":[{"type":"text","text":"tab\\tslash\\/","futureField":[1,2.50]}],'
    b'"vendorField":{"b":1,"a":null},'
    b'"_meta":{"example.com/x":null} }'
)


class Refused(Exception):
    """Becomes a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.error: Json = {"code": code, "message": message} | ({"data": data} if data is not None else {})


class NeedsInput(Exception):
    """2026-07-28: the answer is a question."""

    def __init__(self, name: str, method: str, params: Json) -> None:
        super().__init__(name)
        question = {"method": method, "params": params}
        self.result: Json = {
            "resultType": "input_required",
            "inputRequests": {name: question},
            "requestState": f"state of {name}",
        }


@dataclass
class Raw:
    """A result that is sent exactly as it is written."""

    data: bytes


@dataclass
class Call:
    """One request on its way to a tool."""

    session: Any
    id: Any
    method: str
    params: Json
    send: Any
    stopped: threading.Event
    capabilities: Json = field(default_factory=dict)

    @property
    def modern(self) -> bool:
        return self.session.server.era == "modern"

    def note(self, event: str, **more: Any) -> None:
        self.session.server.journal.write(event=event, tool=self.params.get("name"), id=self.id, **more)


def answer(call: Call) -> Any:
    params = call.params
    match call.method:
        case "ping" if not call.modern:
            return {}
        case "tools/list":
            return page(call, "tools", [describe(name) for name in TOOLS])
        case "tools/call":
            return run_tool(call)
        case "resources/list":
            return page(call, "resources", [{"uri": uri, "name": uri} for uri in ITEMS])
        case "resources/templates/list":
            return page(call, "resourceTemplates", [{"uriTemplate": "item://{n}", "name": "an item"}])
        case "resources/read":
            return read(call)
        case "resources/subscribe" if not call.modern:
            call.session.subscriptions.add(params["uri"])
            return {}
        case "resources/unsubscribe" if not call.modern:
            call.session.subscriptions.discard(params["uri"])
            return {}
        case "prompts/list":
            listed = {"name": "picture", "arguments": [{"name": "colour", "required": True}]}
            return page(call, "prompts", [listed])
        case "prompts/get":
            return prompt(call)
        case "completion/complete":
            words = [w for w in ("red", "rose", "green") if w.startswith(params["argument"]["value"])]
            return {"completion": {"values": words, "total": len(words), "hasMore": False}}
        case "logging/setLevel" if not call.modern:
            call.session.level = params["level"]
            return {}
        case _:
            raise Refused(-32601, f"no method {call.method}")


def page(call: Call, name: str, entries: list[Json]) -> Json:
    start = int(call.params.get("cursor") or 0)
    result: Json = {name: entries[start : start + PAGE]}
    if start + PAGE < len(entries):
        result["nextCursor"] = str(start + PAGE)
    return result | ({"ttlMs": 0, "cacheScope": "private"} if call.modern else {})


def describe(name: str) -> Json:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}, "$defs": {"unused": {"const": 1}}}
    return {
        "name": name,
        "description": f"the tool {name}",
        "inputSchema": schema,
        "vendorField": {"kept": name},
    }


def read(call: Call) -> Json:
    uri = call.params["uri"]
    if uri not in ITEMS:
        raise Refused(-32602 if call.modern else -32002, "no such item", {"uri": uri})
    contents = {"contents": [{"uri": uri, "mimeType": "text/plain", "text": f"content of {uri}"}]}
    return contents | ({"ttlMs": 0, "cacheScope": "private"} if call.modern else {})


def prompt(call: Call) -> Json:
    if call.params["name"] != "picture":
        raise Refused(-32602, "no such prompt")
    colour = call.params["arguments"]["colour"]
    image = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
    return {
        "messages": [
            {"role": "user", "content": {"type": "text", "text": f"paint it {colour}"}},
            {"role": "user", "content": image},
        ]
    }


def text(words: str, *, is_error: bool = False) -> Json:
    return {"content": [{"type": "text", "text": words}]} | ({"isError": True} if is_error else {})


def run_tool(call: Call) -> Any:
    name = call.params["name"]
    given = call.params.get("arguments") or {}
    if name not in (*TOOLS, *UNLISTED):
        raise Refused(-32602, f"no tool {name}")
    call.note("ran")
    match name:
        case "echo":
            return {**text(str(given.get("text"))), "structuredContent": given}
        case "count":
            return count(call, int(given.get("steps", 3)), given)
        case "wait":
            return wait(call, float(given.get("seconds", 20)))
        case "nap":
            time.sleep(float(given["seconds"]))
            return text("woke up" + "." * int(given.get("dots", 0)))
        case "ask":
            return ask(call, given)
        case "withdraw":
            method, params = QUESTIONS["elicitation"]
            call.send({"id": "regretted", "method": method, "params": params})
            time.sleep(0.2)  # long enough for the question to be on its way
            call.send({"method": "notifications/cancelled", "params": {"requestId": "regretted"}})
        case "nag":
            return nag(call)
        case "ask_both":
            return ask_both(call, float(given.get("pause", 0)))
        case "impatient":
            method, params = QUESTIONS["elicitation"]
            call.send({"id": "nobody waits", "method": method, "params": params})
            time.sleep(0.3)  # long enough for the question to be on its way
            call.note("went on")
            return text("went on alone")
        case "change":
            call.session.changed(f"notifications/{given['what']}/list_changed", {})
        case "touch":
            if call.modern or given["uri"] in call.session.subscriptions:
                call.session.changed("notifications/resources/updated", {"uri": given["uri"]})
        case "log":
            write_log(call, given["level"], given.get("text", "hello"))
        case "fail":
            return text("it went wrong", is_error=True)
        case "crash":
            os._exit(3)
        case "raw":
            data = RAW_RESULT
            return Raw(b'{"resultType":"complete",' + data[1:] if call.modern else data)
        case "big":
            time.sleep(float(given.get("seconds", 0)))
            return text("x" * int(given["bytes"]), is_error=bool(given.get("failed")))
        case "whoami":
            about = {"pid": os.getpid(), "session": call.session.name, "client": call.session.client}
            return {**text("me"), "structuredContent": {**about, "capabilities": call.capabilities}}
    return text("done")


def count(call: Call, steps: int, given: Json) -> Json:
    padding = "x" * int(given.get("padding", 0))
    token = (call.params.get("_meta") or {}).get("progressToken")
    for step in range(1, steps + 1):
        if call.stopped.wait(float(given.get("pause", 0))):
            raise InterruptedError
        if token is not None:
            told = {
                "progressToken": token,
                "progress": step,
                "total": steps,
                "message": f"step {step}{padding}",
            }
            call.send({"method": "notifications/progress", "params": told})
    call.stopped.wait(float(given.get("pause", 0)))
    return text(f"counted to {steps}")


def wait(call: Call, seconds: float) -> Json:
    call.note("waiting")
    if call.stopped.wait(seconds):
        raise InterruptedError
    call.note("waited to the end")
    return text("nobody stopped me")


def ask_both(call: Call, pause: float) -> Json:
    """Two questions that are open at the same time (legacy)."""
    heard: Json = {}

    def put(kind: str) -> None:
        reply = call.session.ask(call.send, *QUESTIONS[kind])
        heard[kind] = reply.get("result") or {"error": reply.get("error")}
        call.note("heard", kind=kind)

    threads = [threading.Thread(target=put, args=(kind,)) for kind in ("elicitation", "sampling")]
    for thread in threads:
        thread.start()
        time.sleep(pause)
    for thread in threads:
        thread.join()
    return {**text("asked"), "structuredContent": heard}


def nag(call: Call) -> Json:
    """Asks although its call was given up: on stdio and HTTP+SSE nothing says on whose behalf."""
    call.note("waiting")
    call.stopped.wait(20)
    method, params = QUESTIONS["elicitation"]
    reply = call.session.ask(call.session.push, method, {**params, "message": "a leaked question"})
    call.note("heard", reply=reply)
    raise InterruptedError


QUESTIONS: dict[str, tuple[str, Json]] = {
    "elicitation": (
        "elicitation/create",
        {
            "message": "which colour?",
            "requestedSchema": {"type": "object", "properties": {"colour": {"type": "string"}}},
        },
    ),
    "sampling": (
        "sampling/createMessage",
        {"messages": [{"role": "user", "content": {"type": "text", "text": "say hi"}}], "maxTokens": 9},
    ),
    "roots": ("roots/list", {}),
}


def ask(call: Call, given: Json) -> Json:
    kind = given["kind"]
    method, params = QUESTIONS[kind]
    if "padding" in given:
        params = {**params, "message": "x" * given["padding"]}
    if call.modern:
        given_answers = call.params.get("inputResponses") or {}
        if kind not in given_answers:
            if kind not in call.capabilities:
                raise Refused(-32021, "missing capability", {"requiredCapabilities": {kind: {}}})
            raise NeedsInput(kind, method, params)
        if call.params.get("requestState") != f"state of {kind}":
            raise Refused(-32602, "that is not the state I gave")
        heard = given_answers[kind]
    else:
        time.sleep(float(given.get("after", 0)))
        reply = call.session.ask(call.send, method, params)
        heard = reply.get("result") or {"error": reply.get("error")}
    call.note("finished asking", heard=heard)
    count(call, 2, {})
    return {**text(json.dumps(heard)), "structuredContent": {"heard": heard}}


def write_log(call: Call, level: str, words: str) -> None:
    wanted_level = (call.params.get("_meta") or {}).get(LOG_LEVEL) if call.modern else call.session.level
    if wanted_level is not None and LEVELS.index(level) >= LEVELS.index(wanted_level):
        call.send(
            {"method": "notifications/message", "params": {"level": level, "logger": "s", "data": words}}
        )


def wanted(wish: Json, method: str, params: Json) -> bool:
    """Whether a listen stream with this filter hears of that change."""
    kind = method.split("/")[1]
    if method.endswith("list_changed"):
        return bool(wish.get(f"{kind}ListChanged"))
    return params.get("uri") in wish.get("resourceSubscriptions", ())
