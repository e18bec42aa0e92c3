"""Where things are when nobody said: the data directory, and the control socket in it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from mooring.config.source import expand_variables, parse

SOCKET_NAME = "mooring.sock"


def default_data_directory(environment: Mapping[str, str], platform: str = sys.platform) -> Path:
    """The folder this platform gives a user's programs for their data."""
    home = Path.home()
    if platform == "darwin":
        return home / "Library" / "Application Support" / "mooring"
    if platform == "win32":
        return Path(environment.get("LOCALAPPDATA") or home / "AppData" / "Local") / "mooring"
    return Path(environment.get("XDG_DATA_HOME") or home / ".local" / "share") / "mooring"


def default_config_file(environment: Mapping[str, str], platform: str = sys.platform) -> Path:
    """The user's own `mooring.yaml`, which need not be there."""
    home = Path.home()
    if platform == "darwin":
        return home / "Library" / "Application Support" / "mooring" / "mooring.yaml"
    if platform == "win32":
        return Path(environment.get("APPDATA") or home / "AppData" / "Roaming") / "mooring" / "mooring.yaml"
    return Path(environment.get("XDG_CONFIG_HOME") or home / ".config") / "mooring" / "mooring.yaml"


def socket_in(data_directory: Path) -> Path:
    """The control socket of the gateway that keeps its data here."""
    return data_directory / SOCKET_NAME


def data_directory_of(config_file: Path, environment: Mapping[str, str] = os.environ) -> Path:
    """The data directory a configuration names, without judging the rest of it.

    Whoever only wants the socket may not have the variables and files that the gateway was started with.
    """
    is_json = config_file.suffix.lower() in (".json", ".jsonc")
    document = parse(config_file.read_text(encoding="utf-8-sig"), is_json=is_json)
    value = _section(document.value)
    if "mooring" not in value:
        return default_data_directory(environment)
    document.value = _section(value.get("storage")).get("root") or "data"
    expand_variables(document, environment)
    return resolve(config_file.absolute().parent, str(document.value))


def resolve(base: Path, text: str) -> Path:
    """A path as somebody wrote it in a file of this folder."""
    return (base / Path(text).expanduser()).resolve()


def _section(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
