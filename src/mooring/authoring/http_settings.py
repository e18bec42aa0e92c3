"""How a server is reached over HTTP."""

from __future__ import annotations

import ssl
from dataclasses import dataclass

from mooring.transports.loopback import is_loopback


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """Where a server listens, and whom it lets in."""

    host: str = "127.0.0.1"
    port: int = 8000
    """0 takes a free one."""
    path: str = "/mcp"
    sse_path: str = "/sse"
    messages_path: str = "/messages"
    public_url: str | None = None
    """How clients reach the server, if not by the address it listens on."""
    allowed_origins: tuple[str, ...] = ()
    """Web pages that may call; the server's own address always may."""
    insecure_allow_anonymous: bool = False
    """Listen to other machines although everybody there may call."""
    always_stream: bool = False
    """Answer legacy requests on an event stream from the start, so that no answer is lost with a connection;
    otherwise only those that take long, or have something to say before."""
    max_body_bytes: int = 8 * 1024 * 1024
    session_idle_seconds: float = 3600.0
    """How long a legacy session that does nothing is kept."""
    sweep_seconds: float = 10.0
    """How often sessions and streams are looked through."""
    tls: ssl.SSLContext | None = None

    def __post_init__(self) -> None:
        if not is_loopback(self.host) and not self.insecure_allow_anonymous:
            raise ValueError(
                f"`{self.host}` can be reached from other machines and nobody is asked who they are: listen "
                "on 127.0.0.1 behind a gateway, or set `insecure_allow_anonymous=True`"
            )
