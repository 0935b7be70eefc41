"""Rates of queues, beside their depths."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pybatchq import rates
from pybatchq.rates import QueueRate
from pybatchq.types import QueueStats


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
        for name, value in msgspec.structs.asdict(found[0]).items()
        if type(value) is int
    }
    return msgspec.structs.replace(
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


def per_second(rate: float | None) -> str:
    """`0`, `0.02`, `3.4`, `1,200`; a dash where it is not known."""
    if rate is None:
        return "-"
    if rate >= 100 or rate == 0:
        return f"{rate:,.0f}"
    return f"{rate:.2g}" if rate < 10 else f"{rate:.1f}"


def _watched(stats: QueueStats, rate: QueueRate | None) -> WatchedQueue:
    return WatchedQueue(
        **msgspec.structs.asdict(stats),
        enqueued_per_s=None if rate is None else rate.enqueued,
        ended_per_s=None if rate is None else rate.ended,
        drain_s=rates.drain_s(stats, rate),
    )


def _sum(told: Sequence[float | None]) -> float | None:
    known = [rate for rate in told if rate is not None]
    return sum(known) if known else None
