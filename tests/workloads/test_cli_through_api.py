"""Secrets, registries and clients: the running gateway is asked; where none runs, commands do the same."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.gateway import Journal, scripted_command
from tests.workloads.daemon import LIMIT_SECONDS, Person, somebody

pytestmark = pytest.mark.e2e


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Person]:
    with somebody(tmp_path) as found:
        found.environment["HOME"] = str(tmp_path)
        yield found


def store(person: Person, name: str, value: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        person.command("secret", "set", name),
        input=value,
        capture_output=True,
        text=True,
        env={**person.environment, **environment},
        cwd=person.folder,
        timeout=LIMIT_SECONDS,
        check=False,
    )


def test_the_running_gateway_keeps_the_secrets_and_their_password(person: Person) -> None:
    person.environment["PYTHON_KEYRING_BACKEND"] = "keyring.backends.null.Keyring"
    password = {"MOORING_SECRETS_PASSWORD": "long enough for this"}
    person.run_scripted("s", Journal(person.folder / "journal"))
    assert "run `mooring secret setup`" in person("secret", "list", expect=1).stderr
    person.environment.update(password)
    person("secret", "setup", "--key", "password")
    del person.environment["MOORING_SECRETS_PASSWORD"]
    assert store(person, "token", "s3cret").returncode == 0, "the gateway knows the password by now"
    assert person("secret", "get", "token").stdout == "s3cret\n"
    person.kill()
    refused = person("secret", "get", "token", expect=1)
    assert "needs its password" in refused.stderr, "without a gateway the command needs it itself"
    person("start", "s")
    assert "needs its password" in person("secret", "get", "token", expect=1).stderr
    person.environment.update(password)
    assert person("secret", "get", "token").stdout == "s3cret\n", "and the gateway is told again"
    del person.environment["MOORING_SECRETS_PASSWORD"]
    assert person("secret", "get", "token").stdout == "s3cret\n"
    person("secret", "delete", "token")
    assert person.json("secret", "list") == {"secrets": []}


def test_whoever_runs_a_server_opens_the_secrets_for_it(person: Person) -> None:
    person.environment["PYTHON_KEYRING_BACKEND"] = "keyring.backends.null.Keyring"
    journal = Journal(person.folder / "journal")
    person.run_scripted("s", journal)
    person.environment["MOORING_SECRETS_PASSWORD"] = "long enough for this"
    person("secret", "setup", "--key", "password")
    assert store(person, "token", "s3cret").returncode == 0
    for word in ("run", "start", "restart"):
        person.environment.pop("MOORING_SECRETS_PASSWORD", None)
        person.kill()
        person("start", "s")
        command = scripted_command(journal.path, "stdio", "legacy")
        words = ("--name", "one", "--sandbox", "off", "--secret", "token,target=TOKEN", "--", *command)
        words = words if word == "run" else ("one",)
        refused = person(word, *words, expect=1)
        assert "needs its password" in refused.stderr
        person.environment["MOORING_SECRETS_PASSWORD"] = "long enough for this"
        person(word, *words)
        assert person.status("one") == "running"


def test_a_secret_that_is_not_there_is_missed_before_anything_is_fetched(person: Person) -> None:
    person("secret", "setup", "--key", "file")
    refused = person("run", "npx://@example/not-there", "--secret", "token", expect=1)
    assert "there is no secret `token`" in refused.stderr
    assert "npm" not in refused.stderr


def test_registries_are_the_gateways(person: Person) -> None:
    file = person.folder / "mine.json"
    entry = {"description": "Counts", "transport": "stdio", "image": "ghcr.io/example/counter:1", "tools": []}
    file.write_text(json.dumps({"version": "1", "servers": {"counter": entry}, "remote_servers": {}}))
    person("registry", "add", "before", str(file))
    person.run_scripted("s", Journal(person.folder / "journal"))
    _, known = person.ask("GET", "/api/v1/registries")
    assert "before" in [source["name"] for source in known["registries"]], "one place for both"
    assert "it has 1 servers" in person("registry", "add", "mine", str(file)).stderr
    found = person.json("search", "counter", "--registry", "mine")
    assert [server["name"] for server in found["servers"]] == ["counter"]
    assert "Counts" in person("registry", "info", "counter", "--registry", "mine").stdout
    assert "mine: 1 servers" in person("registry", "refresh", "mine").stderr
    person("registry", "remove", "mine")
    assert "mine" not in [
        source["name"] for source in person.json("registry", "list", "--sources")["registries"]
    ]
    missing = person("registry", "info", "nothing-like-it", expect=1)
    assert "nothing-like-it" in missing.stderr


def test_clients_are_told_by_the_gateway(person: Person) -> None:
    file = person.folder / ".cursor" / "mcp.json"
    file.parent.mkdir()
    original = '{\n  // mine\n  "mcpServers": {}\n}\n'
    file.write_text(original)
    person.run_scripted("s", Journal(person.folder / "journal"))
    shown = person("client", "register", "cursor", "--dry-run")
    assert "/mcp/s" in shown.stderr
    assert file.read_text() == original
    person("client", "register", "cursor", "--yes")
    assert f"http://127.0.0.1:{person.port}/mcp/s" in file.read_text()
    assert "// mine" in file.read_text()
    [row] = [row for row in person.json("client", "status")["clients"] if row["id"] == "cursor"]
    assert (row["registered"], row["entries"]) == (True, ["s"])
    person("client", "undo", "cursor")
    assert file.read_text() == original
    person("client", "register", "cursor", "--yes")
    person("client", "remove", "cursor", "--yes")
    assert "/mcp/s" not in file.read_text()
