"""A channel that carries a message per line, whatever carries the lines."""

from __future__ import annotations

from mooring.protocol.lines import TOO_LONG, LinePart, LineReader, Message
from mooring.transports.duplex import DuplexWire
from mooring.transports.spool import SPILL_BYTES
from mooring.transports.wire import WireEvents


class LineWire(DuplexWire):
    """The reading half; a stray print among the lines is noise, not the end."""

    def __init__(self, events: WireEvents, label: str, max_message_bytes: int) -> None:
        super().__init__(events, label)
        self._lines = LineReader(max_message_bytes, SPILL_BYTES)
        self._max_bytes = max_message_bytes

    def receive_bytes(self, data: bytes) -> None:
        for line in self._lines.feed(data):
            if isinstance(line, Message):
                self.receive(line.data)
            elif isinstance(line, LinePart):
                self.receive_part(line.data, last=line.last)
            else:
                self.heard_noise(line.data, line.why)
                if line.why == TOO_LONG:
                    self.lose_answer(line.data, f"the server's answer is larger than {self._max_bytes} bytes")

    def receive_end(self) -> None:
        """No more lines; an unfinished one is the last words of a crash."""
        for line in self._lines.finish():
            self.heard_noise(line.data, "unfinished output")
        self.forget_part()

    def heard_noise(self, data: bytes, why: str) -> None:
        """A line that cannot be a message."""
        self._events.on_noise(data, why)
