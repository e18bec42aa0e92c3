"""The JSON-RPC envelope: method, id, params and result as raw slices, never decoded further than that.

A message travels as the bytes it came in. We read its envelope, and only where the bytes could mean
different things to different parsers (a key given twice) is it written anew from the slices that we read,
so that what was checked is what is sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import msgspec
from msgspec import Raw

from mooring.errors import InvalidRequest, ParseFailed
from mooring.protocol import surrogates

MAX_ID_BYTES: Final = 512
"""An id is echoed into every answer and kept while the call runs; nobody needs a longer one."""

MAX_BATCH: Final = 100
EMPTY: Final = Raw()
_BRACE: Final = ord("{")
_QUOTE: Final = ord('"')
_SHORT_ID: Final = 20
_NULL: Final = Raw(b"null")
_COMPACT_REQUEST: Final = len(b'{"jsonrpc":"2.0","id":,"method":""}')
_COMPACT_NOTIFICATION: Final = len(b'{"jsonrpc":"2.0","method":""}')
_COMPACT_PARAMS: Final = len(b',"params":')

_COMPACT_CALL: Final = _COMPACT_REQUEST + _COMPACT_PARAMS

RequestId = int | str


class Envelope(msgspec.Struct, gc=False):
    """One message, undecoded but for its envelope; an absent member is an empty slice."""

    jsonrpc: str = ""
    id: Raw = EMPTY
    method: str | None = None
    params: Raw = EMPTY
    result: Raw = EMPTY
    error: Raw = EMPTY

    @property
    def is_request(self) -> bool:
        return self.method is not None and bool(self.id)

    @property
    def is_notification(self) -> bool:
        return self.method is not None and not self.id

    @property
    def is_response(self) -> bool:
        return self.method is None


_decode = msgspec.json.Decoder(Envelope).decode
_decode_members = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_batch = msgspec.json.Decoder(list[Raw]).decode
_encode = msgspec.json.encode


def decode(data: bytes | Raw) -> Envelope:
    """Read one message; whatever is wrong with it is said as the JSON-RPC error it deserves."""
    try:
        envelope = _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        envelope = _decode_again(data)
    if envelope.jsonrpc != "2.0":
        raise InvalidRequest('`jsonrpc` must be "2.0"')
    request_id = envelope.id
    if request_id and not (bytes(request_id).isdigit() and len(request_id) < _SHORT_ID):
        _check_id(envelope)
    params = envelope.params
    if envelope.method is None or envelope.result or envelope.error:
        _check_response(envelope)
    # Params by position exist in JSON-RPC, not in MCP.
    elif params and memoryview(params)[0] != _BRACE:
        if params != _NULL:
            raise InvalidRequest("`params` must be an object")
        envelope.params = EMPTY
    return envelope


def _decode_again(data: bytes | Raw) -> Envelope:
    """Say what is wrong with it, if it is not just a half character in what we pass on."""
    try:
        return surrogates.decoded(data, _decode) or _decode(data)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"not a JSON-RPC message: {error}") from None
    except RecursionError:
        raise InvalidRequest("the message is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ParseFailed(f"not valid JSON: {error}") from None


def decode_plain_request(data: bytes) -> Envelope | None:
    """Read a request that is as ordinary as they come: compact ASCII with a short number for its id.

    Its bytes can go on as they are (see `forwardable`). None: look at it with `decode`.
    """
    if not data.isascii():
        return None
    try:
        envelope = _decode(data)
    except (msgspec.DecodeError, RecursionError):
        return None
    method, request_id, params = envelope.method, envelope.id, envelope.params
    if method is None or not params or envelope.result or envelope.error or envelope.jsonrpc != "2.0":
        return None
    if memoryview(params)[0] != _BRACE or not bytes(request_id).isdigit() or len(request_id) >= _SHORT_ID:
        return None
    return envelope if is_compact_request(data, envelope) else None


def is_compact_request(data: bytes, envelope: Envelope) -> bool:
    """Whether a request has just its id, method and params, in as few bytes as that takes."""
    size = len(envelope.method or "") + len(envelope.id) + len(envelope.params)
    return size + _COMPACT_CALL == len(data)


def is_compact(raw: bytes | Raw, parts: Mapping[str, Raw]) -> bool:
    """Whether an object is exactly these members of it: there is no room for white space, an escape in a
    name, or a member that is given twice."""
    if not parts:
        return len(raw) == len(b"{}")
    around = len(b'"":,') * len(parts) + 1
    return around + sum(map(len, parts)) + sum(map(len, parts.values())) == len(raw)


def result_of(data: bytes, request_id: Raw) -> Raw | None:
    """The result of this request, if a message is that and nothing else, and legal."""
    if not data.isascii():
        try:
            data.decode()
        except UnicodeDecodeError:
            return None
    try:
        envelope = _decode(data)
    except (msgspec.DecodeError, RecursionError):
        return None
    if envelope.jsonrpc != "2.0" or envelope.error or envelope.method is not None:
        return None
    return envelope.result if envelope.result and envelope.id == request_id else None


def _check_response(envelope: Envelope) -> None:
    if envelope.method is None:
        if bool(envelope.result) == bool(envelope.error):
            raise InvalidRequest("a message needs a `method`, or exactly one of `result` and `error`")
        if envelope.result and not envelope.id:
            raise InvalidRequest("a result needs the `id` of its request")
    else:
        raise InvalidRequest("a message with a `method` has no `result` or `error`")


def _check_id(envelope: Envelope) -> None:
    raw = bytes(envelope.id)
    if raw == b"null" and envelope.error:
        envelope.id = EMPTY
    elif not is_request_id(raw) or surrogates.readable(raw) is not None:
        if len(raw) > MAX_ID_BYTES:
            raise InvalidRequest(f"`id` is longer than {MAX_ID_BYTES} bytes; use a shorter one")
        raise InvalidRequest("`id` must be a string or an integer")
    else:
        check_text(raw)


def is_request_id(raw: bytes) -> bool:
    """Strings and integers only; bool, null, fractions and objects are not ids."""
    if len(raw) > MAX_ID_BYTES:
        return False
    if raw[:1] == b'"':
        return True
    return raw.lstrip(b"-").isdigit()


def id_key(raw: bytes | Raw) -> RequestId:
    """A checked id as a value, so that two spellings of one string are one id, and 1 and "1" are two."""
    text = bytes(raw)
    if text[0] != _QUOTE:
        return int(text)
    return msgspec.json.decode(text, type=str)


def check_text(data: bytes) -> None:
    """JSON is UTF-8; slices that we never decode would otherwise carry anything."""
    if not data.isascii():
        try:
            data.decode()
        except UnicodeDecodeError as error:
            raise ParseFailed(f"not valid UTF-8 at byte {error.start}") from None


def may_contain(raw: bytes | Raw, word: bytes) -> bool:
    """A quick look whether a name or a short text can be in there, however it is spelled: with escapes, or
    with slashes as PHP writes them."""
    text = bytes(raw)
    return word in text or b"\\u" in text or (b"/" in word and b"\\/" in text)


def is_batch(data: bytes) -> bool:
    return data[:64].lstrip()[:1] == b"["


def split_batch(data: bytes) -> list[Raw]:
    """The messages of a batch (2025-03-26), still undecoded."""
    try:
        messages = items(data)
    except RecursionError:
        raise InvalidRequest("the batch is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ParseFailed(f"not valid JSON: {error}") from None
    if not messages:
        raise InvalidRequest("an empty batch is not a message")
    if len(messages) > MAX_BATCH:
        raise InvalidRequest(f"a batch has at most {MAX_BATCH} messages")
    return messages


def forwardable(data: bytes, envelope: Envelope) -> bytes:
    """The bytes of a checked request or notification, safe to hand to another parser.

    If the compact form of what we read is exactly as long as the message, there is no room in it for a second
    `method` or `params`: it goes on untouched. Otherwise (white space, further members) its members are
    written one after the other as we understood them, which keeps order and unknown members and drops
    repetitions.
    """
    size = len(envelope.method or "") + (
        _COMPACT_REQUEST + len(envelope.id) if envelope.id else _COMPACT_NOTIFICATION
    )
    if envelope.params:
        size += _COMPACT_PARAMS + len(envelope.params)
    return data if size == len(data) else _encode(members(data))


def members(raw: bytes | Raw) -> dict[str, Raw]:
    """The members of a raw JSON object, each undecoded; no object at all counts as an empty one."""
    if not raw:
        return {}
    try:
        return _decode_members(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        with suppress(msgspec.DecodeError, RecursionError, UnicodeDecodeError, ParseFailed):
            found = surrogates.members(raw)
            if found is not None:
                return found
        raise InvalidRequest(f"expected a JSON object: {error}") from None


def items(raw: bytes | Raw) -> list[Raw]:
    """The items of a raw JSON array, each undecoded; raises what a decoder does."""
    try:
        return _decode_batch(raw)
    except msgspec.DecodeError:
        found = surrogates.items(raw, _decode_batch)
        if found is None:
            raise
        return found


def assemble(parts: Mapping[str, Raw | bytes]) -> bytes:
    """A JSON object from raw members, in their order."""
    return _encode({name: value if isinstance(value, Raw) else Raw(value) for name, value in parts.items()})


def request(request_id: bytes | Raw, method: str, params: bytes | Raw) -> bytes:
    if params:
        return b'{"jsonrpc":"2.0","id":%b,"method":%b,"params":%b}' % (request_id, _quoted(method), params)
    return b'{"jsonrpc":"2.0","id":%b,"method":%b}' % (request_id, _quoted(method))


def notification(method: str, params: bytes | Raw = b"") -> bytes:
    if params:
        return b'{"jsonrpc":"2.0","method":%b,"params":%b}' % (_quoted(method), params)
    return b'{"jsonrpc":"2.0","method":%b}' % _quoted(method)


def result(request_id: bytes | Raw, value: bytes | Raw) -> bytes:
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (request_id, value)


def error(request_id: bytes | Raw, value: bytes | Raw) -> bytes:
    """An error answer; without a readable id it has none (2026-07-28) rather than `null`."""
    if request_id:
        return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (request_id, value)
    return b'{"jsonrpc":"2.0","error":%b}' % value


def _quoted(method: str) -> bytes:
    return _encode(method)
