"""Runs `mooring` under cProfile: profiled.py FILE ARGUMENTS… writes the profile to FILE when it ends."""

import cProfile
import sys

from mooring.interfaces.cli.main import main


def run() -> int:
    place, sys.argv[1:] = sys.argv[1], sys.argv[2:]
    profile = cProfile.Profile()
    try:
        return profile.runcall(main) or 0
    finally:
        profile.dump_stats(place)


if __name__ == "__main__":
    sys.exit(run())
