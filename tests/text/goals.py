"""The goals of the text library: what is asked, what Mooring reaches, and the best peer in the same run."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

Measured = TypeVar("Measured")
Table = tuple[str, list[str], list[list[str]]]


@dataclass(frozen=True, slots=True)
class Goal:
    """One row; `reached` is None when it could not be measured."""

    what: str
    wanted: str
    ours: str
    reached: bool | None
    best_peer: str = "not offered"

    def row(self) -> list[str]:
        sign = {True: "yes", False: "**no**", None: "not measured"}[self.reached]
        return [self.what, self.wanted, self.ours, sign, self.best_peer]


def goal_table(goals: list[Goal]) -> Table:
    return "Goals", ["", "goal", "mooring", "reached", "best peer"], [goal.row() for goal in goals]


def best(measured: dict[str, Measured], value: Callable[[Measured], float]) -> str:
    """The best of the peers with its name; the first entry is Mooring itself."""
    peers = list(measured.items())[1:]
    if not peers:
        return "none installed"
    name, found = max(peers, key=lambda each: value(each[1]))
    return f"{found} ({name})"
