"""The server that the official conformance suite expects, written with `mooring.authoring`.

Its URL, if it has one, is the first line on stdout.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import struct
import zlib
from dataclasses import dataclass
from typing import Annotated, Any

from mooring.authoring import (
    Audio,
    Cache,
    ClientCannot,
    Contents,
    Context,
    Embedded,
    Header,
    HttpSettings,
    Image,
    Message,
    Server,
    ToolError,
)

WATCHED = "test://watched-resource"
# The suite's scenarios name this pause: long enough that a buffering peer shows.
PAUSE_SECONDS = 0.05
AWAY_SECONDS = 0.2
RETRY_SECONDS = 0.5

server = Server(
    "authored-fixture",
    version="1.0.0",
    instructions="Call the tools by the names the conformance suite expects.",
    cache=Cache(ttl_seconds=1, scope="public"),
    state_key=b"the authored fixture's own key",
)


# Content


def _png_chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def one_red_pixel() -> bytes:
    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"\x00\xff\x00\x00")
    chunks = [_png_chunk(b"IHDR", header), _png_chunk(b"IDAT", pixels), _png_chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def eight_silent_samples() -> bytes:
    samples = b"\x80" * 8
    layout = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, 8000, 8000, 1, 8)
    body = b"WAVE" + layout + struct.pack("<4sI", b"data", len(samples)) + samples
    return b"RIFF" + struct.pack("<I", len(body)) + body


PICTURE = Image(one_red_pixel(), "image/png")


# Plain tools


# First on purpose: the header checks call whichever tool comes first, without arguments.
@server.tool
def test_simple_text() -> str:
    """Returns one sentence."""
    return "One simple sentence."


@server.tool
def test_image_content() -> Image:
    """Returns a picture."""
    return PICTURE


@server.tool
def test_audio_content() -> Audio:
    """Returns a sound."""
    return Audio(eight_silent_samples(), "audio/wav")


@server.tool
def test_embedded_resource() -> Embedded:
    """Returns an embedded resource."""
    return Embedded(Contents("test://embedded-resource", "An embedded resource.", "text/plain"))


@server.tool
def test_multiple_content_types() -> list[str | Image | Embedded]:
    """Returns text, a picture and a resource."""
    document = Contents("test://mixed-content-resource", '{"test": "data"}', "application/json")
    return ["Several kinds of content:", PICTURE, Embedded(document)]


@server.tool
def test_error_handling() -> str:
    """Always fails."""
    raise ToolError("This tool always fails.")


@server.tool
async def test_tool_with_logging(ctx: Context) -> str:
    """Logs three lines while it works."""
    for line in ("started", "working", "finished"):
        await ctx.info(line)
        await asyncio.sleep(PAUSE_SECONDS)
    return "logged three lines"


@server.tool
def test_logging_tool(ctx: Context) -> str:
    """Logs one line."""
    ctx.info("one line")
    return "logged"


@server.tool
async def test_tool_with_progress(ctx: Context) -> str:
    """Reports progress three times."""
    for progress in (0, 50, 100):
        await ctx.progress(progress, 100)
        await asyncio.sleep(PAUSE_SECONDS)
    return "reported progress"


@server.tool
async def test_reconnection(ctx: Context) -> str:
    """Closes the stream of its call and answers later."""
    ctx.close_stream(RETRY_SECONDS)
    await asyncio.sleep(AWAY_SECONDS)
    return "answered after the stream was closed"


def _dynamic_tool() -> str:
    """Comes and goes on demand."""
    return "Here for a moment."


def _dynamic_prompt() -> str:
    """Comes and goes on demand."""
    return "Here for a moment."


@server.tool
async def test_trigger_tool_change() -> str:
    """Changes the list of tools."""
    try:
        server.remove_tool("test_dynamic_tool")
    except KeyError:
        server.tool(name="test_dynamic_tool")(_dynamic_tool)
    return "the list of tools has changed"


@server.tool
async def test_trigger_prompt_change() -> str:
    """Changes the list of prompts."""
    try:
        server.remove_prompt("test_dynamic_prompt")
    except KeyError:
        server.prompt(name="test_dynamic_prompt")(_dynamic_prompt)
    return "the list of prompts has changed"


@server.tool
def test_trigger_resource_update(ctx: Context) -> str:
    """Announces that the watched resource changed."""
    ctx.resource_updated(WATCHED)
    return "the watched resource has changed"


@server.tool
def test_x_mcp_header(region: Annotated[str, Header("Region")]) -> str:
    """Mirrors a header."""
    return f"called in {region}"


# The suite looks for each of these keywords by name.
EVERY_KEYWORD: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


@server.tool(input_schema=EVERY_KEYWORD)
def json_schema_2020_12_tool(**arguments: Any) -> str:
    """Has a schema with every keyword."""
    return f"called with {arguments!r}"


# Tools that need something from the client


@dataclass
class Contact:
    username: str
    email: str


@dataclass
class UserName:
    user_name: str


@dataclass
class Confirmation:
    confirm: bool


def form(**fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": list(fields)}


def titled(*pairs: tuple[str, str]) -> list[dict[str, str]]:
    return [{"const": value, "title": title} for value, title in pairs]


DEFAULTS = form(
    name={"type": "string", "default": "John Doe"},
    age={"type": "integer", "default": 30},
    score={"type": "number", "default": 95.5},
    status={"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    verified={"type": "boolean", "default": True},
)
OPTIONS = ["option1", "option2", "option3"]
CHOICES = form(
    untitledSingle={"type": "string", "enum": OPTIONS},
    titledSingle={"type": "string", "oneOf": titled(("value1", "First"), ("value2", "Second"))},
    legacyEnum={"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option one", "Option two"]},
    untitledMulti={"type": "array", "items": {"type": "string", "enum": OPTIONS}},
    titledMulti={"type": "array", "items": {"anyOf": titled(("value1", "First"), ("value2", "Second"))}},
)


def spelled(answer: Any) -> str:
    return json.dumps({"action": answer.action, "content": answer.content}, default=vars)


@server.tool
async def test_sampling(prompt: str, ctx: Context) -> str:
    """Asks the client's model."""
    return f"the model said: {(await ctx.sample(prompt, max_tokens=100)).text}"


