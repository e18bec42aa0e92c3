"""A middleware of somebody else's: installed from `examples/plugin`, named in the configuration, used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.policy.caller import Caller
from tests.policy.shelf import Shelf, tool
from tests.support.gateway import rewrite, running_gateway

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


BROKEN = """
class Broken:
    async def __call__(self, exchange, handler):
        if exchange.method == "tools/call" and b"bang" in exchange.body:
            raise ZeroDivisionError("a secret of the house")
        return await handler(exchange)

def make(server_id, settings):
    return Broken()
"""


FUSSY = """
async def refuse(exchange, handler):
    raise ValueError("too late")

def make(server_id, settings):
    if server_id == "two":
        raise ValueError("not for two")
    return refuse
"""


def install(site: Path, monkeypatch: pytest.MonkeyPatch, name: str, source: str) -> None:
    """As a package that brings one middleware."""
    folder = site / f"{name}-1.dist-info"
    folder.mkdir(parents=True)
    (site / f"{name}.py").write_text(source)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (folder / "entry_points.txt").write_text(f"[mooring.middleware]\n{name} = {name}:make\n")
    monkeypatch.setenv("PYTHONPATH", str(site))


def test_a_middleware_that_cannot_be_made_for_one_server_is_used_for_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "site", monkeypatch, "fussy", FUSSY)
    shelf = Shelf(tmp_path / "s", tool("say"))
    with (
        shelf.http("one") as one,
        shelf.http("two") as two,
        running_gateway(tmp_path, [one, two]) as gateway,
    ):
        rewrite(gateway, plugins=[{"name": "fussy"}])
        assert "was not reloaded" in gateway.log()
        assert "not for two" in gateway.log()
        for name in ("one", "two"):
            assert "result" in Caller(gateway.address, name).modern_tool("say").message


def test_a_middleware_that_breaks_breaks_one_request_and_is_logged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "site", monkeypatch, "broken", BROKEN)
    shelf = Shelf(tmp_path / "s", tool("say"))
    audit = {"enabled": True}
    with (
        shelf.http("one") as server,
        running_gateway(tmp_path, [server], plugins=[{"name": "broken"}], audit=audit) as gateway,
    ):
        for era in ("legacy", "modern"):
            caller = Caller(gateway.address, "one")
            if era == "legacy":
                caller.initialize()
            call = caller.tool if era == "legacy" else caller.modern_tool
            refused = call("say", {"text": "bang"}).error
            assert (refused["code"], refused["message"]) == (-32603, "internal error")
            assert gateway.log().count(f"failed (exchange {refused['data']['exchange']})") == 1
            assert "result" in call("say", {"text": "hello"}).message
        assert gateway.log().count("ZeroDivisionError: a secret of the house") == 2
        shown = gateway.command("audit", "show", "--outcome", "error").stdout
        assert shown.count("ZeroDivisionError") == 2
    assert [call["arguments"]["text"] for call in shelf.calls()] == ["hello", "hello"]


def test_a_plugin_that_is_not_installed_is_an_error_that_says_so(tmp_path: Path) -> None:
    from mooring.config.loading import ConfigError, load

    file = tmp_path / "mooring.yaml"
    file.write_text("mooring: 1\nplugins: [{name: nowhere}]\n")
    with pytest.raises(ConfigError, match="no middleware `nowhere` is installed"):
        load(file)
