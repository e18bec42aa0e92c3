"""Every client on every system: the right file, the right entry, and undone without a trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.ecosystem.clients.registration import ClientBook, Registration
from mooring.ecosystem.clients.table import BY_ID, CLIENTS, ClientKind, ClientPlaces, ServerAddress
from mooring.ecosystem.documents.editing import entries

URL = "http://127.0.0.1:7433/mcp/notes"
COMMAND = ["/usr/bin/mooring", "proxy", "stdio"]


def command(server: str) -> list[str]:
    return [*COMMAND, server]


PREFIXES = {
    "linux": ("~/.config", "~/.config"),
    "darwin": ("~/Library/Application Support", "~/.config"),
    "win32": ("~/AppData/Roaming", "~/AppData/Roaming"),
}
APPLICATION, CONFIGURATION = "<application>", "<configuration>"
STORAGE = f"{APPLICATION}/Code/User/globalStorage"
# id -> file, what stands in its entry
EXPECTED: dict[str, tuple[str, dict[str, object]]] = {
    "amp-cli": (f"{CONFIGURATION}/amp/settings.json", {"type": "http", "url": URL}),
    "antigravity": ("~/.gemini/antigravity/mcp_config.json", {"serverUrl": URL}),
    "claude-code": ("~/.claude.json", {"type": "http", "url": URL}),
    "claude-desktop": (
        f"{APPLICATION}/Claude/claude_desktop_config.json",
        {"command": COMMAND[0], "args": ["proxy", "stdio", "notes"]},
    ),
    "cline": (
        f"{STORAGE}/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
        {"type": "streamableHttp", "url": URL},
    ),
    "codex": ("~/.codex/config.toml", {"url": URL}),
    "continue": ("~/.continue/config.yaml", {"type": "streamable-http", "url": URL}),
    "copilot-cli": ("~/.copilot/mcp-config.json", {"type": "http", "url": URL}),
    "cursor": ("~/.cursor/mcp.json", {"type": "http", "url": URL}),
    "factory": ("~/.factory/mcp.json", {"type": "http", "url": URL}),
    "gemini-cli": ("~/.gemini/settings.json", {"httpUrl": URL}),
    "goose": (
        f"{CONFIGURATION}/goose/config.yaml",
        {
            "name": "notes",
            "type": "streamable_http",
            "uri": URL,
            "enabled": True,
            "timeout": 60,
            "description": "",
        },
    ),
    "kimi-cli": ("~/.kimi/mcp.json", {"url": URL}),
    "kiro": ("~/.kiro/settings/mcp.json", {"url": URL}),
    "lm-studio": ("~/.lmstudio/mcp.json", {"type": "http", "url": URL}),
    "mistral-vibe": ("~/.vibe/config.toml", {"transport": "streamable-http", "url": URL}),
    "opencode": ("~/.config/opencode/opencode.json", {"type": "remote", "url": URL}),
    "qoder": ("~/.qoder/mcp.json", {"type": "http", "url": URL}),
    "roo-code": (
        f"{STORAGE}/rooveterinaryinc.roo-cline/settings/mcp_settings.json",
        {"type": "streamable-http", "url": URL},
    ),
    "trae": (f"{APPLICATION}/Trae/User/mcp.json", {"url": URL}),
    "vscode": (f"{APPLICATION}/Code/User/mcp.json", {"type": "http", "url": URL}),
    "vscode-insider": (f"{APPLICATION}/Code - Insiders/User/mcp.json", {"type": "http", "url": URL}),
    "vscode-server": ("~/.vscode-server/data/User/mcp.json", {"url": URL}),
    "windsurf": ("~/.codeium/windsurf/mcp_config.json", {"type": "http", "serverUrl": URL}),
    "windsurf-jetbrains": ("~/.codeium/mcp_config.json", {"type": "http", "serverUrl": URL}),
    "zed": (f"{CONFIGURATION}/zed/settings.json", {"url": URL}),
}
WINDOWS = {
    "goose": "~/AppData/Block/goose/config.yaml",
    "qoder": "~/AppData/Roaming/Qoder/SharedClientCache/mcp.json",
}


def test_the_table_has_the_clients_that_are_promised() -> None:
    assert {client.id for client in CLIENTS} == set(EXPECTED)
    assert len(EXPECTED) == 25 + 1


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.id)
def test_an_entry_gets_into_the_right_file_and_out_again(
    tmp_path: Path, client: ClientKind, platform: str
) -> None:
    home = tmp_path / "home"
    places = ClientPlaces(home, platform)
    file, expected = EXPECTED[client.id]
    application, configuration = PREFIXES[platform]
    file = WINDOWS.get(client.id, file) if platform == "win32" else file
    file = file.replace(APPLICATION, application).replace(CONFIGURATION, configuration)
    path = home / file.removeprefix("~/")
    assert client.path(places) == path
    assert not client.is_installed(places)

    book = ClientBook(tmp_path / "data", places, command, lambda: None)
    plan = book.plan(client, [ServerAddress("notes", URL)], Registration())
    assert not path.exists()
    book.apply(plan, registered=True)
    assert entries(path.read_text(), client.section) == {"notes": expected}
    assert book.own_entries(client) == {"notes": "notes"}
    assert client.is_installed(places)

    again = book.plan(client, [ServerAddress("notes", URL)], Registration())
    assert again.change.is_empty
    book.undo(client)
    assert not path.exists()
    assert book.registrations() == {}


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.id)
def test_a_server_that_is_known_by_its_sse_address_is_called_so(tmp_path: Path, client: ClientKind) -> None:
    book = ClientBook(tmp_path / "data", ClientPlaces(tmp_path, "linux"), command, lambda: None)
    address = ServerAddress("notes", f"{URL}/sse")
    book.apply(book.plan(client, [address], Registration()), registered=True)
    found = entries(client.path(ClientPlaces(tmp_path, "linux")).read_text(), client.section)["notes"]
    expected = dict(EXPECTED[client.id][1])
    if client.id != "claude-desktop":
        key = next(key for key, value in expected.items() if value == URL)
        del expected[key]
        expected["url" if client.id == "gemini-cli" else key] = f"{URL}/sse"
        word = "transport" if client.id == "mistral-vibe" else "type"
        if word in expected:
            expected[word] = {"mistral-vibe": "http", "opencode": "remote"}.get(client.id, "sse")
    assert found == expected
    assert book.own_entries(client) == {"notes": "notes"}


def test_where_programs_keep_their_settings_can_be_moved(tmp_path: Path) -> None:
    linux = ClientPlaces(tmp_path, "linux", {"XDG_CONFIG_HOME": "/cfg"})
    assert BY_ID["zed"].path(linux) == Path("/cfg/zed/settings.json")
    windows = ClientPlaces(tmp_path, "win32", {"APPDATA": "/roaming"})
    assert BY_ID["vscode"].path(windows) == Path("/roaming/Code/User/mcp.json")
