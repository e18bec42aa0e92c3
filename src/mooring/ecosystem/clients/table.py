"""The clients we know: where each keeps its servers on each system, and how an entry looks there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from mooring.ecosystem.documents.editing import Entry, Section

Base = Literal["home", "application", "configuration"]


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """One of our servers as a client reaches it. The URL stays the same as long as the server exists."""

    id: str
    url: str
    group: str = "default"

    @property
    def is_sse(self) -> bool:
        """Whether this is the address for HTTP+SSE."""
        return self.url.endswith(f"/mcp/{self.id}/sse")


@dataclass(frozen=True, slots=True)
class ClientKind:
    """One client program."""

    id: str
    title: str
    base: Base
    """`application`: this system's folder for programs; `configuration`: ~/.config, on Windows Roaming."""
    file: str
    section: Section
    url_key: str = "url"
    type_key: str = "type"
    type_value: str | None = None
    sse_value: str = "sse"
    """What it calls HTTP+SSE, if it has a word for what a server speaks."""
    sse_url_key: str | None = None
    """Where the address of HTTP+SSE stands, if elsewhere."""
    extra: tuple[tuple[str, Any], ...] = ()
    windows_file: tuple[Base, str] | None = None
    """Where Windows differs by more than the base folder."""
    signs: tuple[str, ...] = ()
    """Folders in the home that show the client is used here, besides the one of its file."""
    launches_commands: bool = False
    """It cannot take a URL: it starts `mooring proxy stdio`."""
    note: str = ""

    def path(self, places: ClientPlaces) -> Path:
        """Its file on this machine."""
        base, file = self.base, self.file
        if places.platform == "win32" and self.windows_file is not None:
            base, file = self.windows_file
        return places.folder(base) / PurePosixPath(file)

    def is_installed(self, places: ClientPlaces) -> bool:
        """Whether the client was ever used here: its file or its own folder is there."""
        path = self.path(places)
        shared = {places.home, places.folder("application"), places.folder("configuration")}
        if path.exists() or any((places.home / sign).is_dir() for sign in self.signs):
            return True
        return path.parent not in shared and path.parent.is_dir()

    def entry(self, name: str, address: ServerAddress, command: list[str]) -> Entry:
        """What stands in its file for one of our servers."""
        if self.launches_commands:
            return {"command": command[0], "args": command[1:]}
        made: Entry = {"name": name} if self.id == "goose" else {}
        if self.type_value is not None:
            made[self.type_key] = self.sse_value if address.is_sse else self.type_value
        url_key = self.sse_url_key if address.is_sse and self.sse_url_key else self.url_key
        return {**made, url_key: address.url, **dict(self.extra)}


@dataclass(frozen=True, slots=True)
class ClientPlaces:
    """The folders of one user on one system."""

    home: Path
    platform: str
    environment: Mapping[str, str] = field(default_factory=dict[str, str])

    def folder(self, base: Base) -> Path:
        """The folder that paths of this base begin in."""
        if base == "home":
            return self.home
        if self.platform == "win32":
            return Path(self.environment.get("APPDATA") or self.home / "AppData" / "Roaming")
        if base == "application" and self.platform == "darwin":
            return self.home / "Library" / "Application Support"
        return Path(self.environment.get("XDG_CONFIG_HOME") or self.home / ".config")


_SERVERS = Section("json", "mcpServers")
_VSCODE = Section("json", "servers")
_EXTENSIONS = "Code/User/globalStorage"

