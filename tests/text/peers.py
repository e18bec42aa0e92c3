"""The converters Mooring is compared with: how each is installed, and a process that runs it.

Every peer gets an environment of its own under `.venvs/text-peers`, so that none can break another.
"""

import json
import select
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".venvs/text-peers"
INSTALL_SECONDS = 300
# The slowest known peer needs four seconds for a page.
ANSWER_SECONDS = 30.0


class NotInstalled(Exception):
    """A peer could not be installed or does not start; the message says why."""


class PeerFailed(Exception):
    """A peer could not convert this document."""


@dataclass(frozen=True, slots=True)
class Peer:
    name: str
    kind: Literal["pip", "npm"]
    packages: tuple[str, ...]
    # What it is called in `peer_python.py` or `peer_node.cjs`.
    entry: str = ""
    # Packages of one folder share their node_modules.
    folder: str = field(default="")

    @property
    def program(self) -> str:
        return self.entry or self.name

    @property
    def home(self) -> Path:
        return FOLDER / (self.folder or self.name)


_MDAST = ("mdast-util-from-adf@2.1.1", "mdast-util-to-markdown@2.1.2", "mdast-util-gfm@3.1.0")
_ATLASKIT = (
    "@atlaskit/editor-json-transformer@9.8.2",
    "@atlaskit/editor-prosemirror",
    "@atlaskit/adf-schema@57.7.22",
)
PEERS = (
    Peer("marklas", "pip", ("marklas==0.8.6",)),
    Peer("pyadf", "pip", ("pyadf==0.5.2",)),
    Peer("mcp-atlassian", "pip", ("mcp-atlassian==0.23.1",), "mcp_atlassian"),
    Peer("md2adf", "pip", ("md2adf==0.1.0",)),
    Peer("md-to-adf (PyPI)", "pip", ("md-to-adf==1.1.0",), "md_to_adf", "md-to-adf"),
    Peer("atlas-doc-parser", "pip", ("atlas-doc-parser==1.0.1",), "atlas_doc_parser"),
    Peer("cfxmark", "pip", ("cfxmark==0.6.1",)),
    Peer("jira2markdown", "pip", ("jira2markdown==0.5.3",)),
    Peer("pandoc", "pip", ("pypandoc-binary==1.17",)),
    Peer("marklassian", "npm", ("marklassian@1.2.1",), folder="npm-marklassian"),
    Peer("adf-to-markdown", "npm", ("adf-to-markdown@1.0.1",), folder="npm-adf-to-markdown"),
    Peer("adf-to-md", "npm", ("adf-to-md@1.2.1",), folder="npm-adf-to-md"),
    Peer("mdast-util-from-adf", "npm", _MDAST, folder="npm-mdast"),
    Peer("md-to-adf (npm)", "npm", ("md-to-adf@0.6.4",), "md-to-adf", "npm-md-to-adf"),
    Peer("jira2md", "npm", ("jira2md@3.0.1",), folder="npm-jira2md"),
    Peer(
        "atlaskit-markdown",
        "npm",
        ("@atlaskit/editor-markdown-transformer@6.3.1", *_ATLASKIT),
        folder="npm-atlaskit-markdown",
    ),
    Peer(
        "atlaskit-wiki",
        "npm",
        ("@atlaskit/editor-wikimarkup-transformer@12.2.2", *_ATLASKIT),
        folder="npm-atlaskit-wiki",
    ),
)
# Peers the study knows that this command does not try, and why.
NOT_TRIED = {
    "@markdown-confluence/lib 5.5.2": "when tried, its installation had not ended after 280 seconds",
    "@atlaskit/editor-confluence-transformer 8.1.33": (
        "when tried, its installation had reached 1.2 GB before it was stopped"
    ),
    "adf2md 2.0.0": "does not load in Node (broken module paths)",
    "extended-markdown-adf-parser": "not on npm",
    "adfast, omni-dev, jc-adf": "Go and Rust programs without a package on PyPI or npm",
    "adf-lib, markdown-to-confluence, md2cf, j2m": "one way only, or builders without a reader",
}


def install(peer: Peer) -> None:
    """Set the peer up unless exactly these packages are there already."""
    stamp = peer.home / ".installed"
    wanted = json.dumps(peer.packages)
    if stamp.exists() and stamp.read_text() == wanted:
        return
    print(f"installing {peer.name}", file=sys.stderr)
    peer.home.mkdir(parents=True, exist_ok=True)
    for command in _commands(peer):
        try:
            done = subprocess.run(
                command, cwd=peer.home, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise NotInstalled(f"not installed within {INSTALL_SECONDS} seconds") from error
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["no message"]
            raise NotInstalled(f"`{command[0]}` failed: {lines[-1][:200]}")
    stamp.write_text(wanted)


def _commands(peer: Peer) -> list[list[str]]:
    if peer.kind == "pip":
        python = str(peer.home / "bin/python")
        quiet = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        return [[sys.executable, "-m", "venv", str(peer.home)], [python, *quiet, *peer.packages]]
    if shutil.which("npm") is None:
        raise NotInstalled("`npm` is missing: install Node.js with npm")
    (peer.home / "package.json").write_text('{"private": true}')
    return [
        [
            "npm",
            "install",
            "--legacy-peer-deps",
            "--no-audit",
            "--no-fund",
            "--ignore-scripts",
            *peer.packages,
        ]
    ]


class Running:
    """A peer's process: one conversion at a time, each within a limit."""

    def __init__(self, peer: Peer) -> None:
        self.name = peer.name
        self._command = _program(peer)
        self._process = self._start()

    def _start(self) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        )
        self.offers: frozenset[str] = frozenset()
        self._process = process
        try:
            self.offers = frozenset(self._answer()["ready"])
        except PeerFailed as error:
            process.kill()
            process.wait()
            raise NotInstalled("installed, but does not start") from error
        return process

    def run(self, value: Any, source: str, target: str, times: int = 1) -> tuple[Any, float]:
        assert self._process.stdin is not None
        job = {"from": source, "to": target, "value": value, "times": times}
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        try:
            answer = self._answer(times)
        except PeerFailed:
            self.close()
            self._process = self._start()
            raise
        if "error" in answer:
            raise PeerFailed(answer["error"])
        return answer["out"], answer["seconds"]

    def _answer(self, times: int = 1) -> dict[str, Any]:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], ANSWER_SECONDS * times)
        line = self._process.stdout.readline() if ready else ""
        if not line:
            raise PeerFailed("no answer in time" if not ready else "the process ended")
        return json.loads(line)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


def _program(peer: Peer) -> list[str]:
    here = Path(__file__).parent
    if peer.kind == "pip":
        return [str(peer.home / "bin/python"), str(here / "peer_python.py"), peer.program]
    node = shutil.which("node")
    if node is None:
        raise NotInstalled("`node` is missing: install Node.js")
    return [node, str(here / "peer_node.cjs"), peer.program, str(peer.home)]
