"""Which leased jobs of a worker run now, which wait for a slot, and how many more to lease.

A worker runs at most `concurrency` jobs at once, and of a kind with a limit at most so many. It
leases a little more than it can start: what it will start within `prefetch_s` at its present pace.
Jobs of a kind that is full wait here if they will start soon; the others go back, each for as long
as it takes to come to it, and make way for other kinds. Going back costs two writes. So a kind that
is full takes no more until half of those that wait have started, when the worker is hungry; and
while a queue gives nothing but one kind, no more is leased than may wait of it. Whatever has waited
here for HOLD_S is handed back, as others may be free to run it.
"""

from __future__ import annotations

import math
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
STREAK = 8
UNKNOWN_KIND_CAP_S = 300.0
AWAY_LEAST_S = 0.01
AWAY_MOST_S = 10.0


@dataclass(slots=True)
class Limit:
    """How many jobs of one kind, or of all process handlers, run at once.

    run_s: how long one takes, lately. moved_at: when one last started or ended. away: how many were
    put back and have not come again. is_full: no more may wait until half of them have started.
    starting: how many of the next to end may have had to wait for a process to start.
    """

    most: int
    starting: int = 0
    busy: int = 0
    waiting: deque[Attempt] = field(default_factory=deque)
    run_s: float = 0.0
    moved_at: float = field(default_factory=monotonic)
    away: int = 0
    is_full: bool = False
    least_s: float = math.inf

    def waits(self, attempt: Attempt) -> bool:
        """Let it wait if it will start soon."""
        if self.room() <= 0:
            return False
        self.waiting.append(attempt)
        return True

    def room(self, least: int = 1) -> int:
        """How many more may wait now. Full if they are fewer than `least` and half are there."""
        bound = self._bound()
        room = math.ceil(bound - len(self.waiting))
        is_half_full = len(self.waiting) > bound / 2
        self.is_full = room <= 0 or (is_half_full and (self.is_full or room < least))
        return 0 if self.is_full else room

    def starts_within(self, seconds: float) -> float:
        """How many of those that wait."""
        return min(len(self.waiting), self.most * seconds / self._turn_s()) if self.waiting else 0

    def recovers(self) -> bool:
        """Whether it was full and has room for many again; told once."""
        return self.is_full and self.room() > 0

    def put_back_s(self) -> float:
        """For how long one more is put back: until half of those that wait have left room for it.

        If the present ones take longer than usual, they may take as long again.
        """
        self.away += 1
        late_s = max(0.0, monotonic() - self.moved_at - self.run_s)
        ahead_s = (len(self.waiting) / 2 + self.away) * self.run_s / self.most
        return min(AWAY_MOST_S, max(AWAY_LEAST_S, ahead_s + late_s))

    def starts(self) -> None:
        self.busy += 1
        self.moved_at = monotonic()
        self.away = max(0, self.away - 1)

    def ends(self, seconds: float) -> None:
        self.busy -= 1
        self.moved_at = monotonic()
        if self.starting:  # one of these and one more, at least, did not start a process
            self.starting -= 1
            self.least_s = min(self.least_s, seconds)
        elif self.run_s:
            # one whose process was started anew says little of the others
            self.run_s += (min(seconds, 4 * self.run_s) - self.run_s) * 0.1
        else:
            self.run_s = min(self.least_s, seconds)

    def _bound(self) -> float:
        """About so many will start soon."""
        return min(MAX_BATCH, self.most * (1 + SOON_S / self._turn_s()))

    def _turn_s(self) -> float:
        """How long one takes: as lately, unless the present ones take longer.

        A process takes a while to start; until then nothing is known, and jobs wait.
        """
        return max(self.run_s, (monotonic() - self.moved_at - STARTING_S) / 2, 1e-4)


