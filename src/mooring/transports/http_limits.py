"""The bounds of both HTTP edges: sizes, counts and times, each with the reason for its default."""

from __future__ import annotations

from msgspec import Struct


class ListenerLimits(Struct, frozen=True):
    """What a client may cost us. Times are in seconds and are checked every `SWEEP_SECONDS` or so."""

    max_header_bytes: int = 65_536
    """Request line and headers together, else 431. Bearer tokens and cookies can be long."""
    max_header_count: int = 100
    """Number of header lines, else 431."""
    max_target_bytes: int = 8_192
    """Length of the request target, else 414."""
    max_chunk_overhead_bytes: int = 16_384
    """Chunk extensions, trailers and other framing of one chunked body beyond a fair share per chunk."""
    max_pipelined: int = 64
    """Requests one peer may send ahead of its answers in one read; after those the connection closes."""
    max_held_bytes: int = 65_536
    """Bytes kept for a peer that sends while its request is in progress; beyond, reading pauses."""
    max_connections: int = 10_000
    """Open connections of the whole listener, else 503."""
    max_connections_per_address: int = 1_000
    """Open connections of one address, else 429; Unix sockets are not counted."""
    header_seconds: float = 10.0
    """From the first byte of a request (or the connection itself) to the end of its headers, else 408."""
    body_gap_seconds: float = 30.0
    """Longest silence in the middle of a body, else 408."""
    body_seconds: float = 300.0
    """Whole body of a buffered request, so that one byte per gap does not hold us for ever."""
    keep_alive_seconds: float = 75.0
    """Idle time between two requests; longer than common clients and proxies keep connections (60)."""
    write_stall_seconds: float = 30.0
    """A client that takes nothing of what waits for it for so long is cut off."""
    linger_seconds: float = 2.0
    """How long a refused client may take to read the refusal."""
    linger_bytes: int = 1_048_576
    """How much of a refused body is read and thrown away, so that the refusal is not lost to a reset."""
    write_high_water_bytes: int = 65_536
    """`Reply.writable` turns False above this; memory per client is this plus one write of the caller."""
    body_buffer_bytes: int = 262_144
    """Unread bytes of a streamed upload; above this, reading from the client pauses."""
    compression: bool = True
    """Whether replies may be compressed at all."""


class ClientLimits(Struct, frozen=True):
    """What an upstream may cost us, and how long we wait for it."""

    max_connections: int = 1_024
    """Connections to one origin; further requests wait in line."""
    max_waiting: int = 1_000
    """Requests in line; one more fails with `PoolBusy`."""
    wait_seconds: float = 10.0
    """Longest time in line."""
    connect_seconds: float = 5.0
    """Name lookup, TCP and TLS together."""
    head_seconds: float | None = 60.0
    """From sending the request to the end of the response head; None for calls that may take for ever."""
    body_stall_seconds: float | None = None
    """Longest silence inside a response body while we are reading it."""
    idle_seconds: float = 4.0
    """How long an unused connection is kept: less than the 5 seconds after which uvicorn and node close."""
    max_header_bytes: int = 65_536
    """Status line and headers of one response."""
    max_body_bytes: int | None = None
    """Whole decoded body, if the caller wants it bounded even when streamed."""
    max_expansion: int = 200
    """Decoded bytes per compressed byte, beyond the first eight megabytes: more is a bomb."""
    buffer_bytes: int = 262_144
    """Body bytes kept while nobody reads; above this, reading from the upstream pauses."""
