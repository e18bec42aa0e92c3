"""Tools that deal with files are found by what their schemas say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.files.conftest import file_server
from tests.support.gateway import running_gateway

from mooring.config.loading import load_with_notes
from mooring.files.proposing import proposals


def tool(name: str, description: str = "", **properties: Any) -> dict[str, Any]:
    return {
        "name": name,
        "description": description,
        "inputSchema": {"type": "object", "properties": properties},
    }


def defining(given: dict[str, Any]) -> dict[str, Any]:
    """As pydantic writes the schemas of arguments that are models."""
    doc = {"type": "object", "properties": {"path": {**MAYBE, "title": "Path"}, "page": {"type": "integer"}}}
    given["inputSchema"]["$defs"] = {"Doc": doc}
    return given


TEXT = {"type": "string"}
MAYBE = {"anyOf": [TEXT, {"type": "null"}], "default": None}
TEXTS = {"type": "array", "items": TEXT}


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (tool("browser_file_upload", paths=TEXTS), [("upload_consumer", "paths")]),
        (tool("read", filePath=TEXT), [("upload_consumer", "filePath")]),
        (tool("attach", items={"type": "array", "items": {"type": "object", "properties": {"file": TEXT}}}),
         [("upload_consumer", "items[*].file")]),
        (tool("see", options={"type": "object", "properties": {"x": {**TEXT, "x-mcp-file": {}}}}),
         [("upload_consumer", "options.x")]),
        (tool("hash", data={**TEXT, "contentEncoding": "base64"}), [("upload_consumer", "data")]),
        (tool("browser_take_screenshot", filename=TEXT), [("artifact_producer", "filename")]),
        (tool("convert", input_file=TEXT, output_file=TEXT),
         [("upload_consumer", "input_file"), ("artifact_producer", "output_file")]),
        (tool("export_pdf", "Saves the page as a file."), [("artifact_producer", None)]),
        ({**tool("shoot", "The page, saved to disk."), "annotations": {"title": "Take a Screenshot"}},
         [("artifact_producer", None)]),
        ({**tool("write_file", path=TEXT, content=TEXT), "annotations": {"destructiveHint": True}}, []),
        ({**tool("file_upload", paths=TEXTS), "annotations": {"destructiveHint": True}},
         [("upload_consumer", "paths")]),
        (tool("look", image_path=MAYBE), [("upload_consumer", "image_path")]),
        (tool("send", files={"type": ["array", "null"], "items": TEXT}), [("upload_consumer", "files")]),
        (tool("mail", file_paths={"anyOf": [TEXT, TEXTS]}), [("upload_consumer", "file_paths")]),
        (defining(tool("ask", about={"anyOf": [{"$ref": "#/$defs/Doc"}, {"type": "null"}]})),
         [("upload_consumer", "about.path")]),
        (defining(tool("join", docs={"type": "array", "items": {"$ref": "#/$defs/Doc"}})),
         [("upload_consumer", "docs[*].path")]),
        (tool("itself", node={"$ref": "#"}), []),
        (tool("nowhere", path={"$ref": "#/$defs/None"}), []),
        (tool("search", query=TEXT, url=TEXT), []),
        (tool("select", xpath=TEXT, path_pattern=TEXT), []),
        (tool("list_directory", directory_path=TEXT), []),
    ],
)  # fmt: skip
def test_what_is_proposed(given: dict[str, Any], wanted: list[tuple[str, str | None]]) -> None:
    assert [(one.type, one.argument) for one in proposals([given])] == wanted


def test_an_argument_that_is_a_uri_gets_one() -> None:
    [found] = proposals([tool("open", file_uri={**TEXT, "format": "uri"})])
    assert found.as_config()["delivery"] == "file_uri"


def test_a_tool_that_says_it_only_reads_is_believed() -> None:
    reading = {**tool("word_count", path=TEXT), "annotations": {"readOnlyHint": True}}
    [found] = proposals([reading])
    assert found.why == "it only reads, and the argument `path` names a file"


def test_base64_gets_base64() -> None:
    [found] = proposals([tool("hash", data={**TEXT, "contentEncoding": "base64"})])
    assert found.as_config()["delivery"] == "base64"


def test_proposals_are_shown_and_written_on_request(tmp_path: Path) -> None:
    server = {**file_server(), "adapters": []}
    with running_gateway(tmp_path, [server]) as gateway:
        shown = gateway.command("doctor", "files")
        assert shown.returncode == 0, shown.stderr
        assert "measure" in shown.stdout
        assert "--write" in shown.stderr
        found = json.loads(gateway.command("doctor", "--format", "json").stdout)["files"]
        assert {"type": "upload_consumer", "tools": ["measure"], "file_path_argument": "path"} in found
        target = tmp_path / "copy.yaml"
        run = json.dumps(server["workload"]["run"])
        entry = f"  - id: files\n    workload: {{run: {run}}}\n    group: {' '.join(['a long line'] * 12)}\n"
        servers = f"servers:\n  # the only one\n{entry}"
        target.write_text(f"mooring: 1  # ours\n{servers}")
        target.chmod(0o600)
        assert gateway.command("doctor", "--write", str(target)).returncode == 0
        before, after = f"mooring: 1  # ours\n{servers}", target.read_text()
        assert after.startswith(before), "what was there stays as it was written"
        assert target.stat().st_mode & 0o777 == 0o600
        adapters = load_with_notes(target, environment={}).config.servers[0].adapters
        assert len(adapters) == len(found)
        again = gateway.command("doctor", "--write", str(target))
        assert "0 adapters added" in again.stderr
        missing = gateway.command("doctor", "nowhere")
        assert missing.returncode == 1
        assert "there are: `files`" in missing.stderr


def test_an_adapter_that_a_tool_has_is_not_proposed(tmp_path: Path) -> None:
    server = {
        **file_server(),
        "adapters": [
            {"type": "upload_consumer", "tools": ["measure"], "file_path_argument": "path"},
            {"type": "artifact_producer", "tools": ["write"], "output_path_argument": "filename"},
        ],
    }
    with running_gateway(tmp_path, [server]) as gateway:
        found = json.loads(gateway.command("doctor", "--format", "json").stdout)["files"]
    assert [one for one in found if one["tools"] in (["measure"], ["write"])] == []
    assert found, "the others are"


def test_an_adapter_is_known_by_the_configuration_whatever_clients_are_told(tmp_path: Path) -> None:
    server = {
        **file_server(),
        "adapters": [
            {"type": "upload_consumer", "tools": ["measure"], "file_path_argument": "path"},
            {"type": "artifact_producer", "tools": ["write"], "output_path_argument": "filename"},
        ],
        "tools": {"deny": ["files_get_upload_url"], "override": {"write": {"name": "save"}}},
    }
    with running_gateway(tmp_path, [server], artifacts={"enabled": False}) as gateway:
        found = json.loads(gateway.command("doctor", "--format", "json").stdout)["files"]
    assert [one for one in found if one["tools"] in (["measure"], ["write"], ["save"])] == []
    assert found, "the others are"
