"""What a model reads about wired tools: that they take handles, where those come from, what is made."""

from __future__ import annotations

from typing import Any, Final, cast

from mooring.files.adapters import ToolFiles
from mooring.files.argument_paths import ALL, ArgumentPath
from mooring.files.schemas import kind_of, opened

Json = dict[str, Any]
_ABOUT_VALUES: Final = (
    "pattern",
    "format",
    "contentEncoding",
    "contentMediaType",
    "minLength",
    "maxLength",
    "examples",
)


def adapted(tool: Json, files: ToolFiles, upload_tool: str | None, *, captures: bool) -> tuple[Json, str]:
    """The tool as clients see it, and what its description says more. Only what changes is copied."""
    tool = dict(tool)
    notes: list[str] = []
    schema = _copied(tool.get("inputSchema"))
    if upload_tool is not None:
        for consumer in files.consumers:
            for path in consumer.arguments:
                _describe_argument(schema, path, upload_tool, others=consumer.accept_other_values)
            names = ", ".join(f"`{path.text}`" for path in consumer.arguments)
            notes.append(f"Files: give {names} `upload://` handles; `{upload_tool}` says how to get them.")
    if captures and files.producers:
        for producer in files.producers:
            if producer.output_argument is not None:
                _describe_output(schema, producer.output_argument)
        notes.append("What it makes is kept as an artifact; the result names its `artifact://` URI.")
    tool["inputSchema"] = schema
    note = "\n\n".join(notes)
    if note:
        tool["description"] = f"{str(tool.get('description') or '').rstrip()}\n\n{note}".lstrip()
    return tool, note


def forbids_tasks(tool: Json) -> Json:
    """A server's own task would answer past us, so wired tools run without one."""
    return {**tool, "execution": {**(tool.get("execution") or {}), "taskSupport": "forbidden"}}


def _copied(schema: Any) -> Json:
    return dict(cast("Json", schema)) if isinstance(schema, dict) else {"type": "object"}


def _describe_argument(schema: Json, path: ArgumentPath, upload_tool: str, *, others: bool) -> None:
    leaf, inner = _leaf(schema, path)
    if leaf is None:
        return
    target = inner
    if kind_of(inner) == "array" and isinstance(inner.get("items"), dict):
        _, target = opened(inner, "items", schema)
    if not others:
        for name in _ABOUT_VALUES:
            target.pop(name, None)
    note = f"an `upload://` handle from `{upload_tool}`" + ("" if others else ", nothing else")
    before = str(leaf.get("description") or "").rstrip()
    leaf["description"] = f"{before} ({note})" if before else note[0].upper() + note[1:]


def _describe_output(schema: Json, path: ArgumentPath) -> None:
    leaf, _ = _leaf(schema, path)
    if leaf is not None:
        before = str(leaf.get("description") or "").rstrip()
        note = "only a file name counts; the folder is chosen for you"
        leaf["description"] = f"{before} ({note})" if before else note[0].upper() + note[1:]
    required = schema.get("required")
    if isinstance(required, list) and len(path.steps) == 1:
        schema["required"] = [name for name in cast("list[Any]", required) if name != path.top]


def _leaf(schema: Json, path: ArgumentPath) -> tuple[Json | None, Json]:
    """The schema of the value at a path and what it stands for, with everything on the way to it copied."""
    outer: Json | None = None
    inner = schema
    for step in path.steps:
        if step == ALL or isinstance(step, int):
            holder, key = inner, "items"
        else:
            properties = inner.get("properties")
            if not isinstance(properties, dict):
                return None, {}
            inner["properties"] = holder = dict(cast("Json", properties))
            key = step
        if not isinstance(holder.get(key), dict):
            return None, {}
        outer, inner = opened(holder, key, schema)
    return outer, inner
