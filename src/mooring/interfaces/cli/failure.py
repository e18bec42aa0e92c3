"""The error of the command line."""

from __future__ import annotations


class Failed(Exception):
    """The command cannot do what was asked; the message says why and what to do next."""
