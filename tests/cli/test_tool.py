"""`mooring tool`: a server used from the terminal."""

from __future__ import annotations

import base64
import io
import json
import os
import pty
import subprocess
from pathlib import Path
from typing import Any

import pytest

from mooring.interfaces.cli.arguments import tool_arguments, words_as_texts
from mooring.interfaces.cli.content import Printer
from mooring.interfaces.cli.failure import Failed

PNG = base64.b64encode(b"not really a picture").decode()


def test_tools_are_listed_with_arguments_and_first_sentence(mooring: Any) -> None:
    done = mooring("tool", "list", "library")
    assert done.stdout.splitlines() == [
        "tool          arguments  what it does",
        "search_books  query      Find books by a word in title or author.",
        "index_books   [steps]    Build the index anew, with progress.",
        "borrow_book   id         Borrow a book.",
    ]


def test_a_call_prints_structured_content_once(mooring: Any) -> None:
    done = mooring("tool", "call", "library", "search_books", "query=Carson")
    assert done.returncode == 0
    assert json.loads(done.stdout)["books"][0]["title"] == "The Sea Around Us"


def test_progress_goes_to_stderr_and_the_answer_to_stdout(mooring: Any) -> None:
    done = mooring("tool", "call", "library", "index_books", "steps=2")
    assert done.stdout == "indexed 2 shelves\n"
    assert done.stderr == "progress 1/2  shelf 1\nprogress 2/2  shelf 2\n"


def test_on_a_terminal_progress_is_one_line_that_changes(mooring: Any) -> None:
    code, shown = mooring.at_a_terminal(60, "tool", "call", "library", "index_books", "steps=2")
    assert code == 0
    clear = "\x1b[K"
    assert shown == [
        "",
        f"{clear}progress 1/2  shelf 1",
        f"{clear}progress 2/2  shelf 2",
        "indexed 2 shelves",
    ]
    mooring.environment["TERM"] = "dumb"
    _, shown = mooring.at_a_terminal(60, "tool", "call", "library", "index_books", "steps=2")
    assert shown == ["progress 1/2  shelf 1", "progress 2/2  shelf 2", "indexed 2 shelves"]


def test_a_tool_that_failed_is_exit_1_with_its_words_on_stderr(mooring: Any) -> None:
    done = mooring("tool", "call", "library", "borrow_book", "id=99")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "there is no book `99`\n"


def test_a_script_is_not_asked_questions(mooring: Any) -> None:
    assert mooring("tool", "call", "library", "borrow_book", '{"id": "1"}').stdout.endswith("for 14 days\n")


def test_a_person_is_asked_what_the_server_wants_to_know(mooring: Any) -> None:
    master, terminal = pty.openpty()
    command = mooring.arguments("tool", "call", "library", "borrow_book", "id=2")
    with subprocess.Popen(
        command,
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=mooring.environment,
        cwd=mooring.folder,
    ) as process:
        os.close(terminal)
        os.write(master, b"\nmany\n3\n")
        out, err = process.communicate(timeout=20)
    os.close(master)
    assert out.decode() == "you have “Moby-Dick” for 3 days\n"
    assert "the server asks: For how many days" in err.decode()
    assert "Days [14]: " in err.decode()
    assert "type a whole number" in err.decode()


def test_the_raw_result_is_there_for_programs(mooring: Any) -> None:
    done = mooring("tool", "call", "library", "search_books", "query=zzz", "--format", "json")
    assert json.loads(done.stdout)["structuredContent"] == {"books": []}


def test_an_unknown_tool_is_said_with_the_known_ones(mooring: Any) -> None:
    done = mooring("tool", "call", "library", "lend", "id=1")
    assert done.returncode == 1
    assert "there is no tool `lend`; it has: `search_books`, `index_books`, `borrow_book`" in done.stderr


def test_an_unknown_server_is_said_with_the_way_to_the_known_ones(mooring: Any) -> None:
    done = mooring("tool", "list", "nobody")
    assert done.stderr == "error: no server is called `nobody`; `mooring status` shows those there are\n"


def test_resources_are_listed_and_read(mooring: Any) -> None:
    listed = mooring("tool", "read", "library").stdout
    assert "book://2     -     Moby-Dick" in listed
    assert "book://{id}" in listed
    assert json.loads(mooring("tool", "read", "library", "book://2").stdout)["author"] == "Herman Melville"
    missing = mooring("tool", "read", "library", "book://9")
    assert (missing.returncode, missing.stderr) == (1, "error: there is no book `9` (code -32002)\n")


def test_what_the_server_does_not_know_is_said(mooring: Any) -> None:
    done = mooring("tool", "prompt", "library")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "it has no prompts\n")
    done = mooring("tool", "prompt", "library", "greet")
    assert (done.returncode, done.stderr) == (1, "error: there is no method `prompts/get` (code -32601)\n")