class Slots:
    """The slots of one worker process.

    is_hungry: a kind that was full has room again; whoever looks for jobs may reset it.
    """

    def __init__(self, concurrency: int, *, processes: int, prefetch_s: float) -> None:
        self.concurrency = concurrency
        self.busy = 0
        self.is_hungry = False
        self._processes = processes
        self._prefetch_s = prefetch_s
        self._waiting: deque[Attempt] = deque()
        self._limits: dict[str, Limit] = {}
        self._latest: Limit | None = None  # of the job that came last, and how many came in a row
        self._in_a_row = 0
        self._pace = 0.0  # jobs that ended in a second, lately
        self._half = (concurrency + 1) // 2
        self._ended = 0
        self._paced_at = monotonic()

    def place(self, attempt: Attempt) -> Literal["start", "wait"] | float:
        """Give a leased job a slot, or a place to wait in.

        A number: its kind is full, so put it back for so many seconds.
        """
        limit = self._limit(attempt.handler)
        self._in_a_row = self._in_a_row + 1 if limit is self._latest else 1
        self._latest = limit
        if self.busy < self.concurrency and (limit is None or limit.busy < limit.most):
            self._take(limit)
            return "start"
        if limit is None:
            self._waiting.append(attempt)
        elif not limit.waits(attempt):
            return limit.put_back_s()
        return "wait"

    def ended(self, attempt: Attempt) -> Attempt | None:
        """A job left its slot; who is to take one now."""
        self.busy -= 1
        self._ended += 1
        limit = self._limit(attempt.handler)
        if limit is not None:
            limit.ends(monotonic() - attempt.since)
        following = self._next()
        if limit is not None and limit.recovers():
            self.is_hungry = True
        return following

    def wanted(self, useless: int = 0) -> int:
        """How many jobs to lease now: half of the slots a turn, so that handlers run meanwhile.

        useless: looks in a row that found only jobs of full kinds: look behind them.
        """
        ahead = min(MAX_BATCH, int(self._pace * self._prefetch_s))
        free = max(0, self.concurrency - self.busy - len(self._waiting))
        # what waits for its kind is leased ahead as well, but no reason to leave a slot empty
        limited = self._limited_ahead()
        if not free and limited > ahead / 2:
            return 0  # later, and more at once
        room = free + max(0, ahead - len(self._waiting) - int(limited))
        wanted = max(0, min(room, max(self._half, ahead), MAX_BATCH))
        if self._only is not None and not useless:
            return min(wanted, max(1, self._only.room()))
        return min(wanted << min(useless, 7), max(wanted, LOOK_BEHIND))

    def expects_full(self) -> bool:
        """Whether the next job is likely to be of a kind that is full, or nearly."""
        return self._only is not None and not self._only.room(self._half)

    def has_enough(self) -> bool:
        """Whether full kinds have work for some time, so that there is no hurry with anything.

        Their jobs end one by one, in processes or threads, and would make a turn each.
        """
        enough = self._pace * self._prefetch_s / 2
        return enough >= 1 and self._limited_ahead() > enough

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

        They are forgotten here. Once one of a full kind is to go, those that came in the half
        second after it go along: each call that hands back may wake whoever is parked, us too.
        """
        before = monotonic() - HOLD_S
        found: list[tuple[Attempt, float | None]] = []
        while self._waiting and self._waiting[0].since < before:
            found.append((self._waiting.popleft(), None))
        for limit in self._limits.values():
            if limit.waiting and limit.waiting[0].since < before:
                while limit.waiting and limit.waiting[0].since < before + HOLD_S / 2:
                    found.append((limit.waiting.popleft(), limit.put_back_s()))
        return found

    def overdue_in_s(self) -> float | None:
        """When `overdue` has something to tell; None while nobody waits."""
        heads = [self._waiting, *(limit.waiting for limit in self._limits.values())]
        since = min((waiting[0].since for waiting in heads if waiting), default=None)
        return None if since is None else max(0.0, since + HOLD_S - monotonic())

    def is_limited(self, handler: Handler) -> bool:
        """Whether it has not all slots to itself."""
        return handler.concurrency is not None or handler.runs_in == "process"

    def forget(self, attempt: Attempt) -> None:
        """A job that waited here will not run."""
        limit = self._limit(attempt.handler)
        (self._waiting if limit is None else limit.waiting).remove(attempt)

    def _limited_ahead(self) -> float:
        """Of those that wait for their kind: how many will start within prefetch_s."""
        return sum(limit.starts_within(self._prefetch_s) for limit in self._limits.values())

    @property
    def _only(self) -> Limit | None:
        """The limit of all that came lately."""
        return self._latest if self._in_a_row >= STREAK else None

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
        its_limit = self._limit(attempt.handler)
        self._take(its_limit)
        if its_limit is not None and its_limit.recovers():
            self.is_hungry = True
        return attempt

    def _take(self, limit: Limit | None) -> None:
        self.busy += 1
        if limit is not None:
            limit.starts()

    def _limit(self, handler: Handler) -> Limit | None:
        """Process handlers without a limit of their own share the processors."""
        if not self.is_limited(handler):
            return None
        name = "process" if handler.concurrency is None else f"kind {handler.kind}"
        limit = self._limits.get(name)
        if limit is None:
            most = handler.concurrency or self._processes
            starting = most if handler.runs_in == "process" else 0
            limit = self._limits[name] = Limit(most, starting)
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
