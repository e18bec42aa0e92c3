"""Content codings: choosing one, packing replies, unpacking responses.

Packing of a stream flushes after every piece, so that each event can be read as soon as it is sent.
Unpacking hands out small pieces, so that a bomb is noticed before it has grown.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable
from functools import lru_cache
from typing import Protocol

import zstandard

PIECE_BYTES = 65_536
_GZIP_WBITS = 31
_GZIP_LEVEL = 1  # level 6 takes four times as long for a tenth fewer bytes of JSON
_ZSTD_LEVEL = 1
_ZSTD_WINDOW_LOG = 17  # keeps a stream's compressor near 300 kB instead of several megabytes
_ZSTD_MAX_WINDOW_BYTES = 8 << 20  # what RFC 8878 asks every decoder to support
_MAX_REMEMBERED_BYTES = 256
_PLAIN_TEXT = frozenset(
    (b"application/json", b"application/xml", b"application/javascript", b"application/x-ndjson")
)


class BadEncoding(Exception):
    """The bytes are not what their content coding says."""


class StreamCompressor(Protocol):
    def piece(self, data: bytes | bytearray | memoryview) -> bytes:
        """Compress and flush: what is returned can be decoded up to the last byte of `data`."""
        ...

    def finish(self) -> bytes: ...


class StreamDecoder(Protocol):
    def decode(self, data: bytes, emit: Callable[[bytes], object]) -> None:
        """Unpack `data`; `emit` gets pieces of at most `PIECE_BYTES` and may raise to stop."""
        ...

    def finish(self) -> None:
        """The encoded bytes have ended; raises `BadEncoding` if that is too early."""
        ...


def negotiate(accept_encoding: bytes) -> bytes | None:
    """The coding of ours that the client likes best, or None to send the bytes as they are."""
    # What strangers send is only remembered if it is short.
    return _negotiate(accept_encoding) if len(accept_encoding) <= _MAX_REMEMBERED_BYTES else None


@lru_cache(maxsize=256)
def _negotiate(accept_encoding: bytes) -> bytes | None:
    weights: dict[bytes, float] = {}
    for item in accept_encoding.lower().split(b","):
        name, _, parameters = item.partition(b";")
        weights[name.strip()] = _weight(parameters)
    other = weights.get(b"*", 0.0)
    zstd = weights.get(b"zstd", other)
    gzip = weights.get(b"gzip", weights.get(b"x-gzip", other))
    best = max(zstd, gzip)
    if best <= 0.0 or best < weights.get(b"identity", 0.0):
        return None
    return b"zstd" if zstd == best else b"gzip"


def _weight(parameters: bytes) -> float:
    for parameter in parameters.split(b";"):
        name, _, value = parameter.partition(b"=")
        if name.strip() == b"q":
            try:
                weight = float(value)
            except ValueError:
                return 0.0
            return weight if 0.0 <= weight <= 1.0 else 0.0
    return 1.0


def is_compressible(content_type: bytes) -> bool:
    """JSON and text shrink; images, archives and the like are packed already."""
    return len(content_type) <= _MAX_REMEMBERED_BYTES and _is_compressible(content_type)


@lru_cache(maxsize=256)
def _is_compressible(content_type: bytes) -> bool:
    kind = content_type.partition(b";")[0].strip().lower()
    return kind in _PLAIN_TEXT or kind.startswith(b"text/") or kind.endswith((b"+json", b"+xml"))


class _Whole(threading.local):
    """zstd contexts may not be shared between threads, so each event loop's thread has its own."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=_ZSTD_LEVEL)


_whole: _Whole | None = None


def compress(coding: bytes, body: bytes) -> bytes:
    """A complete body in one go; for bodies that take well under a millisecond."""
    global _whole  # noqa: PLW0603  built at the first use: most processes never compress with zstd
    if coding == b"gzip":
        return zlib.compress(body, _GZIP_LEVEL, _GZIP_WBITS)
    if _whole is None:
        _whole = _Whole()
    return _whole.compressor.compress(body)


def stream_compressor(coding: bytes) -> StreamCompressor:
    return GzipCompressor() if coding == b"gzip" else ZstdCompressor()


class GzipCompressor:
    __slots__ = ("_compressor",)

    def __init__(self) -> None:
        self._compressor = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP_WBITS)

    def piece(self, data: bytes | bytearray | memoryview) -> bytes:
        return self._compressor.compress(data) + self._compressor.flush(zlib.Z_SYNC_FLUSH)

    def finish(self) -> bytes:
        return self._compressor.flush()


