"""Numbers from rounds: medians with their spread, and ratios that are formed within each round first."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Observation:
    suite: str
    target: str
    metric: str
    round: int
    value: float


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of some rounds and the lowest and highest of them."""

    median: float
    low: float
    high: float
    rounds: int


@dataclass(slots=True)
class Record:
    """Everything a run observed, and what failed while it tried."""

    observations: list[Observation] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def add(self, suite: str, target: str, round_: int, **values: float) -> None:
        for metric, value in values.items():
            self.observations.append(Observation(suite, target, metric, round_, value))

    def values(self, suite: str, target: str, metric: str) -> dict[int, float]:
        """Round number to value."""
        wanted = (suite, target, metric)
        return {
            each.round: each.value
            for each in self.observations
            if (each.suite, each.target, each.metric) == wanted
        }

    def spread(self, suite: str, target: str, metric: str) -> Spread | None:
        return spread(self.values(suite, target, metric).values())

    def ratio(
        self, suite: str, target: str, other: str, metric: str, other_metric: str | None = None
    ) -> Spread | None:
        """target / other, paired by round, so that what slowed a whole round down cancels out."""
        return paired(self.values(suite, target, metric), self.values(suite, other, other_metric or metric))

    def targets(self, suite: str) -> list[str]:
        return list(dict.fromkeys(each.target for each in self.observations if each.suite == suite))

    def suites(self) -> list[str]:
        return list(dict.fromkeys(each.suite for each in self.observations))


def spread(values: Iterable[float]) -> Spread | None:
    found = sorted(values)
    if not found:
        return None
    return Spread(statistics.median(found), found[0], found[-1], len(found))


def paired(above: dict[int, float], below: dict[int, float]) -> Spread | None:
    """The spread of above/below over common rounds; a divisor that is not positive says nothing."""
    return spread(above[each] / below[each] for each in above if below.get(each, 0.0) > 0.0)


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of all values do not exceed (nearest rank)."""
    found = sorted(values)
    if not found:
        raise ValueError("a quantile needs at least one value")
    rank = max(1, -(-len(found) * share // 1))
    return found[min(len(found), int(rank)) - 1]


def rotated(items: Sequence[T], by: int) -> list[T]:
    """The items in an order that moves on by one each round, so that nobody always comes first."""
    if not items:
        return []
    start = by % len(items)
    return [*items[start:], *items[:start]]
