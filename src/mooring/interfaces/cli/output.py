"""How results look: tables, sizes, durations, colour where a person watches."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import TextIO

# A column narrower than this is no pleasure to read.
_LEAST_ROOM = 24
_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_COLOUR = re.compile("\x1b\\[\\d+m")
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


def end_line() -> None:
    """After Ctrl-C: what comes next, such as the shell's prompt, does not stand behind `^C`."""
    if sys.stderr.isatty():
        print(file=sys.stderr)


def print_indented(text: str, indent: str) -> None:
    """A line that hangs under another one; on a terminal it is wrapped to the width of that."""
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    print(textwrap.fill(text, room, initial_indent=indent, subsequent_indent=indent + "  "))


def _width(cell: str) -> int:
    """How much room it takes: colours take none."""
    return len(_COLOUR.sub("", cell))


def _padded(cell: str, width: int) -> str:
    return cell + " " * (width - _width(cell))


def print_table(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    stream: TextIO = sys.stdout,
    *,
    least: Sequence[str] = (),
) -> None:
    """Aligned columns; on a terminal the last one is wrapped to what is left of the line.

    Where too little is left, columns named in `least` are left out, the first one first; then every row is
    a few lines of its own. Words are never cut, so that an address can be copied: the last cell then stands
    below the others.
    """
    columns = shutil.get_terminal_size().columns if stream.isatty() else sys.maxsize
    heads, rows = _without(least, heads, rows, columns)
    widths = _widths(heads, rows)
    left = sum(widths[:-1]) + 2 * (len(widths) - 1)
    colour = wants_colour(stream)
    room = columns - left
    if room < min(_LEAST_ROOM, widths[-1]):
        _print_stacked(heads, rows, columns, stream)
        return
    print(styled(_line(heads, widths), "dim", colour), file=stream)
    for *cells, last in rows:
        if any(len(word) > room for word in last.split()):
            print(f"{_line(cells, widths[:-1])}\n    {last}", file=stream)
            continue
        wrapped = textwrap.wrap(last, room) or [""] if len(last) > room else [last]
        print(_line([*cells, wrapped[0]], widths), file=stream)
        for line in wrapped[1:]:
            print(" " * left + line, file=stream)


def _widths(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(_width, column)) for column in zip(heads, *rows, strict=True)]


def _without(
    least: Sequence[str], heads: Sequence[str], rows: Sequence[Sequence[str]], columns: int
) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """The table without as many of these columns as it takes to have a line for each row."""
    for head in least:
        widths = _widths(heads, rows)
        if sum(widths) + 2 * (len(widths) - 1) <= columns:
            break
        where = heads.index(head)
        heads = [*heads[:where], *heads[where + 1 :]]
        rows = [[*row[:where], *row[where + 1 :]] for row in rows]
    return heads, rows


def _print_stacked(heads: Sequence[str], rows: Sequence[Sequence[str]], columns: int, stream: TextIO) -> None:
    """The first cell, below it the others with their heads, below these the last."""
    room = max(columns - 4, _LEAST_ROOM)
    for first, *others, last in rows:
        print(styled(first, "bold", wants_colour(stream)), file=stream)
        named = [
            f"{head}: {cell}" for head, cell in zip(heads[1:-1], others, strict=True) if cell not in ("", "-")
        ]
        for line in (
            *_filled(named, room),
            *textwrap.wrap(last, room, break_on_hyphens=False, break_long_words=False),
        ):
            print(f"    {line}", file=stream)


def _filled(parts: Sequence[str], room: int) -> list[str]:
    """As many of them on a line as there is room for; none is broken."""
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + 2 + len(part) <= room:
            lines[-1] += f"  {part}"
        else:
            lines.append(part)
    return lines


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    *padded, last = (_padded(cell, width) for cell, width in zip(cells, widths, strict=True))
    return "  ".join([*padded, last]).rstrip()
