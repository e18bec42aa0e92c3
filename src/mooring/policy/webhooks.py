"""Webhooks: other programs that judge a request, or change it, before it goes on."""

from __future__ import annotations

import copy
import hashlib
import hmac
import logging
import secrets
import ssl
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, cast

import jsonpatch
import msgspec
from msgspec import Raw

from mooring.errors import FORBIDDEN, INTERNAL_ERROR, RpcError
from mooring.gateway.exchange import Exchange, Handler
from mooring.policy import web
from mooring.policy.audit.delegation import delegation_of
from mooring.policy.items import set_params
from mooring.transports.wire import Answer

log = logging.getLogger(__name__)

VERSION: Final = "v0.1.0"
INSIDE: Final = "/mcp_request/"
MAX_BYTES: Final = 1024 * 1024
DENIED_STATUS: Final = 422
Json = dict[str, Any]


class Denied(RpcError):
    """A webhook said no."""

    code = FORBIDDEN
    by = "webhooks"


class _Failed(Exception):
    """The webhook could not be asked, or gave no usable answer."""


@dataclass(frozen=True, slots=True)
class Webhook:
    """One program to ask."""

    name: str
    url: str
    timeout_seconds: float = 10.0
    failure_policy: Literal["fail", "ignore"] = "fail"
    secret: str | None = None
    ca_bundle: Path | None = None
    client_cert: Path | None = None
    client_key: Path | None = None

    def tls(self) -> ssl.SSLContext | None:
        if self.ca_bundle is None and self.client_cert is None:
            return None
        context = ssl.create_default_context(cafile=str(self.ca_bundle) if self.ca_bundle else None)
        if self.client_cert is not None:
            context.load_cert_chain(self.client_cert, self.client_key)
        return context

    async def ask(self, payload: Json) -> Json:
        """Send the request; the answer if there is one, `Denied`, or `_Failed`."""
        body = msgspec.json.encode(payload)
        if len(body) > MAX_BYTES:
            raise _Failed("the request is too large for a webhook")
        headers = {"content-type": "application/json", "accept": "application/json"}
        if self.secret is not None:
            stamp = str(int(time.time()))
            headers["x-toolhive-timestamp"] = stamp
            headers["x-toolhive-signature"] = signature(self.secret, stamp, body)
        try:
            answer = await web.fetch(
                self.url,
                method="POST",
                headers=headers,
                body=body,
                seconds=self.timeout_seconds,
                max_bytes=MAX_BYTES,
                tls=self.tls(),
            )
            if answer.status == DENIED_STATUS:
                raise Denied(f"the request was refused by `{self.name}`")
            if answer.status != 200:
                raise _Failed(f"it answered {answer.status}")
            verdict = answer.json()
        except web.FetchFailed as error:
            raise _Failed(str(error)) from error
        if verdict.get("uid") != payload["uid"] or not isinstance(verdict.get("allowed"), bool):
            raise _Failed("its answer is not about this request")
        return verdict


def signature(secret: str, stamp: str, body: bytes) -> str:
    """What proves to a webhook that we ask: over the time and the body."""
    return "sha256=" + hmac.new(secret.encode(), stamp.encode() + b"." + body, hashlib.sha256).hexdigest()


class Validating:
    """The middleware that asks whether a request may go on."""

    def __init__(self, hooks: tuple[Webhook, ...], server_id: str) -> None:
        self._hooks = hooks
        self._server_id = server_id

    async def __call__(self, exchange: Exchange, handler: Handler) -> Answer | None:
        if not exchange.guarded:
            for hook in self._hooks:
                await _judged(hook, exchange, self._server_id)
        return await handler(exchange)


class Mutating:
    """The middleware that lets other programs change a request."""

    def __init__(self, hooks: tuple[Webhook, ...], server_id: str) -> None:
        self._hooks = hooks
        self._server_id = server_id

    async def __call__(self, exchange: Exchange, handler: Handler) -> Answer | None:
        if not exchange.guarded:
            for hook in self._hooks:
                await self._change(hook, exchange)
        return await handler(exchange)

    async def _change(self, hook: Webhook, exchange: Exchange) -> None:
        verdict = await _judged(hook, exchange, self._server_id)
        patch = verdict.get("patch") if verdict is not None else None
        if not patch:
            return
        try:
            params = patched(request_of(exchange), patch)
        except _Failed as error:
            _failed(hook, error)
            return
        set_params(exchange, {name: Raw(msgspec.json.encode(value)) for name, value in params.items()})


async def _judged(hook: Webhook, exchange: Exchange, server_id: str) -> Json | None:
    try:
        verdict = await hook.ask(_payload(exchange, server_id))
    except _Failed as error:
        _failed(hook, error)
        return None
    if not verdict["allowed"]:
        why = verdict.get("message") or verdict.get("reason") or "no reason given"
        raise Denied(f"the request was refused by `{hook.name}`: {why}")
    return verdict


def _failed(hook: Webhook, error: Exception) -> None:
    if hook.failure_policy == "ignore":
        log.warning("the webhook `%s` is ignored: %s", hook.name, error)
        return
    log.error("the webhook `%s` failed, the request is refused: %s", hook.name, error)
    raise RpcError(f"the webhook `{hook.name}` could not be asked", code=INTERNAL_ERROR)


def request_of(exchange: Exchange) -> Json:
    """The request as a value."""
    return {
        "jsonrpc": "2.0",
        "id": msgspec.json.decode(exchange.envelope.id) if exchange.envelope.id else None,
        "method": exchange.method,
        "params": msgspec.json.decode(exchange.envelope.params) if exchange.envelope.params else {},
    }


def patched(request: Json, patch: Any) -> Json:
    """The params of a request after a patch (RFC 6902) that stays inside it."""
    if not isinstance(patch, list):
        raise _Failed("its patch is not a list")
    for operation in cast("list[Any]", patch):
        for member in ("path", "from"):
            place = cast("Json", operation).get(member, INSIDE) if isinstance(operation, dict) else None
            if not isinstance(place, str) or not place.startswith(INSIDE):
                raise _Failed("its patch reaches outside the request")
    library: Any = jsonpatch
    try:
        changed = library.apply_patch({"mcp_request": copy.deepcopy(request)}, patch)["mcp_request"]
    except (library.JsonPatchException, library.JsonPointerException, KeyError, TypeError) as error:
        raise _Failed(f"its patch does not fit: {error}") from error
    fixed = ("jsonrpc", "id", "method")
    if any(changed.get(name) != request[name] for name in fixed) or not isinstance(
        changed.get("params"), dict
    ):
        raise _Failed("its patch changes more than the params")
    return changed["params"]


def _payload(exchange: Exchange, server_id: str) -> Json:
    principal = exchange.caller.principal
    claims = principal.claims
    delegation = delegation_of(claims)
    return {
        "version": VERSION,
        "uid": secrets.token_hex(16),
        "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "principal": {
            "sub": principal.subject,
            "name": claims.get("name", ""),
            "email": claims.get("email", ""),
            "groups": claims.get("groups", []),
            "claims": {name: value for name, value in claims.items() if name not in ("exp", "iat", "nbf")},
            **({} if delegation is None else {"delegation": delegation}),
        },
        "mcp_request": request_of(exchange),
        "context": {
            "server_name": server_id,
            "backend_server": server_id,
            "namespace": "",
            "source_ip": exchange.caller.address,
            "transport": exchange.transport,
        },
    }


__all__ = ["Denied", "Mutating", "Validating", "Webhook", "patched", "signature"]