CLIENTS: tuple[ClientKind, ...] = (
    ClientKind(
        "amp-cli",
        "Amp",
        "configuration",
        "amp/settings.json",
        Section("json", "amp.mcpServers"),
        type_value="http",
    ),
    ClientKind(
        "antigravity", "Antigravity", "home", ".gemini/antigravity/mcp_config.json", _SERVERS, "serverUrl"
    ),
    ClientKind(
        "claude-code", "Claude Code", "home", ".claude.json", _SERVERS, type_value="http", signs=(".claude",)
    ),
    ClientKind(
        "claude-desktop",
        "Claude Desktop",
        "application",
        "Claude/claude_desktop_config.json",
        _SERVERS,
        launches_commands=True,
        note="through `mooring proxy stdio`",
    ),
    ClientKind(
        "cline",
        "Cline",
        "application",
        f"{_EXTENSIONS}/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
        _SERVERS,
        type_value="streamableHttp",
    ),
    ClientKind("codex", "Codex", "home", ".codex/config.toml", Section("toml", "mcp_servers")),
    ClientKind(
        "continue",
        "Continue",
        "home",
        ".continue/config.yaml",
        Section("yaml", "mcpServers", "list"),
        type_value="streamable-http",
    ),
    ClientKind("copilot-cli", "Copilot CLI", "home", ".copilot/mcp-config.json", _SERVERS, type_value="http"),
    ClientKind("cursor", "Cursor", "home", ".cursor/mcp.json", _SERVERS, type_value="http"),
    ClientKind("factory", "Factory", "home", ".factory/mcp.json", _SERVERS, type_value="http"),
    ClientKind(
        "gemini-cli", "Gemini CLI", "home", ".gemini/settings.json", _SERVERS, "httpUrl", sse_url_key="url"
    ),
    ClientKind(
        "goose",
        "Goose",
        "configuration",
        "goose/config.yaml",
        Section("yaml", "extensions"),
        "uri",
        type_value="streamable_http",
        extra=(("enabled", True), ("timeout", 60), ("description", "")),
        windows_file=("home", "AppData/Block/goose/config.yaml"),
    ),
    ClientKind("kimi-cli", "Kimi CLI", "home", ".kimi/mcp.json", _SERVERS),
    ClientKind("kiro", "Kiro", "home", ".kiro/settings/mcp.json", _SERVERS, signs=(".kiro",)),
    ClientKind("lm-studio", "LM Studio", "home", ".lmstudio/mcp.json", _SERVERS, type_value="http"),
    ClientKind(
        "mistral-vibe",
        "Mistral Vibe",
        "home",
        ".vibe/config.toml",
        Section("toml", "mcp_servers", "list"),
        type_key="transport",
        type_value="streamable-http",
        sse_value="http",
    ),
    ClientKind(
        "opencode",
        "OpenCode",
        "configuration",
        "opencode/opencode.json",
        Section("json", "mcp"),
        type_value="remote",
        sse_value="remote",
        windows_file=("home", ".config/opencode/opencode.json"),
    ),
    ClientKind(
        "qoder",
        "Qoder",
        "home",
        ".qoder/mcp.json",
        _SERVERS,
        type_value="http",
        windows_file=("configuration", "Qoder/SharedClientCache/mcp.json"),
    ),
    ClientKind(
        "roo-code",
        "Roo Code",
        "application",
        f"{_EXTENSIONS}/rooveterinaryinc.roo-cline/settings/mcp_settings.json",
        _SERVERS,
        type_value="streamable-http",
        note="no longer developed",
    ),
    ClientKind("trae", "Trae", "application", "Trae/User/mcp.json", _SERVERS),
    ClientKind("vscode", "VS Code", "application", "Code/User/mcp.json", _VSCODE, type_value="http"),
    ClientKind(
        "vscode-insider",
        "VS Code Insiders",
        "application",
        "Code - Insiders/User/mcp.json",
        _VSCODE,
        type_value="http",
    ),
    ClientKind("vscode-server", "VS Code Server", "home", ".vscode-server/data/User/mcp.json", _VSCODE),
    ClientKind(
        "windsurf",
        "Windsurf",
        "home",
        ".codeium/windsurf/mcp_config.json",
        _SERVERS,
        "serverUrl",
        type_value="http",
    ),
    ClientKind(
        "windsurf-jetbrains",
        "Windsurf for JetBrains",
        "home",
        ".codeium/mcp_config.json",
        _SERVERS,
        "serverUrl",
        type_value="http",
    ),
    ClientKind("zed", "Zed", "configuration", "zed/settings.json", Section("json", "context_servers")),
)
BY_ID = {client.id: client for client in CLIENTS}
