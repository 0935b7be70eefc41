"""The counters that maintain keeps in the database, as families for Prometheus.

The database has 1,000 pairs of queue and kind at most, and one row without names for all others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric

from pybatchq.api.auth import Caller
from pybatchq.metrics import OTHER
from pybatchq.types import JobCounters, KindCounters

# of each queue and kind: the counter's name in SQL, which is its name here, and what it counts
TEXTS: Final = {
    "enqueued": "Jobs that were added",
    "completed": "Jobs that were completed",
    "failed": "Attempts that failed",
    "retried": "Attempts that failed or ran out, and are followed by another",
    "reaped": "Attempts whose lease ran out",
    "dead_letters": "Jobs that became dead letters",
    "cancelled": "Jobs that were cancelled",
}
STARTED: Final = "Leases that were handed out, of all queues; a rolled back one counts, too"


def families(total: JobCounters, kinds: list[KindCounters], caller: Caller) -> Iterator[Metric]:
    """What the caller may see of them."""
    rows: dict[tuple[str, str], list[int]] = {}
    for row in kinds:
        if caller.may_use(row.queue):
            counts = [getattr(row, name) for name in TEXTS]
            pair = (row.queue, row.kind) if row.queue else (OTHER, OTHER)
            named = rows.get(pair)  # a queue and kind may be named like this by their owner
            rows[pair] = [a + b for a, b in zip(named, counts, strict=True)] if named else counts
    for place, (name, text) in enumerate(TEXTS.items()):
        family = CounterMetricFamily(f"batchq_jobs_{name}", text, labels=("queue", "kind"))
        for pair, counts in rows.items():
            family.add_metric(pair, counts[place])
        yield family
    if caller.queues is None:
        yield CounterMetricFamily("batchq_jobs_started", STARTED, value=total.started)