class ZstdCompressor:
    __slots__ = ("_compressor",)

    def __init__(self) -> None:
        parameters = zstandard.ZstdCompressionParameters(
            compression_level=_ZSTD_LEVEL, window_log=_ZSTD_WINDOW_LOG
        )
        # One context per stream: two streams of one context would corrupt each other.
        self._compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()

    def piece(self, data: bytes | bytearray | memoryview) -> bytes:
        compressor = self._compressor
        return compressor.compress(data) + compressor.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)

    def finish(self) -> bytes:
        return self._compressor.flush()


def stream_decoder(coding: bytes) -> StreamDecoder | None:
    """A decoder for the value of a Content-Encoding header; None if it is not one of ours."""
    coding = coding.strip().lower()
    if coding in (b"gzip", b"x-gzip"):
        return GzipDecoder()
    if coding == b"deflate":
        return DeflateDecoder()
    if coding == b"zstd":
        return ZstdDecoder()
    return None


class _Inflater(Protocol):
    """`zlib.decompressobj`, whose type has no public name."""

    @property
    def eof(self) -> bool: ...
    @property
    def unconsumed_tail(self) -> bytes: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


class GzipDecoder:
    """One or more gzip members after each other (RFC 1952 section 2.2)."""

    __slots__ = ("_decompressor", "_started")

    def __init__(self) -> None:
        self._decompressor = zlib.decompressobj(_GZIP_WBITS)
        self._started = False

    def decode(self, data: bytes, emit: Callable[[bytes], object]) -> None:
        while data:
            if self._decompressor.eof:
                self._decompressor = zlib.decompressobj(_GZIP_WBITS)
            self._started = True
            _inflate(self._decompressor, data, emit)
            data = self._decompressor.unused_data

    def finish(self) -> None:
        if self._started and not self._decompressor.eof:
            raise BadEncoding("the gzip data is cut short")


class DeflateDecoder:
    """RFC 9110 means the zlib format, some senders mean raw deflate: the first two bytes tell."""

    __slots__ = ("_decompressor", "_start")

    def __init__(self) -> None:
        self._start = b""
        self._decompressor: _Inflater | None = None

    def decode(self, data: bytes, emit: Callable[[bytes], object]) -> None:
        if self._decompressor is None:
            data = self._start + data
            if len(data) < 2:
                self._start = data
                return
            wrapped = data[0] & 0x0F == zlib.DEFLATED and int.from_bytes(data[:2], "big") % 31 == 0
            self._decompressor = zlib.decompressobj(zlib.MAX_WBITS if wrapped else -zlib.MAX_WBITS)
        if self._decompressor.eof:
            raise BadEncoding("bytes follow the deflate data")
        _inflate(self._decompressor, data, emit)
        if self._decompressor.unused_data:
            raise BadEncoding("bytes follow the deflate data")

    def finish(self) -> None:
        if self._start if self._decompressor is None else not self._decompressor.eof:
            raise BadEncoding("the deflate data is cut short")


def _inflate(decompressor: _Inflater, data: bytes, emit: Callable[[bytes], object]) -> None:
    try:
        while True:
            piece = decompressor.decompress(data, PIECE_BYTES)
            if piece:
                emit(piece)
            data = decompressor.unconsumed_tail
            if decompressor.eof or (not data and len(piece) < PIECE_BYTES):
                return
    except zlib.error as error:
        raise BadEncoding("the compressed data is damaged") from error


class _Sink:
    """The writable end that `zstandard` pushes decoded pieces into."""

    __slots__ = ("emit",)

    def __init__(self) -> None:
        self.emit: Callable[[bytes], object] = bytes

    def write(self, data: bytes) -> int:
        self.emit(bytes(data))
        return len(data)


class ZstdDecoder:
    __slots__ = ("_sink", "_writer")

    def __init__(self) -> None:
        self._sink = _Sink()
        decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_MAX_WINDOW_BYTES)
        self._writer = decompressor.stream_writer(self._sink, write_size=PIECE_BYTES, closefd=False)  # pyright: ignore[reportArgumentType]

    def decode(self, data: bytes, emit: Callable[[bytes], object]) -> None:
        self._sink.emit = emit
        try:
            self._writer.write(data)
        except zstandard.ZstdError as error:
            raise BadEncoding("the compressed data is damaged") from error

    def finish(self) -> None:
        """The library does not say whether a frame is complete; the HTTP framing already vouches for it."""
