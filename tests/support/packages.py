"""Programs that tests need from the distribution: installed where we may, else the lack is said loudly."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

INSTALL_SECONDS = 300


def program(name: str, package: str) -> str:
    """The path of a program; the test is skipped where it cannot be had."""
    found = shutil.which(name)
    if found is None and shutil.which("apt-get") and os.geteuid() == 0:
        for command in (["update"], ["install", "-y", "--no-install-recommends", package]):
            subprocess.run(
                ["apt-get", "-qq", *command], capture_output=True, timeout=INSTALL_SECONDS, check=False
            )
        found = shutil.which(name)
    if found is None:
        pytest.skip(f"`{name}` is not installed: apt-get install {package}")
    return found
