"""A RunConfig, or another small document that `mooring run` is given, read from its file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, cast

from mooring.interfaces.cli.failure import Failed, reason_of

Json = dict[str, Any]
_SYSTEM: Final = tuple(Path(name) for name in ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/proc", "/dev"))
"""What every sandbox has."""


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


def hidden_paths(document: Json) -> list[str]:
    """Paths among the server's arguments that exist here and that it will not find in its sandbox.

    A command's own script is shown to it, so of its words only folders count.
    """
    extension = cast("Json", document.get("mooring") or {})
    profile = document.get("permission_profile_name_or_path", "none")
    if extension.get("sandbox") == "off" or document.get("remote_url") or profile not in ("none", "network"):
        return []
    profile_paths = cast("Json", document.get("permission_profile") or {})
    if profile_paths.get("read") or profile_paths.get("write"):
        return []
    given, command = _texts(document.get("cmd_args")), _texts(extension.get("command"))[1:]
    words = [word for word in given if Path(word).exists()]
    words += [word for word in command if Path(word).is_dir()]
    shown = [Path(entry.partition(":")[0]) for entry in _texts(document.get("volumes"))]
    found = [Path(word).absolute() for word in words if word.startswith(("/", "./", "../"))]
    return [str(path) for path in found if not any(path.is_relative_to(each) for each in (*shown, *_SYSTEM))]


def _texts(value: object) -> list[str]:
    return [str(each) for each in cast("list[object]", value)] if isinstance(value, list) else []
