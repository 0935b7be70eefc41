"""How long jobs waited and ran: histograms for Prometheus, from the counters of maintain.

The database counts by powers of 2 of a millisecond; every second one is told.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from prometheus_client.core import HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from pybatchq.api.auth import Caller
from pybatchq.metrics import OTHER
from pybatchq.types import KindCounters

# each queue is 30 series and more
MOST_QUEUES: Final = 100
WAIT: Final = "From when a job was due to its first lease, of jobs completed by their first attempt"
RUN: Final = "How long attempts took that completed a job"


def families(kinds: Sequence[KindCounters], caller: Caller) -> Iterator[Metric]:
    """Of the queues that the caller may see in which jobs were completed."""
    queues: dict[str, list[KindCounters]] = {}
    for row in kinds:
        if row.completed and caller.may_use(row.queue):
            queues.setdefault(row.queue or OTHER, []).append(row)
    ranked = sorted(queues, key=lambda name: sum(row.completed for row in queues[name]))
    for name in ranked[:-MOST_QUEUES]:
        if name != OTHER:
            queues.setdefault(OTHER, []).extend(queues.pop(name))
    waits = HistogramMetricFamily("batchq_job_wait_seconds", WAIT, labels=("queue",))
    runs = HistogramMetricFamily("batchq_job_run_seconds", RUN, labels=("queue",))
    for name, rows in queues.items():
        counts = [row.waits for row in rows]
        buckets = _buckets(counts, sum(row.waited for row in rows))
        waits.add_metric((name,), buckets, sum(row.wait_s for row in rows))
        counts = [row.runs for row in rows]
        buckets = _buckets(counts, sum(row.completed for row in rows))
        runs.add_metric((name,), buckets, sum(row.run_s for row in rows))
    yield waits
    yield runs


def _buckets(histograms: Sequence[Sequence[int]], n: int) -> list[tuple[str, float]]:
    """Their sum: le and how many took at most so many seconds."""
    summed = [sum(counts) for counts in zip(*histograms, strict=True)]
    told = [(str(2.0**power / 1000), float(summed[power])) for power in range(0, len(summed), 2)]
    return [*told, ("+Inf", float(n))]
