"""The process that watches ours, and what it knows about processes. `reaper.py` says why.

Run as a program it must be up in milliseconds and stay small, so it imports next to nothing.
"""

import os
import signal
import sys

ADD, REMOVE, FORGET = b"+%d\n", b"-%d\n", b"=\n"
"""The lines it understands: a session to kill in the end, one that has ended, and forget them all."""

_DEAD = (b"Z", b"X")
_STDIN = 0
_SWEEPS = 10  # a member may start another one while we look; each round leaves fewer that could


def watch() -> None:
    """Kill what is left of each session that is removed and, at the end of stdin, of all that were not."""
    os.chdir("/")  # hold no directory of somebody's
    sessions: set[int] = set()
    unread = b""
    while data := os.read(_STDIN, 65536):
        *lines, unread = (unread + data).split(b"\n")
        removed: set[int] = set()
        for line in lines:
            if line == b"=":
                sessions.clear()
                continue
            joined, left = (sessions, removed) if line[:1] == b"+" else (removed, sessions)
            joined.add(int(line[1:]))
            left.discard(int(line[1:]))
        kill_sessions(removed)
    kill_sessions(sessions)


def kill_sessions(sessions: set[int]) -> None:
    """Kill all members of the sessions, in whichever process group they are."""
    for session in sessions:
        signal_group(session, signal.SIGKILL)
    for _ in range(_SWEEPS if sessions else 0):
        members = [
            pid for pid, state, _, session in processes() if session in sessions and state not in _DEAD
        ]
        if not members:
            return
        for pid in members:
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue


def signal_group(group: int, number: int) -> bool:
    """Send a signal to a process group; tell whether there was anybody to receive it."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        # Nobody in it may be signalled by us any more: they run as another user. They are still there.
        return True
    return True


def group_lives(group: int) -> bool:
    """Whether anybody in the group still runs.

    Dead members count for a signal until their parent asks after them. For orphans that is process 1, which
    in a container may never do it.
    """
    if not signal_group(group, 0):
        return False
    states = [state for _, state, its_group, _ in processes() if its_group == group]
    return not states or any(state not in _DEAD for state in states)


def processes() -> list[tuple[int, bytes, int, int]]:
    """Number, state, group and session of all processes, where the kernel shows them; nothing elsewhere."""
    found: list[tuple[int, bytes, int, int]] = []
    if sys.platform != "linux":
        return found
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                with open(entry.path + "/stat", "rb") as file:  # noqa: PTH123  pathlib takes long to import
                    stat = file.read()
            except OSError:
                continue  # it has ended meanwhile
            # pid (name) state parent group session ...; the name may hold anything, brackets too.
            state, _, group, session = stat[stat.rindex(b")") + 1 :].split(maxsplit=4)[:4]
            found.append((int(entry.name), state, int(group), int(session)))
    return found


if __name__ == "__main__":
    watch()
