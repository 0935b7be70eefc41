"""What happens over time: rates of queues, and how long what is left will take."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec import Struct

from pybatchq.types import QueueStats


class QueueRate(Struct, frozen=True):
    """Per second, from `since` to `until`.

    `ended`: jobs that are over in any way. `failed`: attempts that failed or ran out.
    """

    queue: str
    enqueued: float
    completed: float
    failed: float
    ended: float
    since: datetime
    until: datetime


class ThroughputPoint(Struct, frozen=True):
    """What happened from `at` on, for one step. Percentiles: None where no job was completed."""

    at: datetime
    enqueued: int
    completed: int
    cancelled: int
    failed: int
    reaped: int
    retried: int
    dead_letters: int
    wait_p50: timedelta | None
    wait_p95: timedelta | None
    wait_p99: timedelta | None
    run_p50: timedelta | None
    run_p95: timedelta | None
    run_p99: timedelta | None


def drain_s(stats: QueueStats, rate: QueueRate | None) -> float | None:
    """Seconds until no job of the queue waits or runs, as things go now; scheduled ones apart.

    None where there are more and more of them, or the rate is not known. At least so long, if the
    counts are not exact.
    """
    left = stats.ready + stats.blocked + stats.leased
    if not left:
        return 0.0
    if rate is None or rate.ended <= rate.enqueued:
        return None
    return left / (rate.ended - rate.enqueued)
