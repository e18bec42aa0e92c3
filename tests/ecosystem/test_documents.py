"""Changing one entry of somebody's file: everything outside of it stays, byte for byte."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.ecosystem.documents.editing import DocumentError, Section, drop, entries, put, read
from mooring.ecosystem.documents.json_reader import read_json

JSON = Section("json", "mcpServers")
YAML_MAP = Section("yaml", "extensions")
YAML_LIST = Section("yaml", "mcpServers", "list")
TOML_MAP = Section("toml", "mcp_servers")
TOML_LIST = Section("toml", "mcp_servers", "list")
ENTRY = {"type": "http", "url": "http://127.0.0.1:7433/mcp/notes"}

names = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cs", "Cc", "Zl", "Zp")), min_size=1, max_size=12
)
plain_names = st.from_regex(r"[a-z][a-z0-9 ._-]{0,8}[a-z0-9]", fullmatch=True)
new_entries = st.dictionaries(
    st.sampled_from(["url", "type", "headers", "note"]),
    st.one_of(names, st.booleans(), st.integers(0, 99), st.lists(names, max_size=3)),
    max_size=4,
)


def is_subsequence(part: str, whole: str) -> bool:
    rest = iter(whole)
    return all(character in rest for character in part)


# ---------------------------------------------------------------- JSON, as wild as people write it


@st.composite
def json_texts(draw: st.DrawFn, depth: int = 0) -> str:
    """The text of a value, with comments and blanks anywhere JSON5 allows them."""
    kinds = ["number", "text", "word"] + (["object", "array"] if depth < 3 else [])
    kind = draw(st.sampled_from(kinds))
    if kind == "number":
        return draw(st.sampled_from(["0", "-1.5e3", "0x1F", "+.5", "Infinity", "NaN", "7."]))
    if kind == "word":
        return draw(st.sampled_from(["true", "false", "null"]))
    if kind == "text":
        return draw(
            st.one_of(names.map(json.dumps), st.sampled_from(["'a\"b'", "'\\\n'", '"// no comment"']))
        )
    if kind == "array":
        return listed(draw, "[", "]", [draw(json_texts(depth + 1)) for _ in range(draw(st.integers(0, 3)))])
    return json_object(draw, depth)


def json_object(draw: st.DrawFn, depth: int, more: dict[str, str] | None = None) -> str:
    keys = draw(st.lists(plain_names, max_size=3, unique=True))
    members = {key: draw(json_texts(depth + 1)) for key in keys} | (more or {})
    written = [
        f"{draw(quoted(key))}{draw(gaps)}:{draw(gaps)}{value}"
        for key, value in draw(shuffled(members)).items()
    ]
    return listed(draw, "{", "}", written)


def quoted(key: str) -> st.SearchStrategy[str]:
    forms = [json.dumps(key), f"'{key}'"] + ([key] if key.isidentifier() else [])
    return st.sampled_from(forms)


def shuffled(members: dict[str, str]) -> st.SearchStrategy[dict[str, str]]:
    return st.permutations(list(members.items())).map(dict)


def listed(draw: st.DrawFn, opening: str, closing: str, parts: list[str]) -> str:
    inner = f"{draw(gaps)},{draw(gaps)}".join(parts)
    trailing = "," if parts and draw(st.booleans()) else ""
    return f"{opening}{draw(gaps)}{inner}{draw(gaps)}{trailing}{draw(gaps)}{closing}"


gaps = st.sampled_from(["", "", " ", "\n", "\r\n\t", " // c\n", "/* c */", "\n  ", " /* }, */ \n"])


@st.composite
def json_files(draw: st.DrawFn) -> str:
    servers = json_object(draw, 1) if draw(st.booleans()) else None
    root = json_object(draw, 0, {"mcpServers": servers} if servers is not None else {})
    return draw(gaps) + root + draw(gaps)


@settings(max_examples=150, deadline=None)
@given(json_files(), names, new_entries)
def test_json_keeps_every_byte_outside_the_entry(text: str, name: str, entry: dict[str, Any]) -> None:
    had = entries(text, JSON)
    made = put(text, JSON, name, entry)
    assert entries(made, JSON)[name] == entry
    if name in had:
        return
    assert is_subsequence(text, made)
    gone = drop(made, JSON, name)
    if had:
        assert gone == text


@settings(max_examples=150, deadline=None)
@given(json_files(), st.data())
def test_json_loses_no_comment_and_no_neighbour_when_an_entry_goes(text: str, data: st.DataObject) -> None:
    had = entries(text, JSON)
    if not had:
        return
    name = data.draw(st.sampled_from(sorted(had)))
    left = drop(text, JSON, name)
    assert is_subsequence(left.replace("{}", ""), text)
    root = read_json(text)
    assert root is not None
    section = root.member("mcpServers")
    assert section is not None
    outside = text[: section.value.start] + text[section.value.end :]
    assert is_subsequence(outside, left)
    for member in section.value.members or []:
        if member.key != name:
            assert text[member.value.start : member.value.end] in left


# ---------------------------------------------------------------- YAML and TOML, block by block

yaml_values = st.sampled_from(
    ["1", "'quoted: yes'", '"a # b"', "plain text", "|\n      literal\n      lines", "[a, {b: c}]"]
)


@st.composite
def yaml_files(draw: st.DrawFn, section: Section) -> str:
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    lines = draw(
        st.lists(
            st.sampled_from(["# note", "a: 1  # one", "b: {c: [d]}", "", "e: 'f'"]), max_size=3, unique=True
        )
    )
    body: list[str] = []
    if draw(st.booleans()):
        indent = (
            draw(st.sampled_from(["  ", "    "]))
            if section.shape == "map"
            else draw(st.sampled_from(["", "  "]))
        )
        body = [f"{section.key}:"]
        for name in draw(st.lists(plain_names, min_size=1, max_size=3, unique=True)):
            value = draw(yaml_values).replace("\n", f"\n{indent}")
            head = (
                f"{indent}{json.dumps(name)}:"
                if section.shape == "map"
                else f"{indent}- name: {json.dumps(name)}"
            )
            body += [
                head,
                *f"{indent}  uri: {value}".split("\n"),
                *draw(st.sampled_from([[], [f"{indent}# under"], [""]])),
            ]
    where = draw(st.integers(0, len(lines)))
    text = newline.join([*lines[:where], *body, *lines[where:]])
    # Behind a literal text at the very end, a line end would change that text.
    return text + (newline if "|" in text or draw(st.booleans()) else "")


@st.composite
def toml_files(draw: st.DrawFn, section: Section) -> str:
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    lines = draw(
        st.lists(
            st.sampled_from(["# note", "a = 1 # one", 'b = """', "", "e = 'f'"]), max_size=3, unique=True
        )
    )
    text = newline.join(lines).replace('b = """', 'b = """\n[mcp_servers.fake]\n"""') + newline
    for name in draw(st.lists(plain_names, max_size=3, unique=True)):
        if section.shape == "map":
            head = f"[mcp_servers.{json.dumps(name)}]"
        else:
            head = f"[[mcp_servers]]{newline}name = {json.dumps(name)}"
        text += f'{head}{newline}args = [{newline}  "x", # c{newline}]{newline}' + draw(
            st.sampled_from(["", newline])
        )
        if draw(st.booleans()) and section.shape == "map":
            text += f"[mcp_servers.{json.dumps(name)}.env]{newline}A = 'b' # d{newline}"
    return text + draw(
        st.sampled_from(["", f"# about z{newline}[z]{newline}y = 1{newline}", f"{newline}[z]"])
    )


