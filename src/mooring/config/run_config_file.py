"""A ToolHive RunConfig, served as it is: one server under its own name."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from mooring.config.source import Document
from mooring.workloads.runconfig import InvalidRunConfig, RunConfig


def is_run_config(value: object) -> bool:
    """Whether these are the contents of such a file. Ours have a section `mooring`, never the number."""
    if not isinstance(value, dict):
        return False
    found = cast("dict[str, Any]", value)
    if not isinstance(found.get("mooring", {}), dict) or "servers" in found or "mcpServers" in found:
        return False
    return bool({"schema_version", "schemaVersion", "image", "remote_url", "remoteURL"} & found.keys())


def translate(document: Document, data_directory: Path) -> tuple[str, ...]:
    """Rewrite the document into Mooring's own keys; the answer says what the person should know."""
    try:
        config = RunConfig.read(cast("dict[str, Any]", document.value))
    except InvalidRunConfig as error:
        document.report((), f"is a ToolHive RunConfig that cannot be served: {error}")
        document.value = {"mooring": 1}
        return ()
    document.value = {
        "mooring": 1,
        "servers": [{"id": config.name, "run_config": config.raw}],
        "storage": {"root": str(data_directory)},
    }
    return config.notes
