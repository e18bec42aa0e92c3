"""What an upstream answered: a head, and a body that is here or still arriving."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from mooring.transports.http_errors import ResponseTooLarge, TransportError
from mooring.transports.http_flow import BodyFlow

_LENGTH: Final = b"content-length"


class Response(msgspec.Struct, eq=False):
    """One response; `await pool.request(...)` returns it complete, or with its body still arriving.

    Read it in one of three ways: `body()` if `complete`; `attach()` for callbacks as it arrives; `read()` for
    all of it, bounded. One that is not read to its end must be given up with `abort()`.

    Header names are lower case. A gzip, deflate or zstd body is unpacked; its `content-encoding` and
    `content-length` are then left out.
    """

    status: int
    listed: list[tuple[bytes, bytes]]
    first: dict[bytes, bytes]
    """The first value of every header, by its name; ask `header` for the content-length."""
    chunks: list[bytes]
    """The whole body, if there is no flow."""
    flow: BodyFlow | None = None
    _length: bytes = b""
    """The content-length of a response that repeats a head, as it was written."""

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        if not self._length:
            return self.listed.copy()
        return [(name, self._length if name == _LENGTH else value) for name, value in self.listed]

    @property
    def complete(self) -> bool:
        """The whole body is here; never True for a response that failed."""
        return self.flow is None or self.flow.complete

    @property
    def error(self) -> TransportError | None:
        """Why the body ended early."""
        return None if self.flow is None else self.flow.error

    def header(self, name: bytes) -> bytes | None:
        """The first value of a header; `name` is in lower case."""
        if self._length and name == _LENGTH:
            return self._length
        return self.first.get(name)

    def header_values(self, name: bytes) -> list[bytes]:
        return [value for key, value in self.headers if key == name]

    def body(self) -> bytes:
        """The body of a complete response."""
        if self.flow is not None:
            return self.flow.body()
        chunks = self.chunks
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    async def read(self, max_bytes: int) -> bytes:
        """The whole body; raises `ResponseTooLarge`, or `ConnectionLost` if it ends early."""
        if self.flow is not None:
            return await self.flow.read(max_bytes)
        body = self.body()
        if len(body) > max_bytes:
            raise ResponseTooLarge(f"the response is larger than {max_bytes} bytes")
        return body

    def attach(
        self, on_data: Callable[[bytes], None], on_end: Callable[[TransportError | None], None]
    ) -> None:
        """Hand over the body piece by piece, from its first byte; then `on_end(None)`, or the failure."""
        if self.flow is None:
            self.flow = BodyFlow.complete_with(self.chunks)
        self.flow.attach(on_data, on_end)

    def pause(self) -> None:
        """No `on_data` until `resume()`; reading from the upstream stops."""
        if self.flow is not None:
            self.flow.pause()

    def resume(self) -> None:
        if self.flow is not None:
            self.flow.resume()

    def abort(self) -> None:
        """Not wanted any more: no further callbacks, and a connection in the middle of the body is closed."""
        if self.flow is not None:
            self.flow.abort()
