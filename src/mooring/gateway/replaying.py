"""A cassette that answers like the server it was recorded from, and to nothing else.

What a client sent, a request or a notification, is a turn; what the server said after it, up to the answer
and whatever followed that, belongs to it. A message that equals a recorded one plays its turn, each turn
once, in the recorded order. Lists and handshakes may be asked for again. Everything else is refused with the
nearest recorded request. No clock, no I/O: messages in, messages out.
"""

from __future__ import annotations

import difflib
import json
from typing import Any, Final, cast

import msgspec

from mooring.errors import INVALID_PARAMS, METHOD_NOT_FOUND
from mooring.gateway.cassette import Header, Line
from mooring.gateway.tracing import redact

Json = dict[str, Any]
REPEATABLE: Final = frozenset(
    {"initialize", "server/discover", "ping", "tools/list", "prompts/list", "resources/list",
     "resources/templates/list"}
)  # fmt: skip
"""What a client may ask for as often as it likes; it gets the last recorded answer again."""
PROBES: Final = frozenset({"initialize", "server/discover", "ping"})
"""Asked to find out who answers: not having recorded them is no fault of the client."""
_ANY_PARAMS: Final = frozenset({"initialize", "server/discover", "ping"})
_TOKEN: Final = "progressToken"  # noqa: S105 - a member of the protocol
_SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"
_SHOWN: Final = 300
_COMPARED: Final = 2_000


class Turn:
    """One message of the client, and what the server said then."""

    def __init__(self, line: int, message: Json) -> None:
        self.line = line
        self.message = message
        self.method: str = message["method"]
        self.id = message.get("id")
        self.token = _meta(message).get(_TOKEN)
        self.key = _key(message)
        self.events: list[Event] = []
        self.used = False


class Event:
    """Something the server said; a request of its own comes with the answer that it was given."""

    def __init__(self, message: Json) -> None:
        self.message = message
        self.is_answer = "method" not in message
        self.is_request = "method" in message and "id" in message
        self.answer: Json | None = None


class _Running:
    """A turn that is being played for a request of now."""

    def __init__(self, turn: Turn, message: Json) -> None:
        self.turn = turn
        self.id = message.get("id")
        self.token = _meta(message).get(_TOKEN)
        self.place = 0
        self.answered = False


class Player:
    """Plays one cassette for one client."""

    def __init__(self, header: Header, lines: list[tuple[int, Line]]) -> None:
        self._introduction = header.introduction
        self._turns = _turns(lines)
        self._asking: dict[str, tuple[_Running, Event]] = {}
        self._number = 0
        self.unexpected: list[str] = []

    @property
    def unused(self) -> list[Turn]:
        """The recorded requests that nobody made."""
        return [turn for turn in self._turns if not turn.used and turn.id is not None]

    def receive(self, data: bytes) -> list[Json]:
        """What to send after this message of the client."""
        try:
            message: Any = json.loads(redact(data))
        except ValueError:
            return [_error(None, -32700, "not JSON")]
        return [sent for one in _messages(message) for sent in self._one(one)]

    def _one(self, message: Json) -> list[Json]:
        if "method" not in message:
            return self._answered(message)
        turn = self._find(message)
        if turn is not None:
            turn.used = True
            return self._play(_Running(turn, message))
        return self._unrecorded(message) if "id" in message else []

    def _find(self, message: Json) -> Turn | None:
        method, key = message["method"], _key(message)
        same = [
            turn
            for turn in self._turns
            if turn.method == method and (turn.key == key or method in _ANY_PARAMS) and _asks(turn, message)
        ]
        fresh = next((turn for turn in same if not turn.used), None)
        return same[-1] if fresh is None and same and method in REPEATABLE else fresh

    def _play(self, running: _Running) -> list[Json]:
        """Go on until the turn is over, or the client has to answer something first."""
        sent: list[Json] = []
        events = running.turn.events
        while running.place < len(events):
            event = events[running.place]
            running.place += 1
            if event.is_answer:
                sent.append({**event.message, "id": running.id})
                running.answered = True
            elif event.is_request:
                self._number += 1
                name = f"replay-{self._number}"
                self._asking[name] = (running, event)
                sent.append({**event.message, "id": name})
                return sent
            elif (changed := _told(event.message, running)) is not None:
                sent.append(changed)
        return sent

    def _answered(self, message: Json) -> list[Json]:
        """The client answers a question of the server."""
        waiting = self._asking.pop(str(message.get("id")), None)
        if waiting is None:
            return []
        running, event = waiting
        if event.answer is None or event.message["method"] == "ping" or _said(message) == _said(event.answer):
            return self._play(running)
        asked, said, recorded = event.message["method"], _said(message), _said(event.answer)
        why = f"`{asked}` was answered with {_shown(said)}; recorded was {_shown(recorded)}"
        self.unexpected.append(why)
        return [] if running.answered else [_error(running.id, INVALID_PARAMS, why)]

    def _unrecorded(self, message: Json) -> list[Json]:
        method, number = message["method"], message["id"]
        known = self._introduction
        if known is not None and known.method == method:
            return [{"jsonrpc": "2.0", "id": number, "result": known.result}]
        if method == "ping":
            return [{"jsonrpc": "2.0", "id": number, "result": {}}]
        same = [turn for turn in self._turns if turn.method == method]
        why = self._why(message, same)
        if method not in PROBES:
            self.unexpected.append(why)
        return [_error(number, INVALID_PARAMS if same else METHOD_NOT_FOUND, why)]

    def _why(self, message: Json, same: list[Turn]) -> str:
        method, key = message["method"], _key(message)
        if any(turn.key == key for turn in same):
            times = sum(1 for turn in same if turn.key == key)
            return f"`{method}` with {_shown(key)} was recorded {times} times, and asked for once more"
        if same:
            nearest = max(same, key=lambda turn: _likeness(turn.key, key))
            return (
                f"no `{method}` with {_shown(key)} was recorded; the nearest is on line {nearest.line}: "
                f"{_shown(nearest.key)}"
            )
        methods = dict.fromkeys(turn.method for turn in self._turns if turn.id is not None)
        nearest = max(methods, key=lambda known: _similarity(known, method), default="")
        return f"no `{method}` was recorded" + (f"; the nearest is `{nearest}`" if nearest else "")


