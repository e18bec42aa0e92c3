"""What a legacy server, or whoever opens a session with one, is told when something cannot be."""

from __future__ import annotations

from mooring.errors import MethodNotFound, MissingCapability, UpstreamUnavailable
from mooring.transports.wire import Answer


def missing_capability(method: str) -> MissingCapability:
    capability = method.split("/", maxsplit=1)[0]
    return MissingCapability(
        f"the server needs `{method}`, which this request did not declare",
        data={"requiredCapabilities": {capability: {}}},
    )


def answer_for_nobody(method: str, version: str) -> Answer:
    """A request outside any call, in a session without a client of its own, has nobody to go to."""
    if method == "roots/list":
        return Answer(version=version, result=b'{"roots":[]}')
    if method == "elicitation/create":
        return Answer(version=version, result=b'{"action":"cancel"}')
    raise MethodNotFound(f"`{method}` could not be tied to a call of any client")


class OtherEra(UpstreamUnavailable):
    """The server took the handshake for something else: it is not a legacy server."""


class HandshakeRefused(UpstreamUnavailable):
    """The server answered `initialize` with an error."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        text = bytes(answer.error).decode("utf-8", "replace")
        super().__init__(f"the server refused `initialize`: {text[:300]}")
