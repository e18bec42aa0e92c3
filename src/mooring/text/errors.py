"""What can go wrong in a conversion; each error says where and why.

TextError
  UnreadableSource   the input is not what its format name promised
  ConversionLost     `strict` was asked for and something would be lost
  InvalidDocument    a tree does not follow the published ADF schema
  PatchRefused       a patch has no, or more than one, target, or would destroy something
  UnknownFormat      no reader or writer has that name
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Position:
    """Where in the input: a line and column (both from 1) or a path into the tree."""

    line: int | None = None
    column: int | None = None
    path: str | None = None

    def __str__(self) -> str:
        if self.path is not None:
            return f"at `{self.path}`"
        if self.line is None:
            return "at an unknown place"
        return f"line {self.line}" if self.column is None else f"line {self.line}, column {self.column}"


NOWHERE = Position()


class TextError(ValueError):
    """A conversion could not be done as asked."""

    def __init__(self, reason: str, position: Position = NOWHERE) -> None:
        self.reason = reason
        self.position = position
        super().__init__(reason if position == NOWHERE else f"{position}: {reason}")


class UnreadableSource(TextError):
    """The input is not well-formed in its format; `lenient` keeps it as a visible placeholder instead."""


class ConversionLost(TextError):
    """Something has no form in the target format and `strict` forbids losing it."""


class InvalidDocument(TextError):
    """A tree does not follow the ADF schema."""


class PatchRefused(TextError):
    """A patch could not be applied without guessing or destroying."""


class UnknownFormat(TextError):
    """No reader or writer has that name."""
