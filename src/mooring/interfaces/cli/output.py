"""How results look: tables, sizes, durations, colour where a person watches."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import TextIO

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
# Servers write this text. On a terminal a control character could hide or fake what stands there.
_CONTROL = {
    code: f"\\u{code:04x}"
    for code in (*range(32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A))
    if chr(code) not in "\n\t"
}


def wants_colour(stream: TextIO) -> bool:
    """Only on a terminal, and not when NO_COLOR says otherwise."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def styled(text: str, style: str, colour: bool) -> str:
    """The text in this style, or as it is."""
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if colour and style and text else text


def printable(text: str) -> str:
    """Text from a server without characters that steer a terminal."""
    return text.translate(_CONTROL)


def one_line(text: str) -> str:
    """As `printable`, on one line."""
    return printable(text).replace("\n", "\\n").replace("\t", " ")


def size(count: int) -> str:
    """A number of bytes for people."""
    if count < 1000:
        return f"{count} B"
    for unit in ("kB", "MB"):
        count_in_unit = count / (1000 if unit == "kB" else 1_000_000)
        if count_in_unit < 999.5:
            return f"{count_in_unit:.1f} {unit}" if count_in_unit < 99.95 else f"{count_in_unit:.0f} {unit}"
    return f"{count / 1e9:.1f} GB"


def milliseconds(value: float) -> str:
    """A time span given in milliseconds for people."""
    if value < 10:
        return f"{value:.1f} ms"
    return f"{value:.0f} ms" if value < 10_000 else duration(value / 1000)


def duration(seconds: float) -> str:
    """A time span for people: the two largest units."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds // 60:.0f} min {seconds % 60:.0f} s"
    if seconds < 86400:
        return f"{seconds // 3600:.0f} h {seconds % 3600 // 60:.0f} min"
    return f"{seconds // 86400:.0f} d {seconds % 86400 // 3600:.0f} h"


def print_table(heads: Sequence[str], rows: Sequence[Sequence[str]], stream: TextIO = sys.stdout) -> None:
    """Aligned columns; on a terminal the last one is wrapped to what is left of the line."""
    widths = [max(len(cell) for cell in column) for column in zip(heads, *rows, strict=True)]
    left = sum(widths[:-1]) + 2 * (len(widths) - 1)
    colour = wants_colour(stream)
    room = max(shutil.get_terminal_size().columns - left, 24) if stream.isatty() else sys.maxsize
    print(styled(_line(heads, widths), "dim", colour), file=stream)
    for row in rows:
        *cells, last = row
        wrapped = textwrap.wrap(last, room) or [""] if len(last) > room else [last]
        print(_line([*cells, wrapped[0]], widths), file=stream)
        for line in wrapped[1:]:
            print(" " * left + line, file=stream)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    *padded, last = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return "  ".join([*padded, last]).rstrip()
