"""Installs what the suite needs from npm, once: Node itself, both versions of the suite, TypeScript peers."""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NODE = ROOT / "node_modules/node/bin/node"
_LOCK = ROOT / "package-lock.json"
_INSTALLED = ROOT / "node_modules/.installed-from"
_INSTALL_SECONDS = 600


class SetupFailed(Exception):
    """Something the suite needs could not be installed; the message says what to do."""


def suite_entry(package: str) -> Path:
    """The program of an installed suite, by its name in `package.json`."""
    return ROOT / "node_modules" / package / "dist/index.js"


def suite_version(package: str) -> str:
    manifest = ROOT / "node_modules" / package / "package.json"
    return json.loads(manifest.read_text())["version"]


def ensure() -> None:
    """Install the locked packages unless exactly these are installed already; one process at a time."""
    with (ROOT / "package.json").open() as alone:
        fcntl.flock(alone, fcntl.LOCK_EX)
        _install()


def _install() -> None:
    if _INSTALLED.exists() and _INSTALLED.read_text() == _lock_digest() and NODE.exists():
        return
    if shutil.which("npm") is None:
        raise SetupFailed("the conformance suite needs `npm`: install Node.js with npm and run this again")
    print("installing the conformance suite with `npm ci`", file=sys.stderr)
    done = subprocess.run(
        ["npm", "ci"], cwd=ROOT, capture_output=True, text=True, timeout=_INSTALL_SECONDS, check=False
    )
    if done.returncode:
        raise SetupFailed(f"`npm ci` failed; run it in {ROOT} to see why:\n{done.stderr.strip()[-2000:]}")
    if not NODE.exists():
        raise SetupFailed("npm did not run the installer of its `node` package: run `npm rebuild node`")
    _INSTALLED.write_text(_lock_digest())


def _lock_digest() -> str:
    return hashlib.sha256(_LOCK.read_bytes()).hexdigest()


if __name__ == "__main__":
    try:
        ensure()
    except SetupFailed as failure:
        sys.exit(str(failure))
