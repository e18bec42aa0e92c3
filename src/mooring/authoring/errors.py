"""What a handler raises when something did not work, and what it is told when the client cannot help."""

from __future__ import annotations

from typing import Any

from mooring.errors import MooringError


class ToolError(MooringError):
    """The tool failed, and the model may know why: the message becomes an error result.

    Any other exception becomes an error result too, but its text stays in the server's log.
    """


class NotFound(MooringError):
    """A resource (or what a template stands for) does not exist."""


class Cancelled(MooringError):
    """The client gave the call up; raised in a thread by whatever the handler asks its context for."""


class ClientCannot(MooringError):
    """The client did not declare what a question to it needs; catch it to go on without."""

    def __init__(self, message: str, capabilities: dict[str, Any]) -> None:
        super().__init__(message)
        self.capabilities = capabilities


class ClientRefused(MooringError):
    """The client answered a question with an error, or with something that is no answer to it."""