@server.tool
async def test_elicitation(message: str, ctx: Context) -> str:
    """Asks the user."""
    return spelled(await ctx.elicit(message, Contact, key="contact"))


@server.tool
async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    """Asks with a default for every primitive type."""
    return spelled(await ctx.elicit("Please check these values", DEFAULTS))


@server.tool
async def test_elicitation_sep1330_enums(ctx: Context) -> str:
    """Asks with every kind of choice."""
    return spelled(await ctx.elicit("Please choose", CHOICES))


async def _greet(ctx: Context) -> str:
    answer = await ctx.elicit("What is your name?", UserName)
    return f"Hello, {answer.content.user_name if answer.content else answer.action}!"


@server.tool
async def test_streaming_elicitation(ctx: Context) -> str:
    """Asks the user, on the stream of the call."""
    return await _greet(ctx)


@server.tool
async def test_missing_capability(ctx: Context) -> str:
    """Needs sampling."""
    return (await ctx.sample("What is the capital of France?")).text


@server.tool
async def test_input_required_result_elicitation(ctx: Context) -> str:
    """Asks for a name."""
    return await _greet(ctx)


@server.tool
async def test_input_required_result_sampling(ctx: Context) -> str:
    """Asks the client's model for a capital."""
    return (await ctx.sample("What is the capital of France?", key="capital_question")).text


@server.tool
async def test_input_required_result_list_roots(ctx: Context) -> str:
    """Asks for the client's roots."""
    return ", ".join(root.uri for root in await ctx.roots(key="client_roots"))


async def _confirm(ctx: Context) -> str:
    return f"state-ok {spelled(await ctx.elicit('Please confirm', Confirmation))}"


@server.tool
async def test_input_required_result_request_state(ctx: Context) -> str:
    """Asks, and remembers that it did."""
    return await _confirm(ctx)


