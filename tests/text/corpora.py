"""Inputs from outside the project, fetched when they are needed and never committed.

- CommonMark 0.31.2: `commonmark-spec` from npm (CC-BY-SA 4.0)
- GFM: the source package of `marko` from PyPI (MIT), which carries the specification's text
- Atlassian's document fixtures: `@atlaskit/adf-schema` from npm (Apache 2.0)
"""

import json
import re
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from typing import Any

from .peers import FOLDER, NotInstalled, Peer, install

_EXAMPLE = re.compile(r"^`{32} example([^\n]*)\n(.*?)^\.\n(.*?)^`{32}$", re.MULTILINE | re.DOTALL)
_SPEC = Peer("CommonMark's examples", "npm", ("commonmark-spec@0.31.2",), folder="npm-commonmark-spec")
_FIXTURES = Peer("Atlassian's fixtures", "npm", ("@atlaskit/adf-schema@57.7.22",), folder="npm-adf-schema")
_GFM = "marko==2.2.4"


@dataclass(frozen=True, slots=True)
class Example:
    markdown: str
    html: str
    extension: str


def common_mark() -> list[Example]:
    install(_SPEC)
    return _examples((_SPEC.home / "node_modules/commonmark-spec/spec.txt").read_text("utf-8"))


def gfm_extensions() -> list[Example]:
    """The examples of GFM that CommonMark does not have."""
    return [each for each in _examples(_gfm_text()) if each.extension]


def fixtures() -> dict[str, Any]:
    """Documents of the schema package itself, by file name."""
    install(_FIXTURES)
    found: dict[str, Any] = {}
    for file in sorted((_FIXTURES.home / "node_modules/@atlaskit").rglob("*.json")):
        if file.stat().st_size < 5_000_000 and '"doc"' in (content := file.read_text("utf-8")):
            value = json.loads(content)
            if isinstance(value, dict) and value.get("type") == "doc":
                found[file.name] = value
    return found


def _examples(spec: str) -> list[Example]:
    return [
        Example(markdown.replace("→", "\t"), html.replace("→", "\t"), kind.strip())
        for kind, markdown, html in _EXAMPLE.findall(spec)
    ]


def _gfm_text() -> str:
    home = FOLDER / "gfm-spec"
    if not (files := list(home.glob("marko-*.tar.gz"))):
        home.mkdir(parents=True, exist_ok=True)
        command = [
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--no-binary",
            "marko",
            "-d",
            str(home),
            _GFM,
        ]
        if subprocess.run(
            [sys.executable, *command], capture_output=True, timeout=300, check=False
        ).returncode:
            raise NotInstalled("`pip download` failed")
        files = list(home.glob("marko-*.tar.gz"))
    with tarfile.open(files[0]) as archive:
        for member in archive.getmembers():
            if member.name.endswith("tests/spec/gfm.txt") and (content := archive.extractfile(member)):
                return content.read().decode("utf-8")
    raise NotInstalled("the package no longer carries the specification")
