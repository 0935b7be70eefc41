"""Flow control in plain Python: caps, rates and groups of the model of model.py.

Nothing is counted along: who runs, who has a seat and who waits is read off the jobs each time.
Only permits to start are kept as they are in batchq, as a list of when each may be used again.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tests.property.records import LIVE, SECOND, Group, Job, Queue

TURN = 20
UNLIMITED = 1_000_000


@dataclass(slots=True)
class Flow:
    now: int = 0
    jobs: dict[int, Job] = field(default_factory=dict)
    queues: dict[str, Queue] = field(default_factory=dict)
    groups: dict[tuple[str, str], Group] = field(default_factory=dict)
    # when permits of a group to start, used ones, come back
    returns: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    # when jobs were started, since the limit of starts was last set
    starts: dict[tuple[str, str | None], list[int]] = field(default_factory=dict)
    _places: Iterable[int] = field(default_factory=itertools.count)

    def queue(self, name: str) -> Queue:
        return self.queues.get(name, Queue())

    def in_state(self, *states: str, queue: str | None = None) -> list[Job]:
        found = [j for j in self.jobs.values() if j.state in states]
        return [j for j in found if queue is None or j.queue == queue]

    def next_place(self) -> int:
        return next(iter(self._places))

    def make_ready(self, job: Job) -> None:
        job.state = "ready"
        job.ready_at = self.now
        job.place = self.next_place()

    def make_pending(self, job: Job) -> None:
        """Ready, or blocked if its group has to let it."""
        if job.waits and (not job.seat or self.queue(job.queue).paced):
            self.block(job, self.next_place())
        else:
            self.make_ready(job)

    def block(self, job: Job, place: int) -> None:
        limit = self.queue(job.queue).group_limit
        job.state = "blocked"
        job.rank = -32768 if job.seat else 0 if limit == 1 else -job.priority
        job.place = place

    def let_go(self, job: Job) -> None:
        """The job leaves `leased`, and with it its permit to run."""
        if not job.permit and self.queue(job.queue).max_running is not None:
            self.queue(job.queue).missing += 1
        job.permit = False

    def keep_for_retry(self, job: Job) -> None:
        job.start = False
        job.seat = job.seat and self.queue(job.queue).holds

    # groups

    def members(self, queue: str, group: str) -> list[Job]:
        return [j for j in self.in_state(*LIVE, queue=queue) if j.group_key == group]

    def seats(self) -> dict[tuple[str, str], int]:
        """Seats taken, of groups that have any."""
        taken: dict[tuple[str, str], int] = {}
        for job in self.in_state(*LIVE):
            if job.seat and job.group_key is not None:
                key = (job.queue, job.group_key)
                taken[key] = taken.get(key, 0) + 1
        return taken

    def seats_of(self, queue: str, group: str) -> int:
        settings = self.queue(queue)
        own = self.groups.get((queue, group), Group())
        turn = TURN * (own.weight or 1) if settings.fair else None
        limits = (own.group_limit, settings.group_limit, turn, UNLIMITED)
        return next(limit for limit in limits if limit is not None)

    def started(self, queue: str, group: str) -> int:
        """Permits of a group to start that are in use, or were used within the period."""
        held = sum(job.start for job in self.members(queue, group))
        return held + sum(at > self.now for at in self.returns.get((queue, group), ()))

    def turns(self, queue: str, group: str) -> Iterator[Job]:
        """The blocked jobs of a group that may be ready now."""
        blocked = [j for j in self.members(queue, group) if j.state == "blocked"]
        settings = self.queue(queue)
        seats = self.seats_of(queue, group)
        free = seats - sum(job.seat for job in self.members(queue, group))
        most = seats
        if settings.group_rate is not None:
            most = min(most, settings.group_rate - self.started(queue, group))
        for job in sorted(blocked, key=lambda j: (j.rank, j.place))[: max(most, 0)]:
            if not job.seat and free <= 0:
                return
            free -= not job.seat
            yield job

    def admit(self, queue: str) -> None:
        groups = {j.group_key for j in self.in_state("blocked", queue=queue) if j.group_key}
        chosen = [
            (turn, job.id, job)
            for group in groups
            for turn, job in enumerate(list(self.turns(queue, group)))
        ]
        for _, _, job in sorted(chosen):
            job.seat = True
            job.start = job.start or self.queue(queue).paced
            self.make_ready(job)

    # starts

    def room(self, queue: str) -> int:
        """How many more jobs the cap lets run."""
        settings = self.queue(queue)
        if settings.max_running is None:
            return UNLIMITED
        running = len(self.in_state("leased", queue=queue))
        return max(settings.max_running - running - settings.missing, 0)

    def take_starts(self, settings: Queue, wanted: int, till: int) -> int:
        """Permits to start that are there till then, oldest first, by 1, 2, 4 and so on: what was
        too much is put back, to be taken no sooner than the last of them.
        """
        due = sorted(at for at in settings.permits if at <= till)
        later = [at for at in settings.permits if at > till]
        taken, look, last = 0, 1, self.now
        while taken < wanted and due:
            last = max(last, *due[:look])
            taken += len(due[:look])
            del due[:look]
            look *= 2
        settings.permits = [*due, *later, *[last] * (taken - wanted)]
        return min(taken, wanted)

    def take_room(self, queue: str, wanted: int) -> int:
        settings = self.queue(queue)
        wanted = min(wanted, self.room(queue))
        if settings.rate is not None and wanted > 0:
            wanted = self.take_starts(settings, wanted, self.now)
            settings.permits += [self.now + settings.period] * wanted
        return wanted

    def note_start(self, job: Job) -> None:
        settings = self.queue(job.queue)
        if not settings.limited:
            return
        self.starts.setdefault((job.queue, None), []).append(self.now)
        job.permit = settings.max_running is not None
        if settings.takes_turns:
            job.seat = False
        if job.start and job.group_key is not None:
            key = (job.queue, job.group_key)
            self.starts.setdefault(key, []).append(self.now)
            period = SECOND if settings.group_period is None else settings.group_period
            self.returns.setdefault(key, []).append(self.now + period)
            job.start = False

    def fit_groups(self, queue: str, old: Queue) -> None:
        """Ready jobs begin to wait for their turn, or waiting ones change their order."""
        settings = self.queue(queue)
        if settings.grouped and not old.grouped:
            for job in self.in_state("ready", "scheduled", queue=queue):
                if job.group_key is not None and not job.waits:
                    job.waits = True
                    if job.state == "ready":
                        self.block(job, job.first_place)
        if (settings.group_limit == 1) != (old.group_limit == 1):
            for job in self.in_state("blocked", queue=queue):
                self.block(job, job.place)

    def fit_limits(self, queue: str, old: Queue) -> None:
        """After its settings changed."""
        settings = self.queue(queue)
        if settings.grouped or old.grouped:
            self.fit_groups(queue, old)
        self.starts = {key: at for key, at in self.starts.items() if key[0] != queue}
        settings.missing = 0
        if settings.rate is None:
            settings.permits = []
            return
        shift = settings.period - old.period
        settings.permits = [
            max(at + shift, self.now) if at > self.now else at for at in settings.permits
        ]
        more = settings.rate - len(settings.permits)
        if more > 0:
            settings.permits += [self.now] * more
        elif more < 0:
            self.take_starts(settings, -more, self.now + settings.period)

    def heal(self) -> int:
        """What the task limits does; how many permits were missing."""
        missing = sum(queue.missing for queue in self.queues.values())
        for queue in self.queues.values():
            queue.missing = 0
        return missing

    def depth(self, queue: str) -> int:
        return len(self.in_state("ready", "blocked", queue=queue))

    def chance(self, queue: str) -> int | None:
        """When the next job of a limited queue may start if nothing else happens; None: never."""
        settings = self.queue(queue)
        if settings.paused or not settings.limited:
            return None
        chances = []
        if self.in_state("ready", queue=queue) and self.room(queue) > 0:
            chances += [self.now] if settings.rate is None else settings.permits
        for group in {j.group_key for j in self.in_state("blocked", queue=queue) if j.group_key}:
            if list(self.turns(queue, group)):
                chances.append(self.now)
        return min(chances, default=None)
