"""The errors of the command line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar


class Failed(Exception):
    """The command cannot do what was asked; the message says why and what to do next."""

    exit_code: ClassVar[int] = 1


def reason_of(error: Exception) -> str:
    """What it says; an error of the system without its number, and in lower case like our own."""
    return error.strerror.lower() if isinstance(error, OSError) and error.strerror else str(error)


def no_such_server(name: str, known: Iterable[str]) -> Failed:
    """For a name that nothing has, with those there are."""
    listed = ", ".join(f"`{found}`" for found in sorted(known)) or "none yet"
    return Failed(f"no server is called `{name}`; there are: {listed}")


class Misused(Failed):
    """It was not asked in a way that can be understood, whatever runs and whatever there is."""

    exit_code: ClassVar[int] = 2
