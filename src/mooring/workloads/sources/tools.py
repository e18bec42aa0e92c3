"""The programs that install and run packages, and where they download from."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from mooring.workloads.runtime import CannotRun
from mooring.workloads.sources.shims import behind_shim

ASK_SECONDS: Final = 30.0


def find_tool(name: str, fix: str) -> Path:
    """A program on PATH, or beside our own interpreter, not a shim; `CannotRun` says what to install."""
    found = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
    if found is None:
        raise CannotRun(f"`{name}` was not found on PATH: {fix}")
    return behind_shim(Path(found), path=os.environ.get("PATH", os.defpath), cwd=Path.cwd())


async def ask(*argv: str) -> str:
    """The first line a trusted tool of this machine answers; empty when it has no answer."""
    return (await ask_all(*argv)).partition("\n")[0]


async def ask_all(*argv: str) -> str:
    """Everything it answers."""
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(ASK_SECONDS):
            output, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return ""
    return output.decode(errors="replace").strip() if process.returncode == 0 else ""


def hosts_of(urls: Iterable[str]) -> tuple[str, ...]:
    """The hosts of some URLs; what is no URL has none."""
    found: dict[str, None] = {}
    for url in urls:
        try:
            host = urlsplit(url).hostname
        except ValueError:
            continue
        if host:
            found[host] = None
    return tuple(found)
