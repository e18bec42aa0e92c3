"""An authored server behind the gateway: clients of either era, whichever era the gateway finds it in."""

from __future__ import annotations

import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.authoring.test_official_clients import talk
from tests.support.gateway import Gateway, running_gateway
from tests.support.official import connected

SCRIPT = Path(__file__).parent / "scripted_server.py"

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Generator[Gateway]:
    server = {"id": "authored", "workload": {"run": [sys.executable, str(SCRIPT), "stdio"]}}
    with running_gateway(tmp_path_factory.mktemp("gateway"), [server]) as gateway:
        yield gateway


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_an_authored_server_works_through_the_gateway(gateway: Gateway, mode: str) -> None:
    async with connected(gateway.url("authored"), mode) as client:
        await talk(client)
