"""What several workloads are doing, while somebody waits: one line each, renewed in place on a terminal."""

from __future__ import annotations

import shutil
import sys
from typing import TextIO

from mooring.interfaces.cli.output import one_line, styled, wants_colour

_STYLES = {"running": "green", "stopped": "dim", "removed": "dim"}


class Progress:
    """Lines on stderr. Where nobody watches, each change is a line of its own."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty()
        self._colour = wants_colour(self._stream)
        self._texts: dict[str, str] = {}
        self._drawn = 0

    def tell(self, name: str, text: str) -> None:
        """Something has happened to one of them; of several lines the first is enough for now."""
        text = text.partition("\n")[0]
        if self._texts.get(name) == text:
            return
        self._texts[name] = text
        if self._live:
            self._draw()
        else:
            print(f"{name}: {one_line(text)}", file=self._stream, flush=True)

    @property
    def names(self) -> tuple[str, ...]:
        """Those something has happened to."""
        return tuple(self._texts)

    def clear(self) -> None:
        """Take the lines away: the result says it all."""
        if self._live and self._drawn:
            self._stream.write(f"\x1b[{self._drawn}A\x1b[J")
            self._stream.flush()
            self._drawn = 0

    def _draw(self) -> None:
        size = shutil.get_terminal_size()
        width = max(map(len, self._texts))
        shown = list(self._texts.items())[-max(size.lines - 2, 1) :]
        lines = [self._line(name, text, width, size.columns) for name, text in shown]
        up = f"\x1b[{self._drawn}A\x1b[J" if self._drawn else ""
        self._stream.write(up + "".join(f"{line}\n" for line in lines))
        self._stream.flush()
        self._drawn = len(lines)

    def _line(self, name: str, text: str, width: int, columns: int) -> str:
        room = max(columns - width - 3, 10)
        shown = one_line(text)[:room]
        style = "red" if text.startswith("failed") else _STYLES.get(text, "")
        return f"{name.ljust(width)}  {styled(shown, style, self._colour)}"