def test_words_become_what_the_schema_wants() -> None:
    schema = {
        "properties": {
            "name": {"type": "string"}, "count": {"type": "integer"}, "on": {"type": "boolean"},
            "maybe": {"type": ["string", "null"]}, "list": {"type": "array"},
        }
    }  # fmt: skip
    words = ["name=5", "count=5", "on=true", "maybe=null", "list=[1]", 'raw:={"a":1}', "free=x=y"]
    assert tool_arguments(words, lambda: schema) == {
        "name": "5", "count": 5, "on": True, "maybe": "null", "list": [1], "raw": {"a": 1}, "free": "x=y",
    }  # fmt: skip


def test_the_schema_is_not_asked_for_when_it_decides_nothing() -> None:
    def never() -> dict[str, Any]:
        raise AssertionError

    assert tool_arguments(['{"a": 1}'], never) == {"a": 1}
    assert tool_arguments(["a:=1"], never) == {"a": 1}
    assert tool_arguments([], never) == {}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["x"], "write key=value"),
        (["=x"], "write key=value"),
        (["{"], "is not JSON"),
        (["{}", "a=1"], "not both"),
        (["n=x"], "`n` must be"),
    ],
)
def test_wrong_arguments_are_said(words: list[str], said: str) -> None:
    with pytest.raises(Failed, match=said):
        tool_arguments(words, lambda: {"properties": {"n": {"type": "integer"}}})


def test_prompt_arguments_are_always_texts() -> None:
    assert words_as_texts(["n=5"]) == {"n": "5"}


def shown(folder: Path | None, result: dict[str, Any]) -> str:
    stream = io.StringIO()
    Printer(folder, "take photo/../x").result(result, stream)
    return stream.getvalue()


def test_a_picture_is_named_with_type_and_size() -> None:
    picture = {"type": "image", "data": PNG, "mimeType": "image/png"}
    assert shown(None, {"content": [picture]}) == "[image image/png, 20 B: save it with --output DIR]\n"


def test_files_are_saved_under_our_own_names_and_never_replace_one(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    content = [
        {"type": "image", "data": PNG, "mimeType": "image/png"},
        {"type": "image", "data": PNG, "mimeType": "image/png"},
        {"type": "resource", "resource": {"uri": "file:///../../etc/passwd", "blob": PNG}},
    ]
    assert "saved as" in shown(folder, {"content": content})
    assert sorted(path.name for path in folder.iterdir()) == [
        "take-photo-x-1.bin",
        "take-photo-x-1.png",
        "take-photo-x-2.png",
    ]
    assert (folder / "take-photo-x-1.png").read_bytes() == b"not really a picture"


def test_other_blocks_are_shown_in_words() -> None:
    content = [
        {"type": "resource_link", "uri": "file:///a", "name": "A"},
        {"type": "resource", "resource": {"uri": "x", "text": "inside"}},
        {"type": "novelty", "x": 1},
    ]
    assert shown(None, {"content": content}) == 'file:///a  A\ninside\n{"type": "novelty", "x": 1}\n'


def test_text_beside_different_structured_content_is_kept() -> None:
    assert (
        shown(None, {"content": [{"type": "text", "text": "hi"}], "structuredContent": {"a": 1}})
        == 'hi\n{\n  "a": 1\n}\n'
    )


CITY = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("word", "wanted"),
    [
        ("city:=Bergen", "`Bergen` is not JSON: a text is given as city=Bergen"),
        ("days=many", "`days` must be an integer, not `many`"),
        ("{c: 1}", "`{c: 1}` is not JSON (expecting property name enclosed in double quotes, column 2)"),
        ("ctiy=Bergen", "there is no argument `ctiy`: did you mean `city`?"),
        ("ctiy@=Bergen", "there is no argument `ctiy`: did you mean `city`?"),
        ("where@=Bergen", "there is no argument `where`: there are `city`, `days`"),
    ],
)  # fmt: skip
def test_a_wrong_argument_is_told_in_words_that_help(word: str, wanted: str) -> None:
    with pytest.raises(Failed) as raised:
        tool_arguments([word], lambda: CITY, lambda path: f"upload://{path}")
    assert (
        str(raised.value).removesuffix(": write key=value, key:=JSON, key@=FILE, or one JSON object")
        == wanted
    )


@pytest.mark.parametrize("more", [{"additionalProperties": True}, {"anyOf": []}, {"properties": {}}])
def test_a_tool_that_takes_more_than_it_names_gets_it(more: dict[str, Any]) -> None:
    assert tool_arguments(["ctiy=Bergen"], lambda: {**CITY, **more}) == {"ctiy": "Bergen"}


def test_what_may_be_meant_is_the_server_s_to_judge() -> None:
    assert tool_arguments(["where=Bergen"], lambda: CITY) == {"where": "Bergen"}
    assert tool_arguments(["ctiy:=1"], lambda: CITY) == {"ctiy": 1}


def test_whoever_names_a_file_where_a_tool_fails_learns_how_to_send_it(mooring: Any) -> None:
    (mooring.folder / "99").write_text("a file")
    done = mooring("tool", "call", "library", "borrow_book", "id=99")
    assert done.returncode == 1
    assert done.stderr == "there is no book `99`\nto send the file `99`, write id@=99\n"
