"""Where a command finds the data directory of a gateway it did not start."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.config.loading import load
from mooring.config.locations import data_directory_of, default_data_directory


@pytest.mark.parametrize("storage", ["", "storage: {root: ./x}", "storage: {root: '${HERE}'}", "storage: {}"])
def test_the_data_directory_is_the_one_the_gateway_uses(tmp_path: Path, storage: str) -> None:
    file = tmp_path / "mooring.yaml"
    file.write_text(f"mooring: 1\n{storage}\n")
    environment = {"HERE": "y"}
    assert data_directory_of(file, environment) == load(file, environment=environment).storage.root


def test_a_variable_that_only_the_gateway_has_does_not_matter(tmp_path: Path) -> None:
    file = tmp_path / "mooring.yaml"
    file.write_text("mooring: 1\nlisten: ${ONLY_THERE}\nstorage: {root: d}\n")
    assert data_directory_of(file, {}) == tmp_path / "d"


def test_desktop_files_use_the_directory_of_the_user(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text('{"mcpServers": {}}')
    assert data_directory_of(file, {"XDG_DATA_HOME": "/d"}) == default_data_directory({"XDG_DATA_HOME": "/d"})


@pytest.mark.parametrize(
    ("platform", "environment", "end"),
    [
        ("linux", {}, ".local/share/mooring"),
        ("linux", {"XDG_DATA_HOME": "/d"}, "/d/mooring"),
        ("darwin", {}, "Library/Application Support/mooring"),
        ("win32", {"LOCALAPPDATA": "/l"}, "/l/mooring"),
    ],
)
def test_each_platform_has_its_folder(platform: str, environment: dict[str, str], end: str) -> None:
    assert str(default_data_directory(environment, platform)).endswith(end)
