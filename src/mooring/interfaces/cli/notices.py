"""What a server says while it works: progress and log messages, on stderr."""

from __future__ import annotations

import json
import os
import shutil
from typing import TextIO

from mooring.interfaces.cli import elicitation
from mooring.interfaces.cli.client import Message
from mooring.interfaces.cli.output import one_line, styled, wants_colour


class Notices:
    """Progress is one line that changes where a person watches, elsewhere a line each time."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._colour = wants_colour(stream)
        self._live = stream.isatty() and os.environ.get("TERM") != "dumb"
        self._is_open = False

    def show(self, method: str, params: Message) -> None:
        """One notification of the server."""
        if method == "notifications/progress":
            self._show_progress(params)
        elif method == "notifications/message":
            data = params.get("data")
            text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
            self.settle()
            self._print(f"{params.get('level', 'info')}: {one_line(text)}", "\n")

    def answer(self, method: str, params: Message) -> Message | None:
        """The person's answer to a question of the server."""
        self.settle()
        return elicitation.answer(params) if method == "elicitation/create" else None

    def settle(self) -> None:
        """What comes next begins a line of its own."""
        if self._is_open:
            print(file=self._stream, flush=True)
        self._is_open = False

    def _show_progress(self, params: Message) -> None:
        done, total = params.get("progress"), params.get("total")
        amount = f"{done:g}/{total:g}" if total is not None else f"{done:g}"
        text = f"progress {amount}  {one_line(str(params.get('message') or ''))}".rstrip()
        if not self._live:
            self._print(text, "\n")
            return
        self._stream.write("\r\x1b[K")
        self._print(text[: shutil.get_terminal_size().columns - 1], "")
        self._is_open = True

    def _print(self, text: str, end: str) -> None:
        print(styled(text, "dim", self._colour), end=end, file=self._stream, flush=True)
