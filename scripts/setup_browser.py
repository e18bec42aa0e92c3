"""Installs the distribution's Chromium, which the tests of the upload page use, if it is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

NAMES = ("chromium", "chromium-browser", "google-chrome")
SECONDS = 600


def main() -> int:
    if any(shutil.which(name) for name in NAMES):
        return 0
    apt = shutil.which("apt-get")
    if apt is None:
        print("no Chromium: install it with your system's packages to test the upload page", file=sys.stderr)
        return 1
    first = [] if os.geteuid() == 0 else ["sudo", "--non-interactive"]
    if first and shutil.which("sudo") is None:
        print("no Chromium: run `apt-get install chromium` as root to test the upload page", file=sys.stderr)
        return 1
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for words in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", "chromium"]):
        done = subprocess.run([*first, apt, *words], timeout=SECONDS, check=False, env=environment)
        if done.returncode:
            print("no Chromium: `apt-get` failed; the upload page is not tested", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
