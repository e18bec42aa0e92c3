"""The HTTP side of the egress proxy: CONNECT tunnels, and plain requests that are judged one by one.

A plain request is written anew from what was parsed, with the Host of the target that was judged, so that
nothing can ride along unseen. Each goes over a connection of its own to the server, and of the answer exactly
one message comes back: what one host says must never pass for the answer of another.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from mooring.workloads.egress.gate import Gate, NotAllowed, NotReached, Streams
from mooring.workloads.egress.http_messages import END, BadMessage, End, Head, Messages
from mooring.workloads.egress.relay import hang_up, tunnel

_CHUNKED: Final = b"transfer-encoding: chunked\r\n"
_WITHOUT_BODY: Final = frozenset({204, 304})


async def serve_http(gate: Gate, client: Streams, first: bytes) -> None:
    """Serve the requests of one connection until it ends."""
    requests = Messages(client[0], first)
    try:
        while True:
            head = await requests.next()
            if not isinstance(head, Head):
                return
            if head.method == b"CONNECT":
                await _connect(gate, client, requests, head)
                return
            if not await _forward(gate, client, requests, head):
                return
    except BadMessage as error:
        _answer(client, 400, str(error))


async def _connect(gate: Gate, client: Streams, requests: Messages, head: Head) -> None:
    host, colon, port = head.target.decode("latin-1").rpartition(":")
    if not colon or not port.isascii() or not port.isdigit():
        _answer(client, 400, "CONNECT needs `host:port`")
        return
    try:
        target = await gate.open(host.strip("[]"), int(port))
    except NotAllowed as error:
        _answer(client, 403, str(error))
        return
    except NotReached as error:
        _answer(client, 502, str(error))
        return
    try:
        client[1].write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        target[1].write(requests.rest)
        await tunnel(client, target)
    finally:
        await hang_up(target[1])


async def _forward(gate: Gate, client: Streams, requests: Messages, head: Head) -> bool:
    """Pass one request on and its answer back; whether the connection can carry another one."""
    try:
        host, port, path = _target(head)
    except ValueError as error:
        _answer(client, 400, str(error))
        return False
    try:
        server = await gate.open(host, port)
    except NotAllowed as error:
        return await _refuse(client, requests, head, 403, str(error))
    except NotReached as error:
        return await _refuse(client, requests, head, 502, str(error))
    try:
        await _send_request(server, requests, head, host, port, path)
        return await _return_answer(server, client, head) and head.keeps_alive
    except OSError:
        return False
    finally:
        await hang_up(server[1])


def _target(head: Head) -> tuple[str, int, str]:
    if head.header(b"upgrade") is not None:
        raise ValueError("a plain request cannot be upgraded through this proxy: use CONNECT")
    text = head.target.decode("latin-1")
    if not text.lower().startswith("http://"):
        raise ValueError("this is a proxy: send `http://host/path`, or CONNECT for https")
    parts = urlsplit(text)
    if not parts.hostname or parts.username is not None:
        raise ValueError("the request names no host, or a user")
    path = parts.path or ("*" if head.method == b"OPTIONS" else "/")
    return parts.hostname, parts.port or 80, path + (f"?{parts.query}" if parts.query else "")


async def _refuse(client: Streams, requests: Messages, head: Head, status: int, why: str) -> bool:
    """Answer after the request's body was read, so that the connection can carry another request."""
    while not isinstance(part := await requests.next(), End):
        if part is None:
            return False
    _answer(client, status, why, keep=head.keeps_alive, bodyless=head.method == b"HEAD")
    await client[1].drain()
    return head.keeps_alive


async def _send_request(
    server: Streams, requests: Messages, head: Head, host: str, port: int, path: str
) -> None:
    has_body = head.header(b"transfer-encoding") is not None or head.header(b"content-length") not in (
        None,
        b"0",
    )
    authority = f"[{host}]" if ":" in host else host
    authority += "" if port == 80 else f":{port}"
    headers = [(name, value) for name, value in head.end_to_end() if name.lower() != b"host"]
    length = head.header(b"content-length") if head.header(b"transfer-encoding") is None else None
    server[1].write(
        b"%b %b HTTP/1.1\r\nhost: %b\r\n" % (head.method, path.encode("latin-1"), authority.encode("latin-1"))
        + _lines(headers)
        + (b"content-length: %b\r\n" % length if length is not None else _CHUNKED if has_body else b"")
        + b"connection: close\r\n\r\n"
    )
    await _copy_body(requests, server, chunked=length is None and has_body, until_closed=False)


async def _return_answer(server: Streams, client: Streams, request: Head) -> bool:
    answers = Messages(server[0], responses=True)
    head = await answers.next()
    while isinstance(head, Head) and 100 <= head.status < 200:  # nobody waits for these here
        if not isinstance(await answers.next(), End):
            raise BadMessage("the server's answer is not HTTP")
        head = await answers.next()
    if not isinstance(head, Head):
        _answer(client, 502, "the server sent no answer")
        return False
    empty = request.method == b"HEAD" or head.status in _WITHOUT_BODY
    length = head.header(b"content-length") if head.header(b"transfer-encoding") is None else None
    framing = b"" if length is None and empty else _CHUNKED
    client[1].write(
        b"HTTP/1.1 %d %b\r\n" % (head.status, head.reason)
        + _lines(head.end_to_end())
        + (b"content-length: %b\r\n" % length if length is not None else framing)
        + (b"" if request.keeps_alive else b"connection: close\r\n")
        + b"\r\n"
    )
    if not empty:
        until_closed = length is None and head.header(b"transfer-encoding") is None
        await _copy_body(answers, client, chunked=length is None, until_closed=until_closed)
    await client[1].drain()
    return True


async def _copy_body(source: Messages, sink: Streams, *, chunked: bool, until_closed: bool) -> None:
    while (part := await source.next()) is not END:
        if part is None:
            if not until_closed:
                raise ConnectionResetError("the body was cut off")
            break
        if isinstance(part, Head):
            raise BadMessage("a message began inside another one")
        if isinstance(part, bytes):
            sink[1].write(b"%x\r\n%b\r\n" % (len(part), part) if chunked else part)
            await sink[1].drain()
    if chunked:
        sink[1].write(b"0\r\n\r\n")
    await sink[1].drain()


def _lines(headers: list[tuple[bytes, bytes]]) -> bytes:
    return b"".join(b"%b: %b\r\n" % header for header in headers)


def _answer(client: Streams, status: int, why: str, *, keep: bool = False, bodyless: bool = False) -> None:
    body = f"mooring: {why}\n".encode()
    phrase = {400: b"Bad Request", 403: b"Forbidden"}.get(status, b"Bad Gateway")
    client[1].write(
        b"HTTP/1.1 %d %b\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\n"
        b"connection: %b\r\n\r\n"
        % (status, phrase, len(body), b"keep-alive" if keep else b"close")
        + (b"" if bodyless else body)
    )
