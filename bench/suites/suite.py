"""What a suite is: a name, the figures it produces, the target they are compared with, and how it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.run import Run


@dataclass(frozen=True, slots=True)
class Figure:
    metric: str
    label: str
    unit: str = ""
    compared: bool = True


@dataclass(frozen=True, slots=True)
class Suite:
    name: str
    title: str
    base: str
    figures: tuple[Figure, ...]
    run: Callable[[Run], None]
    part: str = "figures"
    """Which part of docs/performance.md its figures stand in: each is written by a run of all its suites."""
