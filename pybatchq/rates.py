"""What happens over time: rates of queues, and how long what is left will take."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import asdict, replace

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


class QueueTrend(Struct, frozen=True):
    """What happened in a queue minute by minute, the first of which is `since`.

    `ended`: jobs that are over in any way. `failed`: attempts that failed or ran out.
    """

    queue: str
    since: datetime
    enqueued: list[int]
    ended: list[int]
    failed: list[int]


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


class WatchedQueue(QueueStats, frozen=True):
    """A queue with its rates over the last whole minute; None: not known, or no end of it."""

    enqueued_per_s: float | None
    ended_per_s: float | None
    drain_s: float | None


def watched(found: Sequence[QueueStats], told: Sequence[QueueRate]) -> list[WatchedQueue]:
    by_name = {rate.queue: rate for rate in told}
    return [_watched(stats, by_name.get(stats.queue)) for stats in found]


def summed(found: Sequence[WatchedQueue]) -> WatchedQueue:
    """What is known of all, as one; it has no time to drain, as one queue may grow."""
    counts = {
        name: sum(getattr(queue, name) for queue in found)
        for name, value in asdict(found[0]).items()
        if type(value) is int
    }
    return replace(
        found[0],
        queue="all",
        paused_at=None,
        is_exact=all(q.is_exact for q in found),
        oldest_ready_at=min((q.oldest_ready_at for q in found if q.oldest_ready_at), default=None),
        next_run_at=min((q.next_run_at for q in found if q.next_run_at), default=None),
        enqueued_per_s=_sum([q.enqueued_per_s for q in found]),
        ended_per_s=_sum([q.ended_per_s for q in found]),
        drain_s=None,
        **counts,
    )


def _watched(stats: QueueStats, rate: QueueRate | None) -> WatchedQueue:
    return WatchedQueue(
        **asdict(stats),
        enqueued_per_s=None if rate is None else rate.enqueued,
        ended_per_s=None if rate is None else rate.ended,
        drain_s=drain_s(stats, rate),
    )


def _sum(told: Sequence[float | None]) -> float | None:
    known = [rate for rate in told if rate is not None]
    return sum(known) if known else None
