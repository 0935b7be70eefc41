"""Which leased jobs of a worker run now, which wait for a slot, and how many more to lease.

A worker runs at most `concurrency` jobs at once, and of a kind with a limit at most so many. It
leases a little more than it can start: what it will start within `prefetch_s` at its present pace.
Jobs of a kind that is full wait here if they will start soon; the others go back, each for as long
as it takes to come to it, and make way for other kinds. Whatever has waited here for HOLD_S is
handed back, as others may be free to run it.
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
SOON_S = 0.2
STARTING_S = 0.5
LOOK_BEHIND = 200
UNKNOWN_KIND_CAP_S = 300.0
AWAY_LEAST_S = 0.01
AWAY_MOST_S = 10.0


@dataclass(slots=True)
class Limit:
    """How many jobs of one kind, or of all process handlers, run at once.

    run_s: how long one takes, lately. moved_at: when one last started or ended. away: how many were
    put back and have not come again.
    """

    most: int
    busy: int = 0
    waiting: deque[Attempt] = field(default_factory=deque)
    run_s: float = 0.0
    moved_at: float = field(default_factory=monotonic)
    away: int = 0

    def may_wait(self) -> bool:
        """Whether one more will start soon."""
        return len(self.waiting) < min(MAX_BATCH, self.most * (1 + SOON_S / self._turn_s()))

    def put_back_s(self) -> float:
        """For how long one more is put back: until its turn comes."""
        self.away += 1
        ahead_s = (len(self.waiting) + self.away) * self._turn_s() / self.most
        return min(AWAY_MOST_S, max(AWAY_LEAST_S, ahead_s))

    def starts(self) -> None:
        self.busy += 1
        self.moved_at = monotonic()
        self.away = max(0, self.away - 1)

    def ends(self, seconds: float) -> None:
        self.busy -= 1
        self.moved_at = monotonic()
        self.run_s = self.run_s + (seconds - self.run_s) * 0.3 if self.run_s else seconds

    def _turn_s(self) -> float:
        """How long one takes: as lately, unless the present ones take longer.

        A process takes a while to start; until then nothing is known, and jobs wait.
        """
        return max(self.run_s, (monotonic() - self.moved_at - STARTING_S) / 2, 1e-4)


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

    def place(self, attempt: Attempt) -> Literal["start", "wait"] | float:
        """Give a leased job a slot, or a place to wait in.

        A number: its kind is full, so put it back for so many seconds.
        """
        limit = self._limit(attempt.handler)
        if self.busy < self.concurrency and (limit is None or limit.busy < limit.most):
            self._take(limit)
            return "start"
        if limit is None:
            self._waiting.append(attempt)
        elif limit.may_wait():
            limit.waiting.append(attempt)
        else:
            return limit.put_back_s()
        return "wait"

    def ended(self, attempt: Attempt) -> Attempt | None:
        """A job left its slot; who is to take one now."""
        self.busy -= 1
        self._ended += 1
        limit = self._limit(attempt.handler)
        if limit is not None:
            limit.ends(monotonic() - attempt.since)
        return self._next()

    def wanted(self, useless: int = 0) -> int:
        """How many jobs to lease now: half of the slots a turn, so that handlers run meanwhile.

        useless: looks in a row that found only jobs of full kinds: look behind them.
        """
        ahead = min(MAX_BATCH, int(self._pace * self._prefetch_s))
        room = self.concurrency - self.busy - len(self._waiting) + ahead
        wanted = max(0, min(room, max((self.concurrency + 1) // 2, ahead), MAX_BATCH))
        return min(wanted << min(useless, 7), max(wanted, LOOK_BEHIND))

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

    def overdue(self) -> list[tuple[Attempt, float | None]]:
        """Those that have waited too long, and for how many seconds to put them back.

        They are forgotten here.
        """
        before = monotonic() - HOLD_S
        found: list[tuple[Attempt, float | None]] = []
        while self._waiting and self._waiting[0].since < before:
            found.append((self._waiting.popleft(), None))
        for limit in self._limits.values():
            while limit.waiting and limit.waiting[0].since < before:
                found.append((limit.waiting.popleft(), limit.put_back_s()))
        return found

    def overdue_in_s(self) -> float | None:
        """When `overdue` has something to tell; None while nobody waits."""
        heads = [self._waiting, *(limit.waiting for limit in self._limits.values())]
        since = min((waiting[0].since for waiting in heads if waiting), default=None)
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
            limit.starts()

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


class UnknownKinds:
    """For how long jobs are put back that no handler here is for: each time for longer, by kind."""

    def __init__(self) -> None:
        self._times: dict[str, int] = {}

    def put_back_s(self, kind: str) -> tuple[float, bool]:
        """Seconds, and whether it is the first time."""
        times = self._times.get(kind, 0)
        self._times[kind] = min(times + 1, 16)
        return min(UNKNOWN_KIND_CAP_S, 2.0**times), times == 0
