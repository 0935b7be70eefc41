"""Counters of one worker, and their text for Prometheus.

Counting is a few operations on plain lists and integers, since a worker may end 40,000 attempts a
second; everything else happens when somebody asks. Nothing here is global: a process may hold
several workers, each with its own numbers.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, Literal, get_args

if TYPE_CHECKING:
    from prometheus_client.core import HistogramMetricFamily
    from prometheus_client.metrics_core import Metric

Event = Literal["completed", "failed", "released", "dropped"]
Gauge = Literal[
    "running", "slots", "idle_processes", "unsettled", "connected", "parked", "stopping",
    "loop_blocked",
]  # fmt: skip

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
MAX_KINDS: Final = 200
OTHER: Final = "other"
EVENTS: Final[tuple[Event, ...]] = get_args(Event)
# Seconds, up to and including; whatever took longer is in a last bucket of its own.
BOUNDS: Final = (
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
    1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0,
)  # fmt: skip

# A kind's row: a count an event, the sum of seconds, a count a bucket.
_AT: Final[dict[Event, int]] = {event: at for at, event in enumerate(EVENTS)}
_SUM: Final = len(EVENTS)
_BUCKETS: Final = _SUM + 1

_COUNTERS: Final = {
    "leased": "Jobs leased",
    "leases": "Lease calls",
    "empty_leases": "Lease calls that found no job",
    "reconnects": "Connections that were lost and opened anew",
    "heartbeats": "Heartbeat calls",
    "lost": "Leases lost to somebody else or to time",
    "refused": "Outcomes the database refused",
    "unknown_kinds": "Jobs put back because no handler is registered for their kind",
    "given_up": "Handlers that did not stop when they were told to",
    "processes_killed": "Processes of handlers that had to be killed",
}
_GAUGES: Final[dict[Gauge, tuple[str, str]]] = {
    "running": ("running", "Handlers that run now"),
    "slots": ("slots", "Handlers that may run at once"),
    "idle_processes": ("idle_processes", "Processes of handlers that wait for a job"),
    "unsettled": ("unsettled", "Outcomes that wait to be handed in"),
    "connected": ("connected", "1 while there is a connection to the database"),
    "parked": ("parked", "1 while the worker sleeps until the doorbell rings"),
    "stopping": ("stopping", "1 once the worker was told to stop"),
    "loop_blocked": ("loop_blocked_seconds", "How long the event loop has not answered"),
}


class WorkerMetrics:
    """What one worker counts. One thread counts; any thread may read."""

    __slots__ = ("_kinds", "_other", *_COUNTERS)

    leased: int
    leases: int
    empty_leases: int
    reconnects: int
    heartbeats: int
    lost: int
    refused: int
    unknown_kinds: int
    given_up: int
    processes_killed: int

    def __init__(self) -> None:
        for name in _COUNTERS:
            setattr(self, name, 0)
        self._kinds: dict[str, list[float]] = {}
        self._other: list[float] | None = None

    def ended(self, kind: str, event: Event, seconds: float) -> None:
        """One attempt has ended. `seconds` is how long its handler ran."""
        row = self._kinds.get(kind) or self._new(kind)
        row[_AT[event]] += 1
        row[_SUM] += seconds
        row[_BUCKETS + bisect_left(BOUNDS, seconds)] += 1

    def _new(self, kind: str) -> list[float]:
        """The row of a kind that has none; past MAX_KINDS all share one."""
        if len(self._kinds) < MAX_KINDS:
            return self._kinds.setdefault(kind, _row())
        if self._other is None:
            self._other = _row()
        return self._other

    def rows(self) -> dict[str, list[float]]:
        """A copy of the rows, each taken in one step, by kind."""
        rows = {kind: row[:] for kind, row in self._kinds.copy().items()}
        if self._other is not None:
            # a kind may be named like this by its owner
            named = rows.get(OTHER) or _row()
            rows[OTHER] = [a + b for a, b in zip(named, self._other[:], strict=True)]
        return rows


class Exposition:
    """The metrics of one worker as Prometheus reads them, with those of its process.

    info: labels of `batchq_worker_info`. gauges: asked at every scrape, in the scrape's thread.
    """

    def __init__(
        self,
        metrics: WorkerMetrics,
        *,
        info: Mapping[str, str],
        gauges: Mapping[Gauge, Callable[[], float]],
    ) -> None:
        # not at the top: it takes 0.1 s, and a producer imports this module for nothing
        from prometheus_client import CollectorRegistry, ProcessCollector  # noqa: PLC0415

        unknown = set(gauges) - set(_GAUGES)
        if unknown:
            raise ValueError(f"no such gauge: {', '.join(sorted(unknown))}")
        self._metrics = metrics
        self._info = dict(info)
        self._gauges = dict(gauges)
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(self)
        ProcessCollector(registry=self.registry)

    def render(self) -> bytes:
        """Text of the type CONTENT_TYPE."""
        from prometheus_client.exposition import generate_latest  # noqa: PLC0415

        return generate_latest(self.registry)

    def describe(self) -> list[Metric]:
        """Nothing: asking for the gauges' values before the worker exists would be too soon."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All families of the worker. Called by the registry."""
        from prometheus_client import core  # noqa: PLC0415

        yield core.InfoMetricFamily("batchq_worker", "This worker", value=self._info)
        for gauge, ask in self._gauges.items():
            name, text = _GAUGES[gauge]
            yield core.GaugeMetricFamily(f"batchq_worker_{name}", text, value=float(ask()))
        for name, text in _COUNTERS.items():
            value = getattr(self._metrics, name)
            yield core.CounterMetricFamily(f"batchq_worker_{name}", text, value=value)
        jobs = core.CounterMetricFamily(
            "batchq_worker_jobs", "Attempts that ended", labels=("kind", "event")
        )
        run = core.HistogramMetricFamily(
            "batchq_worker_run_seconds", "How long handlers ran", labels=("kind",)
        )
        for kind, row in self._metrics.rows().items():
            # no kind from the database has a lone surrogate, but a page must not fail for one
            label = kind.encode("utf-8", "backslashreplace").decode()
            for event, at in _AT.items():
                jobs.add_metric((label, event), row[at])
            _add_histogram(run, label, row)
        yield jobs
        yield run


def _row() -> list[float]:
    return [0] * (_BUCKETS + len(BOUNDS) + 1)


def _add_histogram(family: HistogramMetricFamily, kind: str, row: list[float]) -> None:
    total = 0.0
    buckets: list[tuple[str, float]] = []
    for bound, count in zip((*map(str, BOUNDS), "+Inf"), row[_BUCKETS:], strict=True):
        total += count
        buckets.append((bound, total))
    family.add_metric((kind,), buckets, row[_SUM])
