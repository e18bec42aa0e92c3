"""A server whose tools the test puts on a shelf, of either era, over pipes or HTTP."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.gateway import Journal, running_process

Json = dict[str, Any]
SCRIPT = Path(__file__).parent / "shelf_server.py"


def tool(name: str, description: str = "does something", **more: Any) -> Json:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    return {"name": name, "description": description, "inputSchema": schema, **more}


class Shelf:
    """What the server has to offer."""

    def __init__(self, folder: Path, *tools: Json, resources: list[str] | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "shelf.json"
        self.journal = Journal(folder / "shelf.journal")
        self.resources = resources or []
        self.put(*tools)

    def put(self, *tools: Json) -> None:
        temporary = self.path.with_suffix(".new")
        temporary.write_text(json.dumps({"tools": list(tools), "resources": self.resources}))
        temporary.replace(self.path)

    def command(self, transport: str, era: str) -> list[str]:
        record = str(self.journal.path)
        return [
            sys.executable,
            "-S",
            str(SCRIPT),
            str(self.path),
            *("--transport", transport, "--era", era, "--record", record),
        ]

    def stdio(self, identifier: str, era: str = "legacy", **more: Any) -> Json:
        return {"id": identifier, "workload": {"run": self.command("stdio", era)}, **more}

    @contextmanager
    def http(self, identifier: str, era: str = "legacy", **more: Any) -> Iterator[Json]:
        with running_process(self.command("http", era)) as url:
            upstream = {"url": url, **more.pop("upstream", {})}
            yield {"id": identifier, "upstream": upstream, **more}

    def calls(self) -> list[Json]:
        """The tool calls that reached the server."""
        return [message["params"] for message in self.journal.messages("tools/call")]

    def headers(self) -> list[Json]:
        """The headers of every HTTP request, names in lower case."""
        return [
            {name.lower(): value for name, value in entry["headers"].items()}
            for entry in self.journal.events("headers")
        ]
