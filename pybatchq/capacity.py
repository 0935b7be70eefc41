"""Which leased jobs of a worker run now, which wait for a slot, and how many more to lease.

A worker runs at most `concurrency` jobs at once, and of a kind with a limit at most so many. It
leases a little more than it can start: what it will start within `prefetch_s` at its present pace.
Whatever has waited here for HOLD_S is handed back, as others may be free to run it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from time import monotonic
from typing import Literal

from pybatchq.attempts import Attempt
from pybatchq.handlers import Handler

MAX_BATCH = 1000
HOLD_S = 1.0
PUT_BACK_CAP_S = 300.0
FULL_KIND_CAP_S = 10.0


@dataclass(slots=True)
class Limit:
    """How many jobs of one kind, or of all process handlers, run at once."""

    most: int
    busy: int = 0
    waiting: deque[Attempt] = field(default_factory=deque)


class Slots:
    """The slots of one worker process."""

    def __init__(self, concurrency: int, *, processes: int, prefetch_s: float) -> None:
        self.concurrency = concurrency
        self.busy = 0
        self._processes = processes
        self._prefetch_s = prefetch_s
        self._waiting: deque[Attempt] = deque()
        self._limits: dict[str, Limit] = {}
        self._pace = 0.0  # jobs that ended in a second, lately
        self._ended = 0
        self._paced_at = monotonic()

    def place(self, attempt: Attempt) -> Literal["start", "wait", "put_back"]:
        """Give a leased job a slot, or a place to wait in; "put_back": its kind is full."""
        limit = self._limit(attempt.handler)
        if self.busy < self.concurrency and (limit is None or limit.busy < limit.most):
            self._take(limit)
            return "start"
        if limit is None:
            self._waiting.append(attempt)
        elif len(limit.waiting) < limit.most:
            limit.waiting.append(attempt)
        else:
            return "put_back"
        return "wait"

    def ended(self, handler: Handler) -> Attempt | None:
        """A job left its slot; who is to take one now."""
        self.busy -= 1
        self._ended += 1
        limit = self._limit(handler)
        if limit is not None:
            limit.busy -= 1
        return self._next()

    def wanted(self) -> int:
        """How many jobs to lease now: half of the slots a turn, so that handlers run meanwhile."""
        ahead = min(MAX_BATCH, int(self._pace * self._prefetch_s))
        room = self.concurrency - self.busy - len(self._waiting) + ahead
        return max(0, min(room, max((self.concurrency + 1) // 2, ahead), MAX_BATCH))

    def measure(self) -> None:
        """Note the pace; called now and then."""
        now = monotonic()
        passed_s = now - self._paced_at
        if passed_s >= 0.01:
            pace = self._ended / passed_s
            # what was long ago counts less
            self._pace += (pace - self._pace) * min(1.0, passed_s / 0.1)
            self._ended, self._paced_at = 0, now

    def waiting(self) -> Iterator[Attempt]:
        yield from self._waiting
        for limit in self._limits.values():
            yield from limit.waiting

    def overdue(self) -> list[Attempt]:
        """Those that have waited too long; they are forgotten here."""
        limit_at = monotonic() - HOLD_S
        found = [attempt for attempt in self.waiting() if attempt.since < limit_at]
        for attempt in found:
            self.forget(attempt)
        return found

    def overdue_in_s(self) -> float | None:
        """When `overdue` has something to tell; None while nobody waits."""
        since = min((attempt.since for attempt in self.waiting()), default=None)
        return None if since is None else max(0.0, since + HOLD_S - monotonic())

    def forget(self, attempt: Attempt) -> None:
        """A job that waited here will not run."""
        limit = self._limit(attempt.handler)
        (self._waiting if limit is None else limit.waiting).remove(attempt)

    def _next(self) -> Attempt | None:
        """The one that was leased first of those that may run now."""
        if self.busy >= self.concurrency:
            return None
        chosen = self._waiting
        for limit in self._limits.values():
            if not limit.waiting or limit.busy >= limit.most:
                continue
            if not chosen or limit.waiting[0].item.lease_id < chosen[0].item.lease_id:
                chosen = limit.waiting
        if not chosen:
            return None
        attempt = chosen.popleft()
        self._take(self._limit(attempt.handler))
        return attempt

    def _take(self, limit: Limit | None) -> None:
        self.busy += 1
        if limit is not None:
            limit.busy += 1

    def _limit(self, handler: Handler) -> Limit | None:
        """Process handlers without a limit of their own share the processors."""
        if handler.concurrency is None and handler.runs_in != "process":
            return None
        name = "process" if handler.concurrency is None else f"kind {handler.kind}"
        limit = self._limits.get(name)
        if limit is None:
            most = handler.concurrency or self._processes
            limit = self._limits[name] = Limit(most)
        return limit


class PutBacks:
    """How long jobs stay away that this process cannot run: each time for longer, by kind."""

    def __init__(self) -> None:
        self._times: dict[str, int] = {}

    def unknown(self, kind: str) -> tuple[float, bool]:
        """Of a kind without a handler here: seconds, and whether it is the first time."""
        times = self._count(kind)
        return min(PUT_BACK_CAP_S, 2.0**times), times == 0

    def full(self, kind: str) -> float:
        """Of a kind whose limit is reached: seconds."""
        return min(FULL_KIND_CAP_S, 0.25 * 2.0 ** self._count(kind))

    def room(self, kind: str) -> None:
        """One of this kind could start."""
        self._times.pop(kind, None)

    def _count(self, kind: str) -> int:
        times = self._times.get(kind, 0)
        self._times[kind] = min(times + 1, 16)
        return times
