"""`mooring trace`: what a person reads."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from mooring.interfaces.cli.trace_text import Conversation

NOTHING = {"method": None, "id": None, "size": None, "since_request_ms": None, "note": None}
CLIENT = {**NOTHING, "leg": "client", "peer": "a1b2"}
SERVER = {**NOTHING, "leg": "server", "peer": "127.0.0.1:4711"}
CALL: list[dict[str, Any]] = [
    {**CLIENT, "t": 1000.123, "dir": "in", "kind": "request", "method": "tools/call", "id": 7, "size": 312},
    {**SERVER, "t": 1000.124, "dir": "out", "kind": "request", "method": "tools/call", "id": 3, "size": 312},
    {**SERVER, "t": 1000.39, "dir": "in", "kind": "response", "id": 3, "since_request_ms": 266.2},
    {**CLIENT, "t": 1000.391, "dir": "out", "kind": "error", "id": 7, "size": 1234, "note": "session closed"},
    {**SERVER, "t": 1000.4, "dir": "in", "kind": "noise", "size": 20, "since_request_ms": 3.26},
    {**SERVER, "t": 1000.5, "dir": "in", "kind": "state", "note": "stopped"},
]
READ = """\
hh:mm:ss.123  client ──▶ mooring             a1b2        tools/call #7                            312 B
hh:mm:ss.124             mooring ──▶ server  :4711       tools/call #3                            312 B
hh:mm:ss.390             mooring ◀── server  :4711       result of tools/call #3                           +266 ms
hh:mm:ss.391  client ◀── mooring             a1b2        error for tools/call #7                 1.2 kB             · session closed
hh:mm:ss.400             mooring ◀── server  :4711       noise, not a message                      20 B    +3.3 ms
hh:mm:ss.500                                 :4711       · stopped
"""  # noqa: E501 - as wide as it is on the terminal


def text(events: list[dict[str, Any]], **settings: Any) -> list[str]:
    conversation = Conversation(colour=False, **settings)
    found = [line for event in events for line in conversation.lines(event)]
    return [re.sub(r"^\d\d:\d\d:\d\d", "hh:mm:ss", line) for line in found]


def test_the_lanes_keep_their_columns() -> None:
    assert text(CALL) == READ.splitlines()


IN_80_COLUMNS = """\
hh:mm:ss.123 client ─▶        a1b2   tools/call #7                312 B
hh:mm:ss.124        ─▶ server :4711  tools/call #3                312 B
hh:mm:ss.390        ◀─ server :4711  result of tools/call #3             +266 ms
hh:mm:ss.391 client ◀─        a1b2   error for tools/call #7     1.2 kB
                                     · session closed
hh:mm:ss.400        ◀─ server :4711  noise, not a message          20 B  +3.3 ms
hh:mm:ss.500                  :4711  · stopped
"""


def test_the_lines_fit_into_a_terminal_of_80_columns() -> None:
    assert text(CALL, width=80) == IN_80_COLUMNS.splitlines()
    long = [
        {**CALL[0], "method": "notifications/resources/updated", "peer": "a1b2c3d4e5f6", "note": "x"},
        {**CALL[2], "method": None, "id": "x" * 100, "size": 999_949, "since_request_ms": 9_999.4},
    ]
    assert all(len(line) <= 80 for line in text(long, width=80))
    assert "notifications/resources/u…" in text(long[:1], width=80)[0]


def test_a_note_that_has_no_room_stands_below_its_line() -> None:
    shown = text(CALL[3:4], width=120)
    assert [len(line) <= 120 for line in shown] == [True, True]
    assert shown[1].strip() == "· session closed"
    assert shown[1].index("·") == shown[0].index("error")
    assert text(CALL, width=200) == READ.splitlines()


def test_a_terminal_without_unicode_gets_plain_arrows() -> None:
    assert text(CALL[:1], ascii_only=True)[0].startswith("hh:mm:ss.123  client --> mooring ")


def test_bytes_come_below_their_line() -> None:
    shown = text([{**CALL[0], "bytes": '{"jsonrpc":"2.0"}\n'}])
    assert shown[1] == '    {"jsonrpc":"2.0"}'


def test_a_server_cannot_steer_the_terminal() -> None:
    shown = "\n".join(text([{**CALL[0], "method": "a\x1b[2J\nb", "bytes": "x\x1b]0;t\x07\u202e"}]))
    assert "\x1b" not in shown
    assert "a\\u001b[2J\\nb #7" in shown
    assert "\\u202e" in shown


def test_colour_is_only_for_terminals() -> None:
    assert "\x1b[1m" in "".join(Conversation(colour=True).lines(CALL[0]))


def test_recorded_messages_are_shown_without_following(mooring: Any, gateway: Any) -> None:
    gateway.trace = CALL
    done = mooring("trace", "library", "--no-follow")
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == len(CALL)
    assert done.stderr == ""
    assert gateway.targets == ["/api/v1/trace/library?history=1000000&follow=0&bytes=0"]


def test_where_nothing_was_recorded_it_says_when_something_is(mooring: Any) -> None:
    done = mooring("trace", "library", "--no-follow")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("nothing was recorded: that happens only while somebody watches")


def test_following_starts_with_what_comes_next(mooring: Any, gateway: Any) -> None:
    mooring("trace", "library", "--bytes")
    assert gateway.targets == ["/api/v1/trace/library?history=0&follow=1&bytes=1"]


def test_json_is_one_object_per_line(mooring: Any, gateway: Any) -> None:
    gateway.trace = CALL
    done = mooring("trace", "library", "--no-follow", "--format", "json")
    assert [json.loads(line) for line in done.stdout.splitlines()] == CALL


def test_since_leaves_out_what_is_older(mooring: Any, gateway: Any) -> None:
    import time

    gateway.trace = [{**CALL[0], "t": time.time() - 300}, {**CALL[0], "t": time.time() - 10}]
    done = mooring("trace", "library", "--since", "1m")
    assert len(done.stdout.splitlines()) == 1


@pytest.mark.parametrize("span", ["soon", "5x", "-5s"])
def test_a_wrong_time_span_is_said(mooring: Any, span: str) -> None:
    done = mooring("trace", "library", f"--since={span}")
    assert done.returncode == 2
    assert "write for example 30s, 5m, 12h or 30d" in done.stderr


def test_an_unknown_server_is_said_in_the_words_of_the_gateway(mooring: Any) -> None:
    done = mooring("trace", "nobody")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: no server has this id; known: library\n"
