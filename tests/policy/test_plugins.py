"""A middleware of somebody else's: installed from `examples/plugin`, named in the configuration, used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.policy.caller import Caller
from tests.policy.shelf import Shelf, tool
from tests.support.gateway import running_gateway

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugin"
pytestmark = pytest.mark.e2e


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The example as pip leaves it behind, in a folder of its own that new processes look into."""
    folder = tmp_path / "site"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    done = subprocess.run(
        [*command, "--disable-pip-version-check", "--target", str(folder), str(EXAMPLE)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    before = os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(folder), before))))
    return folder


@pytest.mark.parametrize(
    ("hours", "works"), [({"from": "0", "to": "24"}, True), ({"from": "0", "to": "0"}, False)]
)
def test_the_example_does_what_it_says(
    tmp_path: Path, installed: Path, hours: dict[str, str], works: bool
) -> None:
    shelf = Shelf(tmp_path / "s", tool("say"))
    plugins = [{"name": "office-hours", "settings": hours}, {"name": "usagemetrics"}]
    with shelf.http("one") as server, running_gateway(tmp_path, [server], plugins=plugins) as gateway:
        said = Caller(gateway.address, "one").modern_tool("say")
        assert ("result" in said.message) is works
        assert said.status == (200 if works else 403)
        assert "`usagemetrics` is accepted and does nothing" in gateway.log()


def test_a_plugin_that_is_not_installed_is_an_error_that_says_so(tmp_path: Path) -> None:
    from mooring.config.loading import ConfigError, load

    file = tmp_path / "mooring.yaml"
    file.write_text("mooring: 1\nplugins: [{name: nowhere}]\n")
    with pytest.raises(ConfigError, match="no middleware `nowhere` is installed"):
        load(file)
