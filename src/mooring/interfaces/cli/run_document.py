"""A RunConfig, or another small document that `mooring run` is given, read from its file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from mooring.interfaces.cli.failure import Failed, reason_of

Json = dict[str, Any]


def read_document(path: Path) -> Json:
    """A file of keys and values in JSON or YAML."""
    from mooring.config.source import parse  # noqa: PLC0415 - reads YAML: 40 ms that others need not wait

    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = reason_of(error) if isinstance(error, OSError) else "it is not UTF-8 text"
        raise Failed(f"cannot read `{path}`: {why}") from error
    document = parse(text, is_json=path.suffix.lower() == ".json")
    found: Any = document.value
    if document.problems or not isinstance(found, dict):
        wrong = "; ".join(str(problem) for problem in document.problems) or "it holds no keys"
        raise Failed(f"`{path}` cannot be used: {wrong}")
    return cast("Json", found)
