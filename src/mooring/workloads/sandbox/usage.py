"""What a tree of processes uses, counted process by process: for where there is no control group."""

from __future__ import annotations

import os
from pathlib import Path

from mooring.workloads.runtime import Usage


def usage_of(root: int) -> Usage:
    """Memory, processor time and number of a process and everything below it; nothing when it is gone."""
    page, tick = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_CLK_TCK")
    stats = _all_stats()
    below = _descendants(root, {pid: int(stat[1]) for pid, stat in stats.items()})
    memory = sum(int(stats[pid][21]) for pid in below) * page
    ticks = sum(int(stats[pid][11]) + int(stats[pid][12]) for pid in below)
    return Usage(memory, ticks / tick, len(below))


def _all_stats() -> dict[int, list[str]]:
    """The fields of each process after its name, which may hold anything."""
    found: dict[int, list[str]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text(errors="replace")
            except OSError:
                continue  # it has ended meanwhile
            found[int(entry.name)] = stat[stat.rindex(")") + 1 :].split()
    return found


def _descendants(root: int, parents: dict[int, int]) -> set[int]:
    found = {root} & parents.keys()
    grew = bool(found)
    while grew:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        found |= more
        grew = bool(more)
    return found
