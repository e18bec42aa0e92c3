"""Secrets, registries and clients through a running gateway: its socket, its workloads, its users' files."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.command import LIMIT_SECONDS, Command

from mooring.interfaces.cli.control_api import UnixConnection
from mooring.workloads.secrets.store import SecretPlaces, open_store, set_up
from mooring.workloads.secrets.vault_keys import PASSWORD_VARIABLE

pytestmark = pytest.mark.e2e
SECRET = "very-secret-value-of-a-token"
# Answers `initialize` and one tool that says what its environment holds.
SERVER = """
import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method = message["method"]
    result = {}
    if method == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
        result["serverInfo"] = {"name": "x", "version": "1"}
    elif method == "tools/list":
        result = {"tools": [{"name": "peek", "inputSchema": {"type": "object"}}]}
    elif method == "tools/call":
        result = {"content": [{"type": "text", "text": os.environ.get("TOKEN", "nothing")}]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


EMPTY = '{\n  // mine\n  "mcpServers": {}\n}\n'


def names_in(file: Path) -> list[str]:
    """The servers that stand in a client's file of this kind."""
    text = "\n".join(line for line in file.read_text().splitlines() if "//" not in line or "http" in line)
    return sorted(json.loads(text)["mcpServers"])


CONFIGURATION = "mooring: 1\nlisten: 127.0.0.1:0\nstorage: {root: .}\n"


class Running:
    """A gateway on the user's own data directory."""

    def __init__(self, mooring: Command, process: subprocess.Popen[bytes]) -> None:
        self.mooring = mooring
        self.process = process
        self.socket = mooring.data / "mooring.sock"

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        connection = UnixConnection(self.socket, LIMIT_SECONDS)
        headers = {"Content-Type": "application/json"} if body is not None else {}
        connection.request(method, f"/api/v1{path}", None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        data = response.read()
        connection.close()
        return response.status, json.loads(data) if data else None


@pytest.fixture
def mooring(tmp_path: Path) -> Command:
    made = Command(tmp_path / "home")
    made.data.mkdir(parents=True)
    (made.data / "gateway.yaml").write_text(CONFIGURATION)
    (made.home / "server.py").write_text(SERVER)
    return made


@pytest.fixture
def gateway(mooring: Command) -> Iterator[Running]:
    with serving(mooring) as running:
        yield running


@contextmanager
def serving(mooring: Command) -> Generator[Running]:
    config = mooring.data / "gateway.yaml"
    (mooring.data / "mooring.sock").unlink(missing_ok=True)
    log = (mooring.home / "log").open("wb")
    process = subprocess.Popen(
        mooring.arguments("serve", "--config", str(config)), env=mooring.environment, stderr=log, stdout=log
    )
    running = Running(mooring, process)
    deadline = time.monotonic() + LIMIT_SECONDS
    while not running.socket.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    try:
        yield running
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT_SECONDS) == 0, (mooring.home / "log").read_text()
        log.close()


def workload(gateway: Running, name: str, **more: Any) -> dict[str, Any]:
    command = [sys.executable, str(gateway.mooring.home / "server.py")]
    return {"name": name, "transport": "stdio", "mooring": {"command": command, "sandbox": "off"}, **more}


def test_a_secret_reaches_its_workload_and_no_answer_list_or_export(gateway: Running) -> None:
    assert gateway.ask("GET", "/secrets")[1]["error"]["code"] == "secrets_not_set_up"
    assert gateway.ask("POST", "/secrets/setup", {"provider": "encrypted", "key": "file"})[0] in (200, 204)
    assert gateway.ask("PUT", "/secrets/token", {"value": SECRET})[0] in (200, 204)
    assert gateway.ask("GET", "/secrets") == (200, {"provider": "encrypted", "secrets": [{"name": "token"}]})
    assert gateway.ask("GET", "/secrets/token") == (200, {"value": SECRET})
    assert gateway.ask("GET", "/secrets/other")[0] == 404
    status, made = gateway.ask(
        "POST", "/workloads", workload(gateway, "peeker", secrets=["token,target=TOKEN"])
    )
    assert status == 201, made
    called = gateway.mooring.ok("tool", "call", "peeker", "peek", "--socket", str(gateway.socket))
    assert SECRET in called
    answers = [made, gateway.ask("GET", "/workloads"), gateway.ask("GET", "/workloads/peeker/export")]
    assert SECRET not in json.dumps(answers)
    children = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert SECRET not in children
    for path in [path for path in gateway.mooring.home.rglob("*") if path.is_file()]:
        assert SECRET.encode() not in path.read_bytes(), path
    assert gateway.ask("DELETE", "/secrets/token")[0] in (200, 204)


def test_a_password_opens_the_secrets_for_as_long_as_the_gateway_runs(gateway: Running) -> None:
    # As a process does that asks no gateway: this one is never told the password.
    places = SecretPlaces(gateway.mooring.data, {PASSWORD_VARIABLE: "right and long"}, None)
    set_up(places, "encrypted", "password")
    open_store(places).set("a", "1")
    assert "needs its password" in gateway.ask("GET", "/secrets/a")[1]["error"]["message"]
    assert (
        "the password is wrong"
        in gateway.ask("POST", "/secrets/unlock", {"password": "x"})[1]["error"]["message"]
    )
    assert gateway.ask("POST", "/secrets/unlock", {"password": "right and long"})[0] in (200, 204)
    assert gateway.ask("GET", "/secrets/a") == (200, {"value": "1"})


def test_registered_clients_learn_of_servers_that_come_and_go(gateway: Running) -> None:
    file = gateway.mooring.home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.write_text('{\n  // mine\n  "mcpServers": {}\n}\n')
    assert gateway.ask("POST", "/workloads", workload(gateway, "first"))[0] == 201
    assert gateway.ask("POST", "/clients/cursor/register", {})[1]["added"] == ["first"]
    assert gateway.ask("POST", "/workloads", workload(gateway, "second"))[0] == 201
    listed = next(each for each in gateway.ask("GET", "/clients")[1]["clients"] if each["id"] == "cursor")
    assert (listed["registered"], listed["servers"]) == (True, ["first", "second"])
    before = file.read_text()
    for verb in ("stop", "start", "restart"):
        assert gateway.ask("POST", f"/workloads/second/{verb}")[0] == 200
    assert file.read_text() == before
    gateway.ask("DELETE", "/workloads/second")
    gateway.ask("POST", "/workloads/delete", {"names": ["first"]})
    assert file.read_text() == '{\n  // mine\n  "mcpServers": {}\n}\n'
    assert gateway.ask("POST", "/clients/cursor/undo", None)[0] == 200
    assert '"first"' in file.read_text()
    assert gateway.ask("POST", "/clients/cursor/remove", {})[0] == 200
    assert gateway.ask("POST", "/clients/nobody/remove", {})[0] == 404


def test_a_client_of_a_group_sees_what_is_in_the_group(gateway: Running) -> None:
    file = gateway.mooring.home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.write_text(EMPTY)
    for name, group in (("first", "work"), ("second", "work"), ("third", "play")):
        assert gateway.ask("POST", "/workloads", workload(gateway, name, group=group))[0] == 201
    assert gateway.ask("POST", "/clients/cursor/register", {"group": "work"})[0] == 200
    assert names_in(file) == ["first", "second"]
    gateway.ask("POST", "/workloads/second/move", {"group": "play"})
    gateway.ask("POST", "/workloads/third/move", {"group": "work"})
    assert names_in(file) == ["first", "third"]
    gateway.ask("DELETE", "/groups/work?with_workloads=true")
    assert file.read_text() == EMPTY


def test_a_group_that_goes_without_its_workloads_is_gone_from_its_clients(gateway: Running) -> None:
    file = gateway.mooring.home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    assert gateway.ask("POST", "/workloads", workload(gateway, "first", group="work"))[0] == 201
    assert gateway.ask("POST", "/clients/cursor/register", {"group": "work"})[0] == 200
    gateway.ask("DELETE", "/groups/work")
    assert names_in(file) == []


def test_a_client_is_not_registered_for_a_group_that_is_not_there(gateway: Running) -> None:
    (gateway.mooring.home / ".cursor").mkdir()
    words = ("client", "register", "cursor", "--socket", str(gateway.socket), "--yes", "--group")
    assert "no group is called `work`; there are: `default`" in gateway.mooring.refusal(*words, "work")
    gateway.ask("POST", "/groups", {"name": "work"})
    gateway.mooring.ok(*words, "work")


def test_a_group_names_the_clients_that_see_it(gateway: Running) -> None:
    for folder in (".cursor", ".kimi", ".factory"):
        (gateway.mooring.home / folder).mkdir()
    assert gateway.ask("POST", "/workloads", workload(gateway, "first", group="work"))[0] == 201
    assert gateway.ask("POST", "/clients/cursor/register", {"group": "work"})[0] == 200
    assert gateway.ask("POST", "/clients/kimi-cli/register", {})[0] == 200
    assert gateway.ask("POST", "/clients/factory/register", {"servers": ["other"]})[0] == 200
    groups = {each["name"]: each["clients"] for each in gateway.ask("GET", "/groups")[1]["groups"]}
    assert groups == {"default": ["kimi-cli"], "work": ["cursor", "kimi-cli"]}
    assert gateway.ask("GET", "/groups/work")[1]["clients"] == ["cursor", "kimi-cli"]


def test_a_client_is_told_the_address_that_a_server_wants_to_be_known_by(gateway: Running) -> None:
    files = {"cursor": ".cursor/mcp.json", "gemini-cli": ".gemini/settings.json"}
    for file in files.values():
        (gateway.mooring.home / file).parent.mkdir()
    old = workload(gateway, "old", proxy_mode="sse")
    url = gateway.ask("POST", "/workloads", old)[1]["url"]
    assert url.endswith("/mcp/old/sse")
    for client in files:
        assert gateway.ask("POST", f"/clients/{client}/register", {})[1]["added"] == ["old"]
    found = [json.loads((gateway.mooring.home / file).read_text())["mcpServers"] for file in files.values()]
    assert found == [{"old": {"type": "sse", "url": url}}, {"old": {"url": url}}]
    assert gateway.ask("DELETE", "/workloads/old")[0] in (200, 204)
    assert names_in(gateway.mooring.home / ".gemini/settings.json") == []


def test_clients_follow_the_servers_of_the_configuration_file(gateway: Running) -> None:
    file = gateway.mooring.home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.write_text(EMPTY)
    assert gateway.ask("POST", "/clients/cursor/register", {"group": "work"})[0] == 200
    config = gateway.mooring.data / "gateway.yaml"
    entry = "servers:\n  - {id: notes, group: GROUP, upstream: {url: 'http://127.0.0.1:9/mcp'}}\n"
    before = config.read_text()
    for text, names in (
        (before + entry.replace("GROUP", "work"), ["notes"]),
        (before + entry.replace("GROUP", "play"), []),
        (before + entry.replace("GROUP", "work"), ["notes"]),
        (before, []),
    ):
        config.write_text(text)
        gateway.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + LIMIT_SECONDS
        while names_in(file) != names and time.monotonic() < deadline:
            time.sleep(0.02)
        assert names_in(file) == names
    assert file.read_text() == EMPTY


def test_clients_catch_up_with_what_changed_while_nothing_ran(mooring: Command) -> None:
    file = mooring.home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    entry = "  - {id: NAME, upstream: {url: 'http://127.0.0.1:9/mcp'}}\n"
    config = mooring.data / "gateway.yaml"
    names = ("kept", "gone", "unwanted")
    config.write_text(CONFIGURATION + "servers:\n" + "".join(entry.replace("NAME", name) for name in names))
    with serving(mooring) as gateway:
        assert gateway.ask("POST", "/clients/cursor/register", {})[1]["added"] == list(names)
    before = json.loads(file.read_text())["mcpServers"]
    file.write_text(json.dumps({"mcpServers": {name: before[name] for name in ("kept", "gone")}}))
    names = ("kept", "unwanted", "new")
    config.write_text(CONFIGURATION + "servers:\n" + "".join(entry.replace("NAME", name) for name in names))
    with serving(mooring) as gateway:
        deadline = time.monotonic() + LIMIT_SECONDS
        while names_in(file) != ["kept", "new"] and time.monotonic() < deadline:
            time.sleep(0.02)
        assert names_in(file) == ["kept", "new"], "what somebody took out stays out"
        now = json.loads(file.read_text())["mcpServers"]
        urls = {each["id"]: each["url"] for each in gateway.ask("GET", "/status")[1]["servers"]}
        assert {name: each["url"] for name, each in now.items()} == {name: urls[name] for name in now}
    assert now["kept"] != before["kept"], "it listens elsewhere now"


def test_a_client_file_that_cannot_be_changed_does_not_stop_a_workload(gateway: Running) -> None:
    file = gateway.mooring.home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    assert gateway.ask("POST", "/clients/cursor/register", {})[0] == 200
    file.write_text("{ broken")
    assert gateway.ask("POST", "/workloads", workload(gateway, "first"))[0] == 201
    assert file.read_text() == "{ broken"


def test_registries_are_searched_through_the_gateway(gateway: Running) -> None:
    status, found = gateway.ask("GET", "/registry/servers?search=fetch")
    assert (status, found["servers"][0]["name"].rpartition("/")[2]) == (
        200,
        "mcp-server-fetch",
    )
    assert gateway.ask("GET", "/registry/servers/com.deepwiki%2Fmcp")[1]["name"] == "com.deepwiki/mcp"
    assert gateway.ask("GET", "/registries")[1]["registries"][-1]["name"] == "built-in"


def test_a_server_of_a_registry_is_made_ready_to_run_through_the_gateway(gateway: Running) -> None:
    env_vars = [{"name": "TOKEN", "required": True, "secret": True}]
    keyed = {"image": "npx://keyed", "transport": "stdio", "env_vars": env_vars}
    (gateway.mooring.home / "r.json").write_text(json.dumps({"servers": {"keyed": keyed}}))
    source = {"name": "mine", "kind": "file", "location": str(gateway.mooring.home / "r.json")}
    assert gateway.ask("POST", "/registries", source)[0] == 201
    gateway.ask("POST", "/secrets/setup", {"provider": "encrypted", "key": "file"})
    target = "/registry/servers/keyed/run-config"
    status, asked = gateway.ask("POST", target, {})
    assert (status, asked["run_config"]) == (200, None)
    assert [(each["name"], each["secret"]) for each in asked["questions"]] == [("TOKEN", True)]
    status, made = gateway.ask("POST", target, {"given": {"TOKEN": SECRET}, "arguments": ["--fast"]})
    assert (status, made["questions"], made["kept"]) == (200, [], ["keyed-TOKEN"])
    assert made["run_config"]["secrets"] == ["keyed-TOKEN,target=TOKEN"]
    assert made["run_config"]["cmd_args"] == ["--fast"]
    assert SECRET not in json.dumps(made)
    assert gateway.ask("GET", "/secrets/keyed-TOKEN") == (200, {"value": SECRET})
    own = {"secrets": ["other,target=TOKEN"]}
    assert gateway.ask("POST", target, own)[1]["run_config"]["secrets"] == own["secrets"]
    assert gateway.ask("POST", "/registry/servers/nothing/run-config", {})[0] == 404
    folder = "/registry/servers/server-filesystem/run-config"
    assert gateway.ask("POST", folder, {"given": {"folder": "here"}})[0] == 422
    made = gateway.ask("POST", folder, {"given": {"folder": "/srv"}})[1]["run_config"]
    assert (made["cmd_args"], made["volumes"]) == (["/srv"], ["/srv"])


def test_a_file_of_another_program_is_imported_through_the_api(gateway: Running) -> None:
    gateway.ask("POST", "/secrets/setup", {"provider": "encrypted", "key": "file"})
    command = [sys.executable, str(gateway.mooring.home / "server.py")]
    entry = {"command": command[0], "args": command[1:], "env": {"TOKEN": SECRET}}
    wish = {"document": json.dumps({"mcpServers": {"one": entry, "two": entry}}), "only": ["one"]}
    status, shown = gateway.ask("POST", "/import", {**wish, "dry_run": True})
    assert (status, [each["id"] for each in shown["servers"]]) == (200, ["one"])
    assert gateway.ask("GET", "/workloads")[1]["workloads"] == []
    assert gateway.ask("POST", "/import", wish)[0] == 200
    [running] = gateway.ask("GET", "/workloads")[1]["workloads"]
    assert (running["name"], running["status"]) == ("one", "running")
    called = gateway.mooring.ok("tool", "call", "one", "peek", "--socket", str(gateway.socket))
    assert SECRET in called
    assert SECRET not in json.dumps([shown, gateway.ask("GET", "/workloads/one/export")])
    assert gateway.ask("POST", "/import", {"document": "{"})[0] == 422


def test_a_client_s_file_is_imported_into_the_running_gateway(gateway: Running) -> None:
    gateway.mooring.ok("secret", "setup", "--key", "file")
    entry = {
        "command": sys.executable,
        "args": [str(gateway.mooring.home / "server.py")],
        "env": {"TOKEN": SECRET},
    }
    (gateway.mooring.home / "mcp.json").write_text(json.dumps({"mcpServers": {"Mine": entry}}))
    done = gateway.mooring.process("import", "mcp.json", "--run", "--yes", "--socket", str(gateway.socket))
    assert (done.returncode, SECRET in done.stdout + done.stderr) == (0, False), done.stderr
    exported = gateway.ask("GET", "/workloads/mine/export")[1]
    assert exported["secrets"] == ["mine-TOKEN,target=TOKEN"]
    assert gateway.mooring.ok("secret", "get", "mine-TOKEN") == SECRET + "\n"


def test_a_client_s_servers_are_taken_over_by_the_running_gateway(gateway: Running) -> None:
    mooring = gateway.mooring
    mooring.ok("secret", "setup", "--key", "file")
    entry = {"command": sys.executable, "args": [str(mooring.home / "server.py")], "env": {"TOKEN": SECRET}}
    original = json.dumps({"mcpServers": {"Mine": entry}}, indent=3)
    file = mooring.home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.write_text(original)
    elsewhere = mooring.home / "elsewhere"
    elsewhere.mkdir()

    def from_elsewhere(*words: str) -> str:
        """As somebody whose own client files are other ones: only the gateway can change these."""
        done = subprocess.run(
            mooring.arguments("client", *words),
            env={**mooring.environment, "HOME": str(elsewhere), "XDG_DATA_HOME": str(mooring.data.parent)},
            cwd=elsewhere,
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert SECRET not in done.stdout + done.stderr
        return done.stdout + done.stderr

    shown = from_elsewhere("take-over", "cursor", "--run", "--dry-run")
    assert "mine-TOKEN" in shown
    assert file.read_text() == original
    from_elsewhere("take-over", "cursor", "--run", "--yes")
    taken = json.loads(file.read_text())["mcpServers"]["Mine"]
    assert taken["url"].endswith("/mcp/mine")
    assert gateway.ask("GET", "/workloads/mine")[1]["status"] == "running"
    assert gateway.ask("GET", "/workloads/mine/export")[1]["secrets"] == ["mine-TOKEN,target=TOKEN"]
    assert "mooring rm mine" in from_elsewhere("give-back", "cursor")
    assert file.read_text() == original
    status, answer = gateway.ask("POST", "/clients/cursor/give-back")
    assert (status, answer["error"]["code"]) == (422, "client_file_unusable")


def test_a_take_over_that_fails_leaves_everything_as_it_was(gateway: Running) -> None:
    good = {"command": sys.executable, "args": [str(gateway.mooring.home / "server.py")]}
    bad = {"command": sys.executable, "args": ["-c", "raise SystemExit(3)"]}
    original = json.dumps({"mcpServers": {"good": good, "bad": bad}})
    file = gateway.mooring.home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.write_text(original)
    status, answer = gateway.ask("POST", "/clients/cursor/take-over", {})
    assert (status, "`bad` did not start" in answer["error"]["message"]) == (422, True), answer
    assert file.read_text() == original
    assert gateway.ask("GET", "/workloads")[1]["workloads"] == []


def test_a_take_over_can_go_into_a_file(gateway: Running) -> None:
    file = gateway.mooring.home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.write_text('{"mcpServers": {"a": {"command": "x"}}}')
    target = gateway.mooring.home / "mooring.yaml"
    body = {"into": str(target), "base_url": "http://127.0.0.1:9/"}
    status, answer = gateway.ask("POST", "/clients/cursor/take-over", body)
    assert (status, answer["servers"][0]["id"]) == (200, "a"), answer
    assert "id: a" in target.read_text()
    assert "http://127.0.0.1:9/mcp/a" in file.read_text()
    assert gateway.ask("POST", "/clients/cursor/give-back")[1]["target"] == str(target)
    assert "id: a" not in target.read_text()
    assert file.read_text() == '{"mcpServers": {"a": {"command": "x"}}}'


def test_after_a_take_over_into_a_file_the_next_step_is_said(gateway: Running) -> None:
    file = gateway.mooring.home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.write_text('{"mcpServers": {"a": {"command": "x"}}}')
    target = gateway.mooring.home / "servers.yaml"
    done = gateway.mooring("client", "take-over", "cursor", "--yes", "--into", str(target))
    assert done.returncode == 0, done.stderr
    assert f"serve it with `mooring serve --config {target}`" in done.stderr
