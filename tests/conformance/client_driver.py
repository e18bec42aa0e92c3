"""The client for the suite's client scenarios: `client_driver.py [--through FOLDER] --era ERA URL`.

With `--through` a gateway is started in front of the suite's server, and the client talks to the gateway.
The suite names the scenario, and sometimes what to send, in the environment.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import warnings
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import anyio
import mcp_types as types
from mcp import Client
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError
from tests.conformance.client_auth import browse, providers, signed_in, upstream_auth
from tests.conformance.processes import running_gateway

_SECONDS = 45
_LOGINS = 3


async def main() -> None:
    parser = argparse.ArgumentParser(description="play one client scenario of the conformance suite")
    parser.add_argument("--era", choices=("legacy", "modern"), required=True)
    parser.add_argument("--through", type=Path, help="start a gateway with its files below this folder")
    parser.add_argument("url")
    options = parser.parse_args()
    scenario = os.environ["MCP_CONFORMANCE_SCENARIO"]
    # The suite listens on both loopback addresses and says `localhost`.
    with ExitStack() as stack:
        target: Any = options.url
        if options.through:
            folder = Path(tempfile.mkdtemp(prefix="gateway-", dir=options.through))
            server: dict[str, Any] = {"upstream": {"url": options.url, "transport": "auto", "era": "auto"}}
            if scenario.startswith("auth/"):
                server["upstream"]["auth"] = upstream_auth(scenario, folder)
            target = stack.enter_context(running_gateway(server, folder, providers=providers()))
        elif scenario.startswith("auth/"):
            target = signed_in(options.url, scenario)
        with anyio.fail_after(_SECONDS):
            await play(target, options.era, scenario)


async def play(target: Any, era: str, scenario: str) -> None:
    async with Client(
        target,
        mode="legacy" if era == "legacy" else "auto",
        client_info=types.Implementation(name="conformance-driver", version="1.0.0"),
        elicitation_callback=accept_defaults,
        sampling_callback=say_something,
        list_roots_callback=list_one_root,
        cache=None,
    ) as client:
        if scenario.startswith("auth/"):
            await _sign_in_and_call(client)
        else:
            await _SCENARIOS.get(scenario, _call_every_tool)(client)


async def accept_defaults(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
    if params.mode == "url":
        await browse(params.url)
        return types.ElicitResult(action="accept")
    properties = params.requested_schema["properties"]
    content = {key: schema.get("default", _sample(schema)) for key, schema in properties.items()}
    return types.ElicitResult(action="accept", content=content)


def _sample(schema: dict[str, Any]) -> Any:
    return {"boolean": True, "integer": 1, "number": 1.5}.get(schema.get("type", "string"), "something")


async def say_something(context: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
    content = types.TextContent(type="text", text="something")
    return types.CreateMessageResult(role="assistant", content=content, model="none", stop_reason="endTurn")


async def list_one_root(context: Any) -> types.ListRootsResult:
    return types.ListRootsResult(
        roots=[types.Root.model_validate({"uri": "file:///example", "name": "root"})]
    )


# --- one client per scenario ---------------------------------------------------------------------------


async def _call_every_tool(client: Client) -> None:
    for tool in (await client.list_tools()).tools:
        required = tool.input_schema.get("required", [])
        properties = tool.input_schema.get("properties", {})
        await client.call_tool(tool.name, {key: _sample(properties[key]) for key in required})


async def _sign_in_and_call(client: Client) -> None:
    """A modern client is not asked anything while it lists; the error then says where to go."""
    for _ in range(_LOGINS):
        try:
            await client.list_tools()
            break
        except MCPError as error:
            wanted = (error.error.data or {}).get("elicitations", []) if error.error.data else []
            if not wanted:
                raise
            await browse(wanted[0]["url"])
    await _call_every_tool(client)


async def _only_connect(client: Client) -> None:
    await client.list_tools()


async def _echo_the_schema(client: Client) -> None:
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    schema = tools["json_schema_2020_12_tool"].input_schema
    await client.call_tool("json_schema_echo", {"schema": schema})


async def _use_everything_with_a_name(client: Client) -> None:
    await _call_every_tool(client)
    for resource in (await client.list_resources()).resources:
        await client.read_resource(str(resource.uri))
    for prompt in (await client.list_prompts()).prompts:
        await client.get_prompt(prompt.name)


async def _call_as_told(client: Client) -> None:
    await client.list_tools()
    for call in json.loads(os.environ["MCP_CONFORMANCE_CONTEXT"])["toolCalls"]:
        await client.call_tool(call["name"], call["arguments"])


async def _keep_rounds_apart(client: Client) -> None:
    await client.list_tools()
    await client.call_tool("test_mrtr_echo_state", {})
    await client.call_tool("test_mrtr_unrelated", {})
    await client.call_tool("test_mrtr_no_state", {})
    try:
        await client.call_tool("test_mrtr_no_result_type", {})
    except (MCPError, ValidationError, RuntimeError):
        # The SDK's client insists on a `resultType` although the rule is to read its absence as `complete`.
        # What the suite looks at is that nobody asks again.
        return


_SCENARIOS: dict[str, Callable[[Client], Awaitable[None]]] = {
    "initialize": _only_connect,
    "request-metadata": _only_connect,
    "json-schema-ref-no-deref": _only_connect,
    "json-schema-2020-12-preservation": _echo_the_schema,
    "http-standard-headers": _use_everything_with_a_name,
    "http-custom-headers": _call_as_told,
    "sep-2322-client-request-state": _keep_rounds_apart,
}

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    anyio.run(main)