@server.tool
async def test_input_required_result_tampered_state(ctx: Context) -> str:
    """Asks, and refuses a forged memory."""
    return await _confirm(ctx)


@server.tool
async def test_input_required_result_multiple_inputs(ctx: Context) -> str:
    """Asks for three things at once."""
    name, greeting, roots = await asyncio.gather(
        ctx.elicit("What is your name?", UserName),
        ctx.sample("Write a greeting", max_tokens=50, key="greeting"),
        ctx.roots(key="client_roots"),
    )
    return f"{greeting.text} {spelled(name)} {len(roots)}"


@server.tool
async def test_input_required_result_multi_round(ctx: Context) -> str:
    """Asks twice, one after the other."""
    name = await ctx.elicit("What is your name?", form(name={"type": "string"}), key="step1")
    colour = await ctx.elicit("Which colour do you like?", form(colour={"type": "string"}), key="step2")
    return f"{spelled(name)} {spelled(colour)}"


@server.tool
async def test_input_required_result_capabilities(ctx: Context) -> str:
    """Asks only for what the client declared."""
    said: list[str] = []
    for ask in (
        lambda: ctx.sample("What do you think?", key="opinion"),
        lambda: ctx.elicit("Do you agree?", Confirmation, key="confirmation"),
    ):
        try:
            said.append(str(await ask()))
        except ClientCannot as cannot:
            said.append(f"not asked for {', '.join(cannot.capabilities)}")
    return "; ".join(said)


# Resources, prompts, completions


@server.resource("test://static-text", name="Static text", mime_type="text/plain")
def static_text() -> str:
    """A text."""
    return "Static text, always the same."


@server.resource("test://static-binary", name="Static binary", mime_type="image/png")
def static_binary() -> bytes:
    """A picture."""
    return PICTURE.data


@server.resource(WATCHED, name="Watched", mime_type="text/plain")
def watched() -> str:
    """Changes on demand."""
    return "Watch me."


@server.resource_template("test://template/{id}/data", name="Data by id", mime_type="application/json")
def template_data(id: str) -> dict[str, str]:  # noqa: A002 - as the template has it
    """One document per id."""
    return {"id": id, "data": f"Data for {id}"}


@server.prompt
def test_simple_prompt() -> str:
    """One sentence, no arguments."""
    return "Say something simple."


@server.prompt
def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """Repeats its arguments.

    Args:
        arg1: First
        arg2: Second
    """
    return f"arg1 is {arg1}, arg2 is {arg2}"


@server.prompt
def test_prompt_with_embedded_resource(resourceUri: str) -> list[Embedded | str]:  # noqa: N803 - its name
    """Embeds the named resource."""
    embedded = Embedded(Contents(resourceUri, "Embedded for the test.", "text/plain"))
    return [embedded, "Work with the resource above."]


@server.prompt
def test_prompt_with_image() -> list[Message]:
    """Shows a picture."""
    return [Message(PICTURE), Message("Describe the picture above.")]


@server.prompt
async def test_input_required_result_prompt(ctx: Context) -> str:
    """Asks for context before it answers."""
    wanted = form(user_context={"type": "string"})
    return spelled(await ctx.elicit("Which context shall the prompt use?", wanted))


@server.completion(test_prompt_with_arguments, "arg1")
@server.completion("test://template/{id}/data", "id")
def words(value: str) -> list[str]:
    return [word for word in ("paris", "park", "party", "test", "testing") if word.startswith(value)]


async def serve_http(port: int, *, sse: bool) -> None:
    async with server.serving_http(HttpSettings(port=port, always_stream=True)) as url:
        print(url.removesuffix("/mcp") + "/sse" if sse else url, flush=True)
        await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(description="the conformance fixture, authored")
    parser.add_argument("--transport", choices=("http", "sse", "stdio"), default="http")
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    if options.transport == "stdio":
        server.run()
    else:
        asyncio.run(serve_http(options.port, sse=options.transport == "sse"))


if __name__ == "__main__":
    main()
