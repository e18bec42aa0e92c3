"""AWS Signature Version 4: proves who sends a request, and that nobody changed it on the way."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import parse_qsl, quote

from mooring.gateway.principal import Caller
from mooring.transports.http_response import Response

ALGORITHM = "AWS4-HMAC-SHA256"


@dataclass(frozen=True, slots=True)
class Keys:
    """An identity at AWS."""

    access_key: str
    secret_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)


def _now() -> datetime:
    return datetime.now(UTC)


class AwsSignature:
    """Signs every request for one service in one region."""

    def __init__(
        self, keys: Keys, region: str, service: str, host: str, now: Callable[[], datetime] = _now
    ) -> None:
        self._keys = keys
        self._region = region
        self._service = service
        self._host = host
        self._now = now

    personal = False

    async def headers(self, caller: Caller, method: bytes, target: bytes, body: bytes) -> bytes:
        del caller
        return signed_lines(
            self._keys, self._region, self._service, self._host, self._now(), method, target, body
        )

    async def refused(self, caller: Caller, shown: bytes, response: Response) -> bool:
        """The same key would be refused again."""
        del caller, shown, response
        return False


def signed_lines(
    keys: Keys, region: str, service: str, host: str, now: datetime, method: bytes, target: bytes, body: bytes
) -> bytes:
    """The header lines that sign one request."""
    stamp = now.strftime("%Y%m%dT%H%M%SZ")
    signed = {"host": host, "x-amz-date": stamp}
    if keys.session_token is not None:
        signed["x-amz-security-token"] = keys.session_token
    value = authorization(keys, region, service, method.decode(), target.decode(), signed, body)
    lines = {name: text for name, text in signed.items() if name != "host"}
    lines["authorization"] = value
    return b"".join(f"{name}: {text}\r\n".encode("ascii") for name, text in lines.items())


def authorization(
    keys: Keys, region: str, service: str, method: str, target: str, headers: dict[str, str], body: bytes
) -> str:
    """The `Authorization` header; `headers` are those to sign, with `host` and `x-amz-date` among them."""
    stamp = headers["x-amz-date"]
    names = ";".join(sorted(headers))
    request = canonical_request(method, target, headers, body)
    scope = f"{stamp[:8]}/{region}/{service}/aws4_request"
    digest = hashlib.sha256(request.encode()).hexdigest()
    text = f"{ALGORITHM}\n{stamp}\n{scope}\n{digest}"
    key = f"AWS4{keys.secret_key}".encode()
    for part in (stamp[:8], region, service, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    return f"{ALGORITHM} Credential={keys.access_key}/{scope}, SignedHeaders={names}, Signature={signature}"


def canonical_request(method: str, target: str, headers: dict[str, str], body: bytes) -> str:
    path, _, query = target.partition("?")
    pairs = sorted(
        (_quoted(name), _quoted(value)) for name, value in parse_qsl(query, keep_blank_values=True)
    )
    lines = "".join(f"{name}:{' '.join(headers[name].split())}\n" for name in sorted(headers))
    return "\n".join(
        (
            method,
            quote(path or "/", safe="/-_.~%"),
            "&".join(f"{name}={value}" for name, value in pairs),
            lines,
            ";".join(sorted(headers)),
            hashlib.sha256(body).hexdigest(),
        )
    )


def _quoted(text: str) -> str:
    return quote(text, safe="-_.~")
