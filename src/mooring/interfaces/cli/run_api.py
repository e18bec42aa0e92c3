"""Operations of the API as commands use them: asked, waited for, and their progress shown."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

from mooring.interfaces.cli.control_api import UnixConnection
from mooring.interfaces.cli.failure import Failed
from mooring.interfaces.cli.gateway_socket import message_in, refusal
from mooring.interfaces.cli.run_progress import Progress

# Longer than the gateway itself waits for a start or stop.
WAIT_SECONDS = 600.0
Json = dict[str, Any]


class Refused(Failed):
    """The gateway said no."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


def path_of(*words: str) -> str:
    """`/api/v1/...` of words that may hold anything."""
    return "/api/v1/" + "/".join(quote(word, safe="") for word in words)


def ask(socket: Path, method: str, target: str, body: Json | None = None) -> Any:
    """One operation; its answer, or `Failed` with what the gateway said."""
    response = _send(socket, method, target, body, "application/json")
    data = response.read()
    if response.status >= 300:
        raise Refused(_message(response.status, data), _code(data))
    return json.loads(data) if data else None


def ask_with_progress(socket: Path, method: str, target: str, body: Json | None, progress: Progress) -> Any:
    """As `ask`, with what happens meanwhile shown."""
    with _send(socket, method, target, body, "text/event-stream") as response:
        if response.status >= 300:
            raise Failed(_message(response.status, response.read()))
        for event, data in _events(response):
            if event == "progress":
                progress.tell(str(data["name"]), str(data["text"]))
                continue
            progress.clear()
            if event == "failed":
                raise Failed(_described(data))
            return data
    raise Failed("the gateway broke off: see whether it still runs with `mooring status`")


def _send(socket: Path, method: str, target: str, body: Json | None, accept: str) -> http.client.HTTPResponse:
    connection = UnixConnection(socket, WAIT_SECONDS)
    headers = {"Accept": accept, "Connection": "close"}  # the response has its socket to itself
    if body is not None:
        headers["Content-Type"] = "application/json"
    try:
        connection.request(method, target, None if body is None else json.dumps(body), headers)
        return connection.getresponse()
    except (OSError, http.client.HTTPException) as error:
        connection.close()
        raise Failed(f"the gateway at `{socket}` does not answer: {error or type(error).__name__}") from error


def _events(response: http.client.HTTPResponse) -> Iterator[tuple[str, Any]]:
    event = ""
    try:
        for line in response:
            if line.startswith(b"event: "):
                event = line[7:].strip().decode()
            elif line.startswith(b"data: "):
                yield event, json.loads(line[6:])
    except (OSError, http.client.HTTPException) as error:
        raise Failed(f"the gateway broke off: {error or type(error).__name__}") from error


def _message(status: int, data: bytes) -> str:
    try:
        return _described(json.loads(data))
    except ValueError:
        return refusal(status, data)


def _code(data: bytes) -> str:
    try:
        return str(json.loads(data)["error"]["code"])
    except (ValueError, KeyError, TypeError):
        return ""


def _described(answer: Any) -> str:
    text = message_in(answer)
    return text or f"the gateway refused: {answer}"


def error_of(answer: Json) -> str:
    """The message of one failure among several."""
    return str(cast("Json", answer.get("error") or {}).get("message", "failed"))
