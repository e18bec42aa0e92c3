"""Operations of the API as commands use them: asked, waited for, and their progress shown."""

from __future__ import annotations

import getpass
import http.client
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import quote

from mooring.interfaces.cli.control_api import UnixConnection, get_json
from mooring.interfaces.cli.failure import Failed
from mooring.interfaces.cli.gateway_socket import message_in, refusal
from mooring.interfaces.cli.run_progress import Progress

# Longer than the gateway itself waits for a start or stop.
WAIT_SECONDS = 600.0
Json = dict[str, Any]
_LOCKED: Final = "key_unavailable"
_PASSWORD_VARIABLE: Final = "MOORING_SECRETS_PASSWORD"  # noqa: S105 - its name; what knows it loads slowly


class Refused(Failed):
    """The gateway said no."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


def path_of(*words: str) -> str:
    """`/api/v1/...` of words that may hold anything."""
    return "/api/v1/" + "/".join(quote(word, safe="") for word in words)


def ask(socket: Path, method: str, target: str, body: Json | None = None) -> Any:
    """One operation; its answer, or `Refused` with what the gateway said."""
    return _unlocking(socket, lambda: _ask(socket, method, target, body))


def ask_with_progress(socket: Path, method: str, target: str, body: Json | None, progress: Progress) -> Any:
    """As `ask`, with what happens meanwhile shown."""
    return _unlocking(socket, lambda: _follow(socket, method, target, body, progress))


def explained(socket: Path, names: Iterable[str], refused: Failed) -> Failed:
    """Why there is no workload of one of these names, if it is a server that is only connected to."""
    servers: list[Json] = get_json(socket, "/api/v1/status").get("servers", [])
    connected = {str(server["id"]) for server in servers if not server.get("workload")}
    for name in names:
        if name in connected:
            return Failed(
                f"`{name}` is a server that is only connected to, nothing of it runs here: see how it is "
                f"with `mooring status {name}` and what it says with `mooring trace {name}`"
            )
    return refused


def _unlocking(socket: Path, operation: Callable[[], Any]) -> Any:
    """A gateway in the background cannot ask for the password of the secrets: we can, if somebody is here."""
    try:
        return operation()
    except Refused as refused:
        password = os.environ.get(_PASSWORD_VARIABLE)
        if refused.code != _LOCKED or not (password or (sys.stdin.isatty() and sys.stderr.isatty())):
            raise
    password = password or getpass.getpass("password of the secrets: ")
    _ask(socket, "POST", path_of("secrets", "unlock"), {"password": password})
    return operation()


def _ask(socket: Path, method: str, target: str, body: Json | None) -> Any:
    response = _send(socket, method, target, body, "application/json")
    data = response.read()
    if response.status >= 300:
        raise _refused(response.status, data)
    return json.loads(data) if data else None


def _follow(socket: Path, method: str, target: str, body: Json | None, progress: Progress) -> Any:
    with _send(socket, method, target, body, "text/event-stream") as response:
        if response.status >= 300:
            raise _refused(response.status, response.read())
        for event, data in _events(response):
            if event == "progress":
                progress.tell(str(data["name"]), str(data["text"]))
                continue
            progress.clear()
            if event == "failed":
                raise Refused(_described(data), _code(data))
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


def _refused(status: int, data: bytes) -> Refused:
    try:
        answer = json.loads(data)
    except ValueError:
        return Refused(refusal(status, data), "")
    return Refused(_described(answer), _code(answer))


def _code(answer: Any) -> str:
    try:
        return str(answer["error"]["code"])
    except (KeyError, TypeError):
        return ""


def _described(answer: Any) -> str:
    text = message_in(answer)
    return text or f"the gateway refused: {answer}"


def error_of(answer: Json) -> str:
    """The message of one failure among several."""
    return str(cast("Json", answer.get("error") or {}).get("message", "failed"))