@pytest.mark.parametrize(
    "section", [YAML_MAP, YAML_LIST, TOML_MAP, TOML_LIST], ids=lambda s: f"{s.format}-{s.shape}"
)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_yaml_and_toml_keep_every_byte_outside_the_entry(section: Section, data: st.DataObject) -> None:
    text = data.draw(yaml_files(section) if section.format == "yaml" else toml_files(section))
    name, entry = data.draw(plain_names), data.draw(new_entries)
    had = entries(text, section)
    made = put(text, section, name, entry)
    assert entries(made, section)[name] == entry
    if name not in had:
        assert is_subsequence(text, made)
        if had and text.endswith("\n"):
            assert drop(made, section, name) == text
    for other in had:
        left = drop(text, section, other)
        assert is_subsequence(left.replace(" {}", "").replace(" []", ""), text)
        assert other not in entries(left, section)


# ---------------------------------------------------------------- examples


def test_an_entry_lands_where_a_person_would_write_it() -> None:
    text = '{\n  // mine\n  "mcpServers": {\n    "x": {"command": "y"} // keep\n  },\n  "theme": "dark"\n}\n'
    assert put(text, JSON, "notes", ENTRY) == (
        '{\n  // mine\n  "mcpServers": {\n    "x": {"command": "y"}, // keep\n    "notes": {\n'
        '      "type": "http",\n      "url": "http://127.0.0.1:7433/mcp/notes"\n    }\n  },\n'
        '  "theme": "dark"\n}\n'
    )


@pytest.mark.parametrize("section", [JSON, YAML_MAP, YAML_LIST, TOML_MAP, TOML_LIST])
@pytest.mark.parametrize("text", ["", "\n", "\r\n"])
def test_an_empty_file_gets_its_first_entry(section: Section, text: str) -> None:
    made = put(text, section, "a b", ENTRY)
    assert entries(made, section) == {"a b": ENTRY}
    assert read(drop(made, section, "a b"), section.format).get(section.key) in ({}, [], None)


@pytest.mark.parametrize(
    ("section", "text"),
    [
        (JSON, '{"mcpServers": {}'),
        (JSON, '{"mcpServers": []}'),
        (JSON, '{"mcpServers": [1]}'),
        (JSON, "[1]"),
        (JSON, '{"a": "open}'),
        (JSON, "{" * 500),
        (JSON, "{} {}"),
        (YAML_MAP, "extensions: [a]\n"),
        (YAML_MAP, "a: 1\n---\nb: 2\n"),
        (YAML_MAP, "a: [\n"),
        (YAML_MAP, "- a\n"),
        (YAML_LIST, "mcpServers: {a: {}}\n"),
        (TOML_MAP, "mcp_servers = 1\n"),
        (TOML_MAP, "a = \n"),
        (TOML_LIST, "[mcp_servers.a]\nx = 1\n"),
    ],
)
def test_a_file_that_cannot_be_changed_safely_is_refused(section: Section, text: str) -> None:
    with pytest.raises(DocumentError):
        put(text, section, "a", ENTRY)


def test_dropping_what_is_not_there_changes_nothing() -> None:
    assert drop('{"mcpServers": {}}', JSON, "a") == '{"mcpServers": {}}'


def test_a_name_that_stands_twice_goes_both_times() -> None:
    assert drop('{"mcpServers": {"a": {}, "b": {}, "a": {}}}', JSON, "a") == '{"mcpServers": {"b": {}}}'


def test_texts_of_json5_mean_what_they_say() -> None:
    root = read_json('{a: \'it\\\'s\', "b": "\\u00e9\\x41\\\n!", c: "\\ud83d\\ude00"}')
    assert root is not None
    assert root.value == {"a": "it's", "b": "éA!", "c": "😀"}