def _turns(lines: list[tuple[int, Line]]) -> list[Turn]:
    sessions: dict[str, _Session] = {}
    turns: list[Turn] = []
    for number, line in lines:
        session = sessions.setdefault(line.session, _Session())
        decoded: Any = msgspec.json.decode(line.message)
        for message in _messages(decoded):
            made = session.take(number, line.side, message)
            if made is not None:
                turns.append(made)
    return turns


class _Session:
    """Puts the messages of one session into turns."""

    def __init__(self) -> None:
        self._latest: Turn | None = None
        self._open: dict[Any, Turn] = {}
        self._asked: dict[Any, Event] = {}
        self._tokens: dict[Any, Turn] = {}

    def take(self, number: int, side: str, message: Json) -> Turn | None:
        if side == "client":
            return self._from_client(number, message)
        event = Event(message)
        turn = self._open.pop(message.get("id"), None) if event.is_answer else self._concerned(message)
        if event.is_request:
            self._asked[message["id"]] = event
        if turn is not None:
            turn.events.append(event)
        return None

    def _from_client(self, number: int, message: Json) -> Turn | None:
        if "method" not in message:
            asked = self._asked.pop(message.get("id"), None)
            if asked is not None:
                asked.answer = message
            return None
        turn = self._latest = Turn(number, message)
        if turn.id is not None:
            self._open[turn.id] = turn
        if turn.token is not None:
            self._tokens[turn.token] = turn
        return turn

    def _concerned(self, message: Json) -> Turn | None:
        params = _object(message.get("params"))
        stream = _meta(message).get(_SUBSCRIPTION)
        return self._tokens.get(params.get(_TOKEN)) or self._open.get(stream) or self._latest


def _told(message: Json, running: _Running) -> Json | None:
    """A notification in the words of now: the client's own token, and its own number of the stream."""
    params = _object(message.get("params"))
    if _TOKEN in params:
        if running.token is None:
            return None  # it does not want to hear of progress
        return {**message, "params": {**params, _TOKEN: running.token}}
    if _meta(message).get(_SUBSCRIPTION) == running.turn.id and running.turn.id is not None:
        return {**message, "params": {**params, "_meta": {**params["_meta"], _SUBSCRIPTION: running.id}}}
    return message


def _asks(turn: Turn, message: Json) -> bool:
    """Requests are compared with requests, notifications with notifications."""
    return (turn.id is None) == ("id" not in message)


def _messages(decoded: Any) -> list[Json]:
    """One message, or those of a batch."""
    if isinstance(decoded, list):
        return [_object(message) for message in cast("list[Any]", decoded)]
    return [_object(decoded)]


def _object(value: Any) -> Json:
    return cast("Json", value) if isinstance(value, dict) else {}


def _meta(message: Json) -> Json:
    return _object(_object(message.get("params")).get("_meta"))


def _key(message: Json) -> Json:
    """What makes two requests the same: everything but who sends them, when, and as which number."""
    params = _object(message.get("params"))
    return {name: value for name, value in params.items() if name != "_meta"}


def _said(message: Json) -> Json:
    result = _object(message.get("result", message.get("error")))
    return {name: value for name, value in result.items() if name != "_meta"}


def _likeness(one: Json, other: Json) -> float:
    texts = [json.dumps(value, sort_keys=True)[:_COMPARED] for value in (one, other)]
    return _similarity(*texts)


def _similarity(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one, other, autojunk=False).ratio()


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def _error(number: Any, code: int, message: str) -> Json:
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}}
