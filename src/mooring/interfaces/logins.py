"""Pages for users who sign in at a server: the way there, and the way back.

The address that a user opens is ours. It puts a secret into the browser that opened it, and only that browser
can bring the answer: nobody can make somebody else's account theirs by sending them half a link. Where
callers are told apart, the page also says whose connection this is before it leads on.
"""

from __future__ import annotations

import html
import logging
from typing import Final
from urllib.parse import parse_qsl

import msgspec

from mooring.config.credentials_build import CALLBACK_PATH, DOCUMENT_PATH, LOGIN_PATH, Credentials
from mooring.gateway.dispatch import Dispatcher
from mooring.policy.credentials.oauth.flows import Pending
from mooring.policy.credentials.pool import CredentialUnavailable
from mooring.transports.http_endpoint import Buffered
from mooring.transports.http_reply import Reply
from mooring.transports.http_request import Request

log = logging.getLogger(__name__)

PREFIX: Final = b"/oauth/"
MOST_QUERY: Final = 16_384
Headers = tuple[tuple[bytes, bytes], ...]
PAGE: Final = (
    (b"content-type", b"text/html; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"),
)
_TEMPLATE: Final = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>body{{font:1.1rem/1.5 system-ui,sans-serif;max-width:34rem;margin:4rem auto;padding:0 1rem}}
a.go{{display:inline-block;padding:.5rem 1.2rem;border-radius:.4rem;background:#0a5;color:#fff;
text-decoration:none}}</style>
<h1>{title}</h1><p>{text}</p>{more}
</html>
"""


class Logins:
    """Everything below `/oauth/`."""

    def __init__(self, credentials: Credentials, dispatcher: Dispatcher, *, tells_apart: bool) -> None:
        """`tells_apart`: callers prove who they are, so a grant is one person's and nobody else's."""
        self._credentials = credentials
        self._dispatcher = dispatcher
        self._tells_apart = tells_apart
        self.endpoint = Buffered(self.handle, 0)

    def handle(self, request: Request, reply: Reply) -> None:
        path = request.path.decode("latin-1")
        if request.method != b"GET":
            reply.send(405, ((b"allow", b"GET"),), b"")
        elif path == DOCUMENT_PATH:
            document = msgspec.json.encode(self._credentials.client_document)
            reply.send(200, ((b"content-type", b"application/json"),), document)
        elif path == CALLBACK_PATH:
            self._dispatcher.spawn(self._answered(request, reply))
        elif path.startswith(LOGIN_PATH):
            self._opened(path.removeprefix(LOGIN_PATH), request, reply)
        else:
            _page(reply, 404, "Nothing here", "This address is not one of ours.")

    def _opened(self, ticket: str, request: Request, reply: Reply) -> None:
        pending = self._credentials.flows.opened(ticket)
        if pending is None:
            _page(reply, 404, "Too late", "This link was used or has expired. Try again where you got it.")
            return
        if self._tells_apart and b"go" not in dict(_query(request)):
            name, who = html.escape(pending.party.name), html.escape(pending.principal.subject)
            _page(
                reply,
                200,
                f"Connect {name}?",
                f"You are about to sign in, and to let <b>{who}</b> use <b>{name}</b> in your name. Go on "
                f"only if you are {who} and started this yourself.",
                '<p><a class="go" href="?go=1">Go on</a></p>',
            )
            return
        reply.send(302, ((b"location", pending.authorize_url.encode()), self._cookie(pending), *PAGE), b"")

    def _cookie(self, pending: Pending) -> tuple[bytes, bytes]:
        secure = "; Secure" if self._credentials.is_secure else ""
        name = self._cookie_name(pending)
        value = f"{name}={pending.browser}; Path=/; HttpOnly; SameSite=Lax; Max-Age=600{secure}"
        return b"set-cookie", value.encode()

    def _cookie_name(self, pending: Pending) -> str:
        prefix = "__Host-" if self._credentials.is_secure else ""
        return f"{prefix}mooring-login-{pending.ticket[:8]}"

    async def _answered(self, request: Request, reply: Reply) -> None:
        answer = {name.decode("latin-1"): value.decode("latin-1") for name, value in _query(request)}
        flows = self._credentials.flows
        pending = flows.answered(answer.get("state", ""))
        if pending is None:
            _page(reply, 400, "Too late", "This answer was used already, or nobody waits for it any more.")
            return
        try:
            await flows.finish(pending, answer, _cookie_of(request, self._cookie_name(pending)))
        except CredentialUnavailable as error:
            log.warning("%s: a login failed: %s", pending.party.name, error)
            _page(reply, 400, "That did not work", html.escape(str(error)))
            return
        name = html.escape(pending.party.name)
        _page(reply, 200, f"{name} is connected", "You can close this page and go on where you were.")


def _query(request: Request) -> list[tuple[bytes, bytes]]:
    return parse_qsl(request.query[:MOST_QUERY], keep_blank_values=True, max_num_fields=50)


def _cookie_of(request: Request, name: str) -> str:
    for header in request.header_values(b"cookie"):
        for part in header.decode("latin-1").split(";"):
            found, _, value = part.strip().partition("=")
            if found == name:
                return value
    return ""


def _page(reply: Reply, status: int, title: str, text: str, more: str = "") -> None:
    if not reply.closed:
        reply.send(status, PAGE, _TEMPLATE.format(title=title, text=text, more=more).encode())
