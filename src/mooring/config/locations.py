"""Where things are when nobody said: the data directory, and the control socket in it."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from mooring.config import adapter_keys
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
    if adapter_keys.is_adapter(value):
        document.value = {name: value.get(name) for name in ("storage", "state_persistence")}
        expand_variables(document, environment)
        return adapter_places(config_file, document.value, environment).own
    if "mooring" not in value:
        return default_data_directory(environment)
    document.value = _section(value.get("storage")).get("root") or "data"
    expand_variables(document, environment)
    return resolve(config_file.absolute().parent, str(document.value))


class AdapterPlaces(Struct, frozen=True):
    """The folders of a gateway that serves a Remote MCP Adapter's file."""

    shared: Path
    """What servers can read and write: nothing of ours is safe there."""
    own: Path
    """The data directory."""
    named: Path | None
    """Where the file says that state is kept."""

    @property
    def exposed(self) -> bool:
        """Whether servers can read what is ours."""
        return self.own.is_relative_to(self.shared)


def adapter_places(config_file: Path, value: object, environment: Mapping[str, str]) -> AdapterPlaces:
    """Our own data goes where the file keeps its state, if it says so; else each file has a folder of its own
    in the user's data directory. `value` is what the file says, with its variables filled in."""
    base = config_file.absolute().parent
    state = _section(_section(value).get("state_persistence"))
    named = _section(state.get("disk")).get("local_path")
    shared = resolve(base, str(_section(_section(value).get("storage")).get("root") or adapter_keys.SHARED))
    if not named:
        # The file's own link is not followed: behind that of a ConfigMap is another file after each change.
        name = f"{base.resolve()}/{config_file.name}"
        own = f"{config_file.stem}-{hashlib.sha256(name.encode()).hexdigest()[:12]}"
        return AdapterPlaces(shared, (default_data_directory(environment) / "adapters" / own).resolve(), None)
    folder = resolve(base, str(Path(str(named)).parent))
    # Around the shared folder, a folder of ours such as `files` could be the shared one.
    is_around = shared != folder and shared.is_relative_to(folder)
    return AdapterPlaces(shared, folder / "mooring-state" if is_around else folder, folder)


def resolve(base: Path, text: str) -> Path:
    """A path as somebody wrote it in a file of this folder."""
    return (base / Path(text).expanduser()).resolve()


def _section(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
