"""Installs bubblewrap for the sandbox tests, where we may: `python -m tests.workloads.sandbox_setup`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys


def ensure() -> None:
    """Install it unless it is there; SystemExit with the command to run when we may not."""
    if shutil.which("bwrap") is not None:
        return
    by_hand = "run `apt-get install bubblewrap` as root: the sandbox tests need it"
    if shutil.which("apt-get") is None:
        sys.exit(by_hand)
    root = [] if os.geteuid() == 0 else ["sudo", "--non-interactive"]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", "bubblewrap"]):
        try:
            subprocess.run([*root, "apt-get", *command], check=True, env=environment, timeout=300)
        except (OSError, subprocess.SubprocessError) as error:
            sys.exit(f"{by_hand} ({error})")


if __name__ == "__main__":
    ensure()
