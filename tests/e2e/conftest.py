"""One gateway for a module, with one scripted server of each kind behind it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.support.gateway import Gateway, Journal, http_server, running_gateway, stdio_server

SERVERS = ("stdio-legacy", "stdio-modern", "sse", "http-legacy", "http-modern")
LEGACY_SERVERS = ("stdio-legacy", "sse", "http-legacy")


class Harbour:
    """A gateway and the journals of the servers behind it."""

    def __init__(self, gateway: Gateway, journals: dict[str, Journal]) -> None:
        self.gateway = gateway
        self.journals = journals


def pytest_collection_modifyitems(items: list[Any]) -> None:
    for item in items:
        if "tests/e2e" in str(item.path):
            item.add_marker(pytest.mark.e2e)


@pytest.fixture(scope="module")
def harbour(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harbour]:
    folder = tmp_path_factory.mktemp("harbour")
    with ExitStack() as stack:
        journals = {name: Journal(folder / f"{name}.journal") for name in SERVERS}
        servers = [
            stdio_server("stdio-legacy", journals["stdio-legacy"].path),
            stdio_server("stdio-modern", journals["stdio-modern"].path, "modern"),
            stack.enter_context(http_server("sse", journals["sse"].path, transport="sse")),
            stack.enter_context(http_server("http-legacy", journals["http-legacy"].path)),
            stack.enter_context(http_server("http-modern", journals["http-modern"].path, "modern")),
        ]
        gateway = stack.enter_context(running_gateway(folder, servers))
        yield Harbour(gateway, journals)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Short enough for a Unix socket."""
    return tmp_path


@pytest.fixture(params=["changed", "removed"])
def fate(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal")
