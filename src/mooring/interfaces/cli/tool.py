"""`mooring tool list|call|read|prompt`: use a server through the running gateway."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mooring.interfaces.cli.arguments import tool_arguments, words_as_texts
from mooring.interfaces.cli.call_files import CallFiles, with_places
from mooring.interfaces.cli.client import Client, Message, RpcFailed
from mooring.interfaces.cli.content import Printer
from mooring.interfaces.cli.failure import Failed
from mooring.interfaces.cli.gateway_socket import find_socket
from mooring.interfaces.cli.notices import Notices
from mooring.interfaces.cli.output import one_line, print_table, size, styled, wants_colour


def list_tools(arguments: argparse.Namespace) -> int:
    """Print name, arguments and purpose of each tool."""
    with _connect(arguments) as client:
        tools = client.list_all("tools/list", "tools")
    if _printed_as_json(arguments, tools):
        return 0
    rows = [[_name(tool), _arguments_of(tool), _summary(tool)] for tool in tools]
    _print_list(("tool", "arguments", "what it does"), rows, "tools")
    return 0


def call_tool(arguments: argparse.Namespace) -> int:
    """Call a tool and print what it answers; exit 1 if it says that it failed."""
    printer = Printer(_folder(arguments), arguments.name)
    with _connect(arguments) as client:
        files = CallFiles(client, find_socket(arguments), arguments.id)
        given = tool_arguments(arguments.arguments, lambda: _input_schema(client, arguments.name), files.send)
        try:
            result = client.request(
                "tools/call", {"name": arguments.name, "arguments": given, "_meta": {"progressToken": "cli"}}
            )
        except RpcFailed:
            _input_schema(client, arguments.name)  # says which tools there are, if not this one
            raise
        # What it made is gone when the session ends.
        saved = files.save(result, _folder(arguments) or Path())
    failed = bool(result.get("isError"))
    if not _printed_as_json(arguments, result):
        printer.result(with_places(result, saved), sys.stderr if failed else sys.stdout)
    for path in saved.values():
        print(f"saved {path} ({size(path.stat().st_size)})", file=sys.stderr)
    if failed:
        _tell_of_files(given)
    elif arguments.name == f"{arguments.id}_get_upload_url":
        print(
            "this URL ended with this command; from here, key@=FILE sends a file with a call", file=sys.stderr
        )
    if files.problems:
        raise Failed("; ".join(files.problems))
    return int(failed)


def _tell_of_files(given: Message) -> None:
    """A tool that wants a handle got a path: from a terminal there is a shorter way than what it says."""
    for key, value in given.items():
        if isinstance(value, str) and "\0" not in value and Path(value).is_file():
            print(f"to send the file `{one_line(value)}`, write {key}@={one_line(value)}", file=sys.stderr)


def read_resource(arguments: argparse.Namespace) -> int:
    """Print a resource, or the list of them."""
    with _connect(arguments) as client:
        if arguments.uri is None:
            return _list_resources(arguments, client)
        result = client.request("resources/read", {"uri": arguments.uri})
    if not _printed_as_json(arguments, result):
        printer = Printer(_folder(arguments), "resource")
        for contents in result.get("contents", []):
            printer.resource(contents, sys.stdout)
    return 0


def get_prompt(arguments: argparse.Namespace) -> int:
    """Print a prompt's messages, or the list of prompts."""
    with _connect(arguments) as client:
        if arguments.name is None:
            return _list_prompts(arguments, client)
        params = {"name": arguments.name, "arguments": words_as_texts(arguments.arguments)}
        result = client.request("prompts/get", params)
    if _printed_as_json(arguments, result):
        return 0
    printer = Printer(None, arguments.name)
    for message in result.get("messages", []):
        print(styled(f"{one_line(str(message.get('role')))}:", "dim", wants_colour(sys.stdout)))
        printer.block(message.get("content") or {}, sys.stdout)
    return 0


def _list_resources(arguments: argparse.Namespace, client: Client) -> int:
    resources = client.list_all("resources/list", "resources")
    templates = client.list_all("resources/templates/list", "resourceTemplates")
    if _printed_as_json(arguments, {"resources": resources, "resourceTemplates": templates}):
        return 0
    rows = [
        [
            one_line(str(item.get("uri") or item.get("uriTemplate"))),
            item.get("mimeType") or "-",
            _summary(item),
        ]
        for item in (*resources, *templates)
    ]
    _print_list(("uri", "type", "what it is"), rows, "resources")
    return 0


def _list_prompts(arguments: argparse.Namespace, client: Client) -> int:
    prompts = client.list_all("prompts/list", "prompts")
    if _printed_as_json(arguments, prompts):
        return 0
    rows = [[_name(prompt), _prompt_arguments(prompt), _summary(prompt)] for prompt in prompts]
    _print_list(("prompt", "arguments", "what it is for"), rows, "prompts")
    return 0


@contextmanager
def _connect(arguments: argparse.Namespace) -> Generator[Client]:
    # Only a person can be asked: a script would hang at the question.
    asks = sys.stdin.isatty()
    capabilities: Message = {"elicitation": {"form": {}, "url": {}}} if asks else {}
    notices = Notices(sys.stderr)
    socket = find_socket(arguments)
    try:
        with Client(socket, arguments.id, capabilities, notify=notices.show, answer=notices.answer) as client:
            yield client
    except KeyboardInterrupt:  # the line ends with what the terminal shows of it
        raise
    except BaseException:
        notices.settle()
        raise
    notices.settle()


def _input_schema(client: Client, name: str) -> Message:
    tools = client.list_all("tools/list", "tools")
    for tool in tools:
        if tool.get("name") == name:
            return tool.get("inputSchema") or {}
    known = ", ".join(f"`{_name(tool)}`" for tool in tools) or "none"
    raise Failed(f"there is no tool `{name}`; it has: {known}")


def _folder(arguments: argparse.Namespace) -> Path | None:
    return Path(arguments.output) if arguments.output else None


def _printed_as_json(arguments: argparse.Namespace, value: Any) -> bool:
    if arguments.format != "json":
        return False
    print(json.dumps(value, indent=2, ensure_ascii=False))
    return True


def _print_list(heads: tuple[str, str, str], rows: list[list[str]], what: str) -> None:
    if rows:
        print_table(heads, rows)
    else:
        print(f"it has no {what}", file=sys.stderr)


def _arguments_of(tool: Message) -> str:
    schema: Message = tool.get("inputSchema") or {}
    required: list[str] = schema.get("required") or []
    names: list[str] = list(schema.get("properties") or {})
    return " ".join(one_line(name) if name in required else f"[{one_line(name)}]" for name in names) or "-"


def _prompt_arguments(prompt: Message) -> str:
    entries: list[Message] = prompt.get("arguments") or []
    return (
        " ".join(_name(entry) if entry.get("required") else f"[{_name(entry)}]" for entry in entries) or "-"
    )


def _name(item: Message) -> str:
    return one_line(str(item.get("name", "?")))


def _summary(item: Message) -> str:
    """The first sentence of what it says about itself."""
    text = str(item.get("description") or item.get("title") or item.get("name") or "").strip()
    first_line = text.partition("\n")[0].strip()
    sentence, stop, _ = first_line.partition(". ")
    return one_line(sentence + stop.strip())
