"""Claims about the headers that mirror a 2026-07-28 request."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mooring.errors import HEADER_MISMATCH, HeaderMismatch
from mooring.protocol import routing_headers
from mooring.protocol.routing_headers import InvalidHeaderAnnotation

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VERSION = "2026-07-28"
GOOD = [(b"mcp-protocol-version", VERSION.encode()), (b"mcp-method", b"tools/call"), (b"mcp-name", b"echo")]


@given(texts)
@example("=?base64?")
@example("=?base64?=")
@example("=?base64??=")
@example("=?base64?SGk=?=")
@example(" edge")
@example("tab\tinside")
@example("a\r\nevil: yes")
@example("")
def test_any_text_survives_a_header(text: str) -> None:
    header = routing_headers.encode_value(text)
    assert header.isascii()
    assert header.decode().isprintable(), "no line break, no control character"
    assert header == header.strip(), "nothing that a parser would strip"
    assert routing_headers.decode_value(header) == text


@given(st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=20))
def test_plain_text_stays_readable(text: str) -> None:
    if not text.startswith("=?base64?"):
        assert routing_headers.encode_value(text) == text.encode()


@pytest.mark.parametrize("text", ["é", " a", "a ", "a\tb", "a\nb", "\x7f", "=?base64?YQ==?="])
def test_text_that_a_header_cannot_carry_takes_the_sentinel_form(text: str) -> None:
    expected = b"=?base64?" + base64.b64encode(text.encode()) + b"?="
    assert routing_headers.encode_value(text) == expected


@pytest.mark.parametrize(
    "header",
    [b"\xff", "é".encode(), b"=?base64?***?=", b"=?base64?YQ?=", b"=?base64?/w==?=", b"=?base64?Y Q==?="],
)
def test_a_value_that_cannot_be_read_is_a_mismatch(header: bytes) -> None:
    with pytest.raises(HeaderMismatch):
        routing_headers.decode_value(header)


@pytest.mark.parametrize("header", [b"=?base64?", b"=?base64?=", b"=?BASE64?YQ==?=", b"?=", b"=?base64?YQ=="])
def test_what_only_resembles_a_sentinel_is_taken_as_it_is(header: bytes) -> None:
    assert routing_headers.decode_value(header) == header.decode()


@given(st.sampled_from(sorted(routing_headers.NAMED_BY)), texts)
def test_what_we_write_passes_our_own_check(method: str, name: str) -> None:
    block = routing_headers.write(VERSION, method, name)
    lines = [line.partition(b": ") for line in block.split(b"\r\n")[:-1]]
    headers = [(key, value) for key, _, value in lines]
    assert [key for key, _ in headers] == [b"mcp-protocol-version", b"mcp-method", b"mcp-name"]
    routing_headers.check(headers, VERSION, method, name)


@pytest.mark.parametrize("index", [0, 1, 2])
def test_each_header_must_be_there_once_and_say_what_the_body_says(index: int) -> None:
    routing_headers.check(GOOD, VERSION, "tools/call", "echo")
    key, value = GOOD[index]
    without = GOOD[:index] + GOOD[index + 1 :]
    for headers in (
        without,
        [*GOOD, (key, value)],
        [*without, (key, value + b"x")],
        [*without, (key, value.upper() if value.upper() != value else value + b" ")],
        [*without, (key, b"")],
    ):
        with pytest.raises(HeaderMismatch) as caught:
            routing_headers.check(headers, VERSION, "tools/call", "echo")
        assert caught.value.code == HEADER_MISMATCH


def test_only_the_name_may_come_in_the_sentinel_form() -> None:
    name = (b"mcp-name", b"=?base64?" + base64.b64encode(b"echo") + b"?=")
    routing_headers.check([*GOOD[:2], name], VERSION, "tools/call", "echo")
    method = (b"mcp-method", b"=?base64?" + base64.b64encode(b"tools/call") + b"?=")
    with pytest.raises(HeaderMismatch):
        routing_headers.check([GOOD[0], method, GOOD[2]], VERSION, "tools/call", "echo")


@pytest.mark.parametrize("method", ["tools/list", "server/discover", "completion/complete"])
def test_methods_without_a_name_need_no_name_header(method: str) -> None:
    headers = [GOOD[0], (b"mcp-method", method.encode())]
    routing_headers.check(headers, VERSION, method, None)
    with pytest.raises(HeaderMismatch):
        routing_headers.check(headers, VERSION, "tools/call", "echo")


STRING = {"type": "string"}


def marked(name: object = "Region", kind: object = "string") -> dict[str, Any]:
    return {"type": kind, "x-mcp-header": name}


def schema(**properties: object) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize("kind", ["string", "integer", "boolean"])
def test_primitive_parameters_may_be_mirrored(kind: str) -> None:
    assert routing_headers.annotated(schema(a=marked("A", kind), b=STRING)) == {("a",): "A"}


def test_parameters_of_nested_objects_may_be_mirrored() -> None:
    found = routing_headers.annotated(schema(a=schema(b=schema(c=marked("C"))), d=marked("D")))
    assert found == {("a", "b", "c"): "C", ("d",): "D"}


@pytest.mark.parametrize(
    "name", ["default", "const", "enum", "examples", "x-mcp-header", "properties", "items"]
)
def test_a_parameter_may_be_called_like_a_keyword(name: str) -> None:
    assert routing_headers.annotated(schema(**{name: marked()})) == {(name,): "Region"}
    assert routing_headers.annotated(schema(**{name: STRING})) == {}
    assert routing_headers.annotated(schema(**{name: schema(inner=marked())})) == {(name, "inner"): "Region"}


@pytest.mark.parametrize(
    "name", ["", "a b", "a:b", "é", "a\r\nb", "a\tb", "a(b)", "a/b", '"', "\x00", 5, None, ["A"]]
)
def test_an_annotation_must_be_a_header_token(name: object) -> None:
    with pytest.raises(InvalidHeaderAnnotation):
        routing_headers.annotated(schema(a=marked(name)))


@pytest.mark.parametrize("kind", ["number", "object", "array", "null", None, ["string"], ["string", "null"]])
def test_only_strings_integers_and_booleans_are_mirrored(kind: object) -> None:
    with pytest.raises(InvalidHeaderAnnotation):
        routing_headers.annotated(schema(a=marked("A", kind)))
    with pytest.raises(InvalidHeaderAnnotation):
        routing_headers.annotated(schema(a={"x-mcp-header": "A"}))


@pytest.mark.parametrize(("one", "other"), [("Region", "Region"), ("Region", "REGION"), ("a-B", "A-b")])
def test_names_are_unique_whatever_their_case(one: str, other: str) -> None:
    with pytest.raises(InvalidHeaderAnnotation):
        routing_headers.annotated(schema(a=marked(one), b=schema(c=marked(other))))


@pytest.mark.parametrize(
    "unreachable",
    [
        {"type": "object", "x-mcp-header": "A"},
        schema(a={"type": "array", "items": marked()}),
        schema(a={"type": "array", "prefixItems": [marked()]}),
        schema(a={"type": "array", "contains": marked()}),
        *({**schema(a=STRING), keyword: [schema(b=marked())]} for keyword in ("oneOf", "anyOf", "allOf")),
        *({**schema(a=STRING), keyword: schema(b=marked())} for keyword in ("not", "if", "then", "else")),
        {**schema(a={"$ref": "#/$defs/x"}), "$defs": {"x": marked()}},
        {**schema(a=STRING), "definitions": {"x": marked()}},
        {**schema(a=STRING), "patternProperties": {"^x": marked()}},
        {**schema(a=STRING), "additionalProperties": marked()},
        {**schema(a=STRING), "dependentSchemas": {"a": schema(b=marked())}},
        schema(a={"anyOf": [marked(), {"type": "null"}]}),
    ],
)
def test_an_annotation_off_the_path_of_properties_makes_the_tool_invalid(unreachable: dict[str, Any]) -> None:
    with pytest.raises(InvalidHeaderAnnotation):
        routing_headers.annotated(unreachable)


@pytest.mark.parametrize("keyword", ["default", "const", "enum", "examples"])
def test_data_that_looks_like_an_annotation_is_none(keyword: str) -> None:
    data: object = {"x-mcp-header": "A"} if keyword in ("default", "const") else [{"x-mcp-header": "A"}]
    assert routing_headers.annotated(schema(a={"type": "object", keyword: data})) == {}


@pytest.mark.parametrize("odd", [None, True, [], 5, {}, {"properties": []}, {"properties": {"a": True}}])
def test_schemas_without_properties_have_no_annotations(odd: object) -> None:
    assert routing_headers.annotated(odd) == {}


def test_a_deep_schema_is_walked_without_recursion() -> None:
    deep = marked()
    for _ in range(5000):
        deep = schema(a=deep)
    assert routing_headers.annotated(deep) == {("a",) * 5000: "Region"}


primitives = st.none() | st.booleans() | st.integers(-(2**60), 2**60) | texts
arguments = st.fixed_dictionaries(
    {},
    optional={
        "a": primitives,
        "b": primitives,
        "nested": st.fixed_dictionaries({}, optional={"c": primitives}),
    },
)
ANNOTATIONS = {("a",): "A", ("b",): "B-b", ("nested", "c"): "C"}


@given(arguments)
def test_the_parameter_headers_we_write_pass_our_own_check(given_arguments: dict[str, Any]) -> None:
    block = routing_headers.param_headers(ANNOTATIONS, given_arguments)
    routing_headers.check_params(ANNOTATIONS, given_arguments, block)
    lines = block.split(b"\r\n")[:-1]
    values = [given_arguments.get("a"), given_arguments.get("b"), given_arguments.get("nested", {}).get("c")]
    assert len(lines) == sum(value is not None for value in values), "absent and null values have no header"


words = st.none() | st.booleans() | st.integers(-20, 20) | st.text("ab", max_size=2)


@given(words, words)
def test_headers_of_other_arguments_are_refused(one: object, other: object) -> None:
    annotations = {("a",): "A"}
    block = routing_headers.param_headers(annotations, {"a": one})
    if one == other and type(one) is type(other):
        routing_headers.check_params(annotations, {"a": other}, block)
    else:
        with pytest.raises(HeaderMismatch):
            routing_headers.check_params(annotations, {"a": other}, block)


@pytest.mark.parametrize(
    ("value", "header"),
    [
        (42, b"42"),
        (42, b"42.0"),
        (42, b"4.2e1"),
        (-7, b"-7"),
        (42.0, b"42"),
        (True, b"true"),
        (False, b"false"),
    ],
)
def test_numbers_are_compared_as_numbers(value: object, header: bytes) -> None:
    routing_headers.check_params({("a",): "A"}, {"a": value}, b"mcp-param-a: %b\r\n" % header)
    with pytest.raises(HeaderMismatch):
        routing_headers.check_params({("a",): "A"}, {"a": value}, b"mcp-param-a: 1%b\r\n" % header)


@pytest.mark.parametrize(
    ("value", "header"),
    [
        *((42, header) for header in (b"43", b"4_2", b"+42", b"0x2a", b"", b"42 ", b"nan", b"inf", b"true")),
        (42, b"=?base64?" + base64.b64encode("٤٢".encode()) + b"?="),
        (2**53, b"9007199254740993"),
        (2**53 + 1, b"9007199254740992"),
        (1, b"true"),
        (True, b"1"),
        (True, b"True"),
        ("42", b"42.0"),
        ("a", b"A"),
        (0, b"1e-400"),
        (1, b"1e999999999"),
    ],
)
def test_a_header_that_another_reader_may_take_for_something_else_is_refused(
    value: object, header: bytes
) -> None:
    with pytest.raises(HeaderMismatch):
        routing_headers.check_params({("a",): "A"}, {"a": value}, b"mcp-param-a: %b\r\n" % header)


@pytest.mark.parametrize("given_arguments", [{}, {"a": None}, {"a": {"b": 1}}, None, [], "x"])
def test_a_header_without_an_argument_and_an_argument_without_a_header_are_refused(
    given_arguments: object,
) -> None:
    with pytest.raises(HeaderMismatch, match="no counterpart"):
        routing_headers.check_params({("a",): "A"}, given_arguments, b"mcp-param-a: x\r\n")
    routing_headers.check_params({("a",): "A"}, given_arguments, b"")
    with pytest.raises(HeaderMismatch, match="missing"):
        routing_headers.check_params({("a",): "A"}, {"a": "x"}, b"mcp-param-b: x\r\n")


def test_headers_that_no_annotation_names_are_left_alone() -> None:
    others = b"mcp-param-other: y\r\n"
    routing_headers.check_params({("a",): "A"}, {"a": "x"}, others + b"mcp-param-a: x\r\n")
    with pytest.raises(HeaderMismatch):
        routing_headers.check_params({("a",): "A"}, {"a": "x"}, others + b"mcp-param-a: y\r\n")
