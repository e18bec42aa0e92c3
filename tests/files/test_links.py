"""Links that are forged, expired or meant for something else open nothing; names stay names."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mooring.files import argument_paths, handles
from mooring.files.faults import Gone, NotFound, Refused
from mooring.files.links import Links, Ticket
from mooring.files.names import MAX_NAME_BYTES, safe_name, sniff
from mooring.files.records import FileRecord
from mooring.transports.sealing import Seal

KEY = b"k" * 32
RECORD = FileRecord(
    "0" * 32, "artifact", "1" * 32, "files", "0" * 32, "ü a.txt", "text/plain", 3, "2" * 64, 0, 9e9
)


def links(key: bytes = KEY) -> Links:
    made = Links(Seal(key), key)
    made.base = "http://127.0.0.1:1"
    return made


def parts(url: str) -> tuple[str, handles.Handle, str, str, str]:
    expires, owner, signature = (pair.partition("=")[2] for pair in url.partition("?")[2].split("&"))
    return RECORD.server, RECORD.handle, expires, owner, signature


def test_a_download_link_holds_until_it_expires() -> None:
    links().check_download(*parts(links().download_url(RECORD, time.time() + 60, "me")))
    with pytest.raises(Gone, match="expired"):
        links().check_download(*parts(links().download_url(RECORD, time.time() - 60, "me")))


def test_another_key_signs_nothing_here() -> None:
    with pytest.raises(Refused):
        links().check_download(*parts(links(b"x" * 32).download_url(RECORD, time.time() + 60, "me")))
    with pytest.raises(Refused):
        links().read_ticket(ticket(links(b"x" * 32), 60), "files")


def ticket(made: Links, ttl: float) -> str:
    return made.upload_url(Ticket("files", "1" * 32, "me"), ttl).partition("ticket=")[2]


def test_a_ticket_is_for_one_server_and_a_while() -> None:
    assert links().read_ticket(ticket(links(), 60), "files") == Ticket("files", "1" * 32, "me")
    with pytest.raises(NotFound):
        links().read_ticket(ticket(links(), 60), "others")
    with pytest.raises(Gone, match="expired"):
        links().read_ticket(ticket(links(), -1), "files")
    once = links().once_url(RECORD).split("/")[5]
    with pytest.raises(Refused):  # sealed by us, for something else
        links().read_ticket(once, "files")


@given(st.text(max_size=400))
@example(". x")
@example("x .\u00a0.")
@example("e\u200d\u0301")
@example("CON .txt")
@example(f"{'x' * 150} . . {'y' * 20}")
@example(f"{'x' * 156}\u00a0.txt.txt")
def test_every_name_is_one_harmless_component(name: str) -> None:
    safe = safe_name(name)
    assert safe not in ("", ".", "..")
    assert not set(safe) & set('/\\:*?"<>|\0\n\r')
    assert len(safe.encode()) <= MAX_NAME_BYTES
    assert safe_name(safe) == safe
    assert safe.partition(".")[0].strip().lower() != "con"


@given(st.text(max_size=100))
def test_a_handle_reads_back_as_it_was_written(name: str) -> None:
    handle = handles.Handle("artifact", "a" * 32, "b" * 32, safe_name(name))
    assert handles.parse(str(handle)) == handle


@given(st.text(max_size=200))
def test_nothing_else_is_a_handle(text: str) -> None:
    found = handles.parse(text)
    assert found is None or str(found).startswith(text.partition("://")[0])


@pytest.mark.parametrize(
    ("head", "name", "kind"),
    [
        (b"\x89PNG\r\n\x1a\nrest", "x.txt", "image/png"),
        (b"%PDF-1.7", "x", "application/pdf"),
        (b"PK\x03\x04", "x.docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
        (b"plain text", "x", "text/plain"),
        (b"not a picture", "x.png", "text/plain"),
        (b"\0\1\2", "x", "application/octet-stream"),
        (b"{}", "x.json", "application/json"),
    ],
)
def test_types_are_told_by_bytes_first(head: bytes, name: str, kind: str) -> None:
    assert sniff(head, name) == kind


def test_paths_reach_into_lists_and_objects() -> None:
    value = {"a": {"b": [{"c": "1"}, {"c": ["2", "3"]}, {}]}}
    found = list(argument_paths.parse("a.b[*].c").places(value))
    assert [(place.shown, place.value) for place in found] == [
        ("a.b[0].c", "1"),
        ("a.b[1].c[0]", "2"),
        ("a.b[1].c[1]", "3"),
    ]
    found[2].put("new")
    assert value["a"]["b"][1] == {"c": ["2", "new"]}
