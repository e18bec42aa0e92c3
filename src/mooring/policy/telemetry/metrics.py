"""Counts and durations of requests as plain numbers, shown in Prometheus's text format."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Final, TypeVar

from mooring.errors import FORBIDDEN, RATE_LIMITED, RpcError
from mooring.gateway.exchange import Exchange
from mooring.policy.items import Absent
from mooring.transports.wire import Answer

BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
MAX_METHODS: Final = 100
MAX_SERIES: Final = 5_000
"""Names come from servers and clients; more of them than this are counted as `other`."""
DESCRIPTIONS: Final = {
    "mooring_requests_total": ("counter", "Requests answered, by server, method and outcome."),
    "mooring_tool_calls_total": ("counter", "Tool calls answered, by server, tool and outcome."),
    "mooring_request_duration_seconds": ("histogram", "Time until a request was answered."),
    "mooring_active_requests": ("gauge", "Requests being worked on."),
    "mooring_refused_total": ("counter", "Requests that were not let in, by server and HTTP status."),
    "mooring_tool_drift_total": ("counter", "Tool definitions that were not what they had been."),
}
"""Every metric; the table in the guide is compared with this."""
Labels = tuple[tuple[str, str], ...]
_Series = TypeVar("_Series")


class Counter:
    """A number that only grows."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


class Histogram:
    """How many durations were in each bucket, and last their sum."""

    __slots__ = ("numbers",)

    def __init__(self) -> None:
        self.numbers = [0.0] * (len(BUCKETS) + 2)

    def observe(self, seconds: float) -> None:
        numbers = self.numbers
        numbers[bisect_left(BUCKETS, seconds)] += 1
        numbers[-1] += seconds


class Metrics:
    """All series of one gateway."""

    def __init__(self) -> None:
        self._counters: dict[str, dict[Labels, Counter]] = {name: {} for name in DESCRIPTIONS}
        self._histograms: dict[Labels, Histogram] = {}
        self.active = 0

    def counter(self, name: str, labels: Labels) -> Counter:
        """The number of one series; whoever counts in it often keeps it."""
        return _of(self._counters[name], labels, Counter)

    def histogram(self, labels: Labels) -> Histogram:
        """The durations of one series."""
        return _of(self._histograms, labels, Histogram)

    def counters(self) -> dict[str, dict[Labels, int]]:
        """A copy of what is counted, for another thread."""
        return {
            name: {labels: counter.value for labels, counter in list(self._counters[name].items())}
            for name, (kind, _) in DESCRIPTIONS.items()
            if kind == "counter"
        }

    def histograms(self) -> dict[Labels, list[float]]:
        """A copy of the durations: how many in each bucket, and last their sum."""
        return {labels: list(found.numbers) for labels, found in list(self._histograms.items())}

    def text(self) -> str:
        """The page that Prometheus reads."""
        return "".join(self._lines())

    def _lines(self) -> Iterator[str]:
        for name, (kind, words) in DESCRIPTIONS.items():
            yield f"# HELP {name} {words}\n# TYPE {name} {kind}\n"
            if kind == "histogram":
                yield from self._histogram_lines(name)
            elif kind == "gauge":
                yield f"{name} {self.active}\n"
            else:
                for labels, counter in self._counters[name].items():
                    yield f"{name}{_shown(labels)} {counter.value}\n"

    def _histogram_lines(self, name: str) -> Iterator[str]:
        for labels, found in self._histograms.items():
            numbers, total = found.numbers, 0.0
            for limit, number in zip((*map(str, BUCKETS), "+Inf"), numbers, strict=False):
                total += number
                yield f"{name}_bucket{_shown((*labels, ('le', limit)))} {total:g}\n"
            yield f"{name}_sum{_shown(labels)} {numbers[-1]:.9g}\n"
            yield f"{name}_count{_shown(labels)} {total:g}\n"


def _of(known: dict[Labels, _Series], labels: Labels, make: Callable[[], _Series]) -> _Series:
    found = known.get(labels)
    if found is None:
        if len(known) >= MAX_SERIES:
            labels = tuple((key, "other") for key, _ in labels)
        found = known.setdefault(labels, make())
    return found


def _shown(labels: Labels) -> str:
    quoted = (f'{key}="{_escaped(value)}"' for key, value in labels)
    return "{" + ",".join(quoted) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


class ServerMetrics:
    """The observer of one server's exchanges."""

    def __init__(self, metrics: Metrics, server_id: str, clock: Callable[[], float] = monotonic) -> None:
        self._metrics = metrics
        self._server = ("server", server_id)
        self._server_id = server_id
        self._clock = clock
        self._methods: dict[str, Labels] = {}
        self._series: dict[tuple[str, str], tuple[Counter, Histogram]] = {}
        self._calls: dict[tuple[str, str], Counter] = {}
        self._tools: dict[Exchange, str] = {}

    def began(self, exchange: Exchange) -> None:
        self._metrics.active += 1
        if exchange.method == "tools/call":
            try:
                self._tools[exchange] = exchange.read_name() or ""
            except RpcError:
                self._tools[exchange] = ""

    def ended(self, exchange: Exchange, answer: Answer | None) -> Answer | None:
        if answer is None:
            self._metrics.active -= 1
            self._tools.pop(exchange, None)
        else:
            self._finish(exchange, "failure" if answer.error else "success")
        return answer

    def failed(self, exchange: Exchange, error: BaseException) -> None:
        self._finish(exchange, _outcome(error))

    def _finish(self, exchange: Exchange, outcome: str) -> None:
        self._metrics.active -= 1
        method = exchange.method
        series = self._series.get((method, outcome)) or self._series_of(method, outcome)
        series[0].value += 1
        series[1].observe(self._clock() - exchange.started)
        tool = self._tools.pop(exchange, None)
        if tool is not None:
            shown = "" if outcome == "denied" else tool
            counter = self._calls.get((shown, outcome)) or self._calls_of(shown, outcome)
            counter.value += 1

    def _series_of(self, method: str, outcome: str) -> tuple[Counter, Histogram]:
        labels = self._methods.get(method)
        if labels is None:
            # A method that a client made up must not become a series of its own for ever.
            known = len(self._methods) < MAX_METHODS
            labels = (self._server, ("method", method if known else "other"))
            if known:
                self._methods[method] = labels
        counter = self._metrics.counter("mooring_requests_total", (*labels, ("outcome", outcome)))
        found = counter, self._metrics.histogram(labels)
        if method in self._methods:
            self._series[method, outcome] = found
        return found

    def _calls_of(self, tool: str, outcome: str) -> Counter:
        labels = (self._server, ("tool", tool), ("outcome", outcome))
        found = self._metrics.counter("mooring_tool_calls_total", labels)
        if len(self._calls) < MAX_SERIES:
            self._calls[tool, outcome] = found
        return found

    def refused(self, status: int) -> None:
        labels = (self._server, ("status", str(status)))
        self._metrics.counter("mooring_refused_total", labels).value += 1

    def drifted(self) -> None:
        self._metrics.counter("mooring_tool_drift_total", (self._server,)).value += 1


def _outcome(error: BaseException) -> str:
    if isinstance(error, Absent) or (isinstance(error, RpcError) and error.code in (FORBIDDEN, RATE_LIMITED)):
        return "denied"
    return "cancelled" if isinstance(error, asyncio.CancelledError) else "error"
