"""How the running gateway's log looks in its terminal."""

from __future__ import annotations

import logging
import sys

from mooring.interfaces.cli.output import printable, styled, wants_colour

_STYLE_BY_LEVEL = {logging.WARNING: "yellow", logging.ERROR: "red", logging.CRITICAL: "red"}


def show_log(level: str) -> None:
    """Write the log to stderr from this level on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter(colour=wants_colour(sys.stderr)))
    logging.basicConfig(level=level.upper(), handlers=[handler])


class _Formatter(logging.Formatter):
    """`12:03:01 warning: notes: not a message`; what servers wrote cannot steer the terminal."""

    def __init__(self, *, colour: bool) -> None:
        super().__init__("%(asctime)s %(message)s", "%H:%M:%S")
        self._colour = colour

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name of the base class
        level = "" if record.levelno == logging.INFO else f"{record.levelname.lower()}: "
        shown = styled(level, _STYLE_BY_LEVEL.get(record.levelno, ""), self._colour)
        return f"{record.asctime} {shown}{printable(record.message)}"
