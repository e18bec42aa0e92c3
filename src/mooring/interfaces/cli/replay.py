"""`mooring replay`: a server that says what was recorded, and nothing else."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from mooring.gateway.cassette import CassetteMistake, read
from mooring.gateway.replaying import Player
from mooring.interfaces.cli.failure import Failed


def run(arguments: argparse.Namespace) -> int:
    """Answer until stdin ends."""
    try:
        player = Player(*read(Path(arguments.cassette)))
    except CassetteMistake as error:
        raise Failed(str(error)) from error
    for line in sys.stdin.buffer:
        if line.strip():
            for message in player.receive(line):
                sys.stdout.write(json.dumps(message, ensure_ascii=False, separators=(",", ":")) + "\n")
            sys.stdout.flush()
    for why in player.unexpected:
        print(f"unexpected: {why}", file=sys.stderr)
    for turn in player.unused if arguments.everything else []:
        print(f"not asked for: `{turn.method}` on line {turn.line}", file=sys.stderr)
    return 1 if player.unexpected or (arguments.everything and player.unused) else 0
