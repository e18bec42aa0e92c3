"""What a server wants, asked before anybody uses it: for users who sign in beforehand."""

from __future__ import annotations

from typing import Final

from mooring.policy import web
from mooring.policy.credentials.oauth.challenge import NOTHING_SAID, Challenge, read_challenge
from mooring.policy.credentials.oauth.flows import Party
from mooring.protocol import jsonrpc

HEADERS: Final = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
QUESTION: Final = jsonrpc.request(b"1", "tools/list", b"{}")
"""The least that a server would show to a user; one that shows it to nobody says so, and nothing runs."""


async def ask_server(party: Party) -> Challenge:
    """Its challenge; a server that has none, or does not answer, says nothing."""
    if party.url is None:
        return NOTHING_SAID
    try:
        answer = await web.fetch(party.url, method="POST", headers=HEADERS, body=QUESTION)
    except web.FetchFailed:
        return NOTHING_SAID
    header = answer.headers.get("www-authenticate")
    return read_challenge([header]) if answer.status == 401 and header is not None else NOTHING_SAID
