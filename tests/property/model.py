"""The life of jobs in plain Python: what batchq must answer to one session under a set clock.

Times and spans are whole microseconds, times from an arbitrary start. A call that batchq must
refuse raises RefusedError and changes nothing.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.property.flow import Flow
from tests.property.records import LIMITS, SECOND, Group, Hold, Job, Policy, Queue

DEFAULT_LEASE = 60 * SECOND
# the others read what others wrote down
TASKS = {
    "age", "breakers", "floors", "groups", "keys", "lanes", "limits", "promote", "reap", "workers",
}  # fmt: skip
STATUS = {
    "ready": "pending", "scheduled": "pending", "blocked": "pending", "leased": "running",
}  # fmt: skip
PENDING = ("ready", "scheduled", "blocked")

Pair = tuple[int, int]
Spec = dict[str, Any]


class RefusedError(Exception):
    """batchq answers with this SQLSTATE."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(slots=True)
class Model(Flow):
    holds: dict[tuple[str, str], Hold] = field(default_factory=dict)
    ended: dict[Pair, str] = field(default_factory=dict)
    every: dict[str, int] = field(default_factory=dict)  # each task of upkeep
    next_task: dict[str, int] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)

    def live_leases(self) -> list[Pair]:
        return [(j.id, j.lease_id) for j in self.in_state("leased") if j.lease_id is not None]

    # producer

    def claim(self, key: tuple[str, str], job_id: int, scope: str, until: int | None) -> int:
        hold = self.holds.get(key)
        if hold is not None:
            holder = self.jobs.get(hold.job_id)
            state = holder.state if holder else None
            in_window = hold.until is not None and hold.until > self.now
            in_scope = state in PENDING or (state == "leased" and scope == "unfinished")
            if in_window or in_scope:
                return hold.job_id
        self.holds[key] = Hold(job_id, until)
        return job_id

    def claim_for(self, spec: Spec, job_id: int) -> int:
        """The id of the job that a spec comes down to: `job_id` itself, or its key's holder."""
        if "dedupe_key" not in spec:
            return job_id
        window = spec.get("dedupe_for")
        return self.claim(
            (spec.get("queue", "default"), spec["dedupe_key"]),
            job_id,
            spec.get("dedupe_scope", "unfinished"),
            None if window is None else self.now + window,
        )

    def starts_at(self, spec: Spec) -> int:
        return int(spec.get("run_at", self.now + spec.get("delay", 0)))

    def insert(self, spec: Spec, job_id: int) -> None:
        queue = spec.get("queue", "default")
        self.used.add(queue)
        settings = self.queue(queue)
        job = Job(
            id=job_id,
            queue=queue,
            priority=spec.get("priority", 0),
            max_attempts=spec.get("max_attempts", settings.max_attempts or 3),
            timeout=spec.get("timeout", settings.timeout),
            dedupe_key=spec.get("dedupe_key"),
            keyed="dedupe_key" in spec,
            policy=Policy(**{k: v for k, v in spec.items() if k.startswith("backoff")}),
            payload=spec.get("payload", {}),
            run_at=self.starts_at(spec),
            group_key=spec.get("group_key"),
            waits="group_key" in spec and settings.grouped,
            first_place=self.next_place(),
            created_at=self.now,
            first_priority=spec.get("priority", 0),
        )
        job.place = job.first_place
        if job.run_at > self.now:
            self._schedule(job, job.run_at)
        elif job.waits:
            self.block(job, job.place)
        self.jobs[job_id] = job

    def replace(self, spec: Spec, job_id: int) -> None:
        job = self.jobs.get(job_id)
        if job is None or job.state not in PENDING:
            return
        job.payload = spec.get("payload", {})
        job.run_at = self.starts_at(spec)
        if job.run_at > self.now:
            job.seat = job.start = False
            self._schedule(job, job.run_at)
        elif job.state == "ready":
            job.ready_at = self.now
        elif job.state == "scheduled":
            self.make_pending(job)

    def enqueue(self, spec: Spec, fresh_id: int) -> int:
        """`fresh_id` is the id that a new job gets; the answer is what enqueue returns."""
        with self._undone_if_refused():
            full = self.is_full(spec.get("queue", "default"))
            holder = self.claim_for(spec, fresh_id)
            if holder == fresh_id:
                self.insert(spec, fresh_id)
                if full and self.jobs[fresh_id].state != "scheduled":
                    self._put_off([self.jobs[fresh_id]])
                    self.jobs[fresh_id].runs_when_due = True
        if holder != fresh_id and spec.get("on_duplicate") == "replace":
            self.replace(spec, holder)
        return holder

    def is_full(self, queue: str) -> bool:
        most = self.queue(queue).max_depth
        return most is not None and self.depth(queue) >= most

    @contextlib.contextmanager
    def _undone_if_refused(self) -> Iterator[None]:
        before = (dict(self.jobs), dict(self.holds), set(self.used))
        try:
            yield
        except RefusedError:
            self.jobs, self.holds, self.used = before
            raise

    def _put_off(self, jobs: list[Job]) -> None:
        """They are too many for their queue."""
        for job in jobs:
            if self.queue(job.queue).on_full != "delay":
                raise RefusedError("JQ006")
            self._schedule(job, None)
            job.due_from, job.due_within = 30 * SECOND, 90 * SECOND

    def fit_depth(self, ids: Sequence[int]) -> None:
        """Of new jobs, those of lowest priority are put off first, and the last of them."""
        new = [self.jobs[job_id] for job_id in ids]
        for queue in sorted({job.queue for job in new}):
            most = self.queue(queue).max_depth
            mine = sorted((j for j in new if j.queue == queue), key=lambda j: (j.priority, -j.id))
            blocked = [job for job in mine if job.state == "blocked"]
            # blocked ones come in after the others were judged
            for line, unseen in (("ready", len(blocked)), ("blocked", 0)):
                if most is not None and any(job.state == line for job in mine):
                    fits = ("ready",) if unseen else ("ready", "blocked")
                    over = max(self.depth(queue) - unseen - most, 0)
                    self._put_off([job for job in mine if job.state in fits][:over])

    def enqueue_many(self, specs: Sequence[Spec], fresh_ids: Sequence[int]) -> list[int]:
        with self._undone_if_refused():
            return self._enqueue_many(specs, fresh_ids)

    def _enqueue_many(self, specs: Sequence[Spec], fresh_ids: Sequence[int]) -> list[int]:
        holders = list(fresh_ids)
        by_key: dict[tuple[str, str], int] = {}
        for place, spec in enumerate(specs):
            if "dedupe_key" in spec:
                key = (spec.get("queue", "default"), spec["dedupe_key"])
                if key not in by_key:
                    by_key[key] = self.claim_for(spec, fresh_ids[place])
                holders[place] = by_key[key]
        for place, spec in enumerate(specs):
            if holders[place] == fresh_ids[place]:
                self.insert(spec, fresh_ids[place])
        self.fit_depth([job_id for job_id in fresh_ids if job_id in holders])
        for place in sorted(range(len(specs)), key=lambda p: (holders[p], p)):
            duplicate = holders[place] != fresh_ids[place]
            if duplicate and specs[place].get("on_duplicate") == "replace":
                self.replace(specs[place], holders[place])
        return holders

    def cancel(self, job_id: int, reason: str | None) -> str:
        job = self.jobs.get(job_id)
        if job is None:
            raise RefusedError("JQ003")
        if job.state in ("completed", "failed"):
            raise RefusedError("JQ005")
        if job.state == "leased":
            job.stopping = True
            job.reason = job.reason or reason
            return "running"
        if job.state != "cancelled":
            job.reason = reason
            self._finish(job, "cancelled")
        return "cancelled"

    def cancel_many(
        self, job_ids: list[int] | None, queue: str | None, state: str | None, n: int, dry: bool
    ) -> tuple[int, int, int, int | None]:
        """With "r" as the reason."""
        if job_ids is None and queue is None and state is None:
            raise RefusedError("JQ001")
        if not set(job_ids or ()) <= set(self.jobs):
            raise RefusedError("JQ003")
        states = [key for key, status in STATUS.items() if state in (None, key, status)]
        found = self.in_state(*states, queue=queue)
        found = [j for j in found if not j.stopping and (job_ids is None or j.id in job_ids)]
        chosen = sorted(found, key=lambda j: j.id)[:n]
        asked = sum(job.state == "leased" for job in chosen)
        for job in chosen if not dry else ():
            self.cancel(job.id, "r")
        return len(chosen) - asked, asked, 0, last_id(chosen, n)

    # worker

    def lease(self, queue: str, n: int, lease_for: int | None, worker: str) -> list[Job]:
        """The jobs a lease must return, in order; the caller tells each its lease_id."""
        settings = self.queue(queue)
        if settings.paused:
            return []
        self.promote(queue)
        self.admit(queue)
        ready = sorted(self.in_state("ready", queue=queue), key=lambda j: (-j.priority, j.place))
        chosen: list[Job] = []
        for _, lane in itertools.groupby(ready, key=lambda j: j.priority):
            jobs = list(lane)[: n - len(chosen)]
            jobs = jobs[: self.take_room(queue, len(jobs))]
            self._start(jobs, lease_for or settings.lease_for or DEFAULT_LEASE, worker)
            chosen += jobs
        return chosen

    def _start(self, jobs: list[Job], lease_for: int, worker: str) -> None:
        for job in jobs:
            job.state = "leased"
            job.attempts += 1
            job.leased_at = self.now
            job.lease_until = self.now + lease_for
            job.worker = worker
            self.note_start(job)

    def leased(self, pair: Pair) -> Job | None:
        job = self.jobs.get(pair[0])
        return job if job and job.state == "leased" and job.lease_id == pair[1] else None

    def complete(self, pair: Pair, result: Any) -> str:
        job = self.leased(pair)
        if job is None:
            return self._asked_twice(pair, "completed")
        job.result = result
        self._finish(job, "completed", pair)
        return "completed"

    def fail(self, pair: Pair, error: str, permanent: bool, retry_in: int | None) -> str:
        job = self.leased(pair)
        if job is None:
            return self._asked_twice(pair, "failed", "cancelled")
        self._end_attempt(job, error, permanent, retry_in)
        self.ended[pair] = "cancelled" if job.state == "cancelled" else "failed"
        return job.state

    def snooze(self, pair: Pair, delay: int | None) -> str:
        job = self.leased(pair)
        if job is None:
            raise RefusedError("JQ004")
        if job.stopping:
            self._finish(job, "cancelled", pair)
            return job.state
        job.attempts -= 1
        self._drop_lease(job)
        paced = job.waits and self.queue(job.queue).paced
        if paced or (delay is not None and delay > 0):
            self.keep_for_retry(job)
            self._schedule(job, self.now + max(delay or 0, 0))
        else:
            self.make_ready(job)
        return job.state

    def extend(self, pair: Pair, lease_for: int | None) -> tuple[int | None, str]:
        job = self.leased(pair)
        if job is None:
            return None, "lost"
        if job.deadline is not None and job.deadline <= self.now:
            return job.lease_until, "timed_out"
        job.lease_until = self.now + (lease_for or self.queue(job.queue).lease_for or DEFAULT_LEASE)
        return job.lease_until, "cancelled" if job.stopping else "extended"

    def progress(self, pair: Pair, progress: Any) -> str:
        job = self.leased(pair)
        if job is None:
            raise RefusedError("JQ004")
        job.progress = progress
        return ""

    # operator

    def set_queue(
        self, name: str, reset: bool, values: dict[str, Any], clear: Sequence[str] = ()
    ) -> None:
        queue = self.queues.setdefault(name, Queue())
        old = replace(queue)
        for key in LIMITS if reset else clear:
            setattr(queue, key, None)
        if reset:
            queue.max_attempts = queue.timeout = queue.lease_for = None
            queue.policy = Policy()
        for key, value in values.items():
            if key.startswith("backoff"):
                queue.policy = replace(queue.policy, **{key: value})
            else:
                setattr(queue, key, value)
        if old.limited or queue.limited:
            self.fit_limits(name, old)

    def set_job(self, job_id: int, priority: int | None, run_at: int | None) -> str:
        if priority is None and run_at is None:
            raise RefusedError("JQ001")
        job = self.jobs.get(job_id)
        if job is None:
            raise RefusedError("JQ003")
        if job.state not in PENDING or (job.state == "blocked" and run_at is not None):
            raise RefusedError("JQ005")
        moves = priority is not None and priority != job.priority
        if priority is not None:
            job.priority = priority
        if run_at is not None and run_at > self.now:
            job.seat = job.start = False
            self._schedule(job, run_at)
        elif job.state == "scheduled" and run_at is not None:
            self._schedule(job, self.now)
        elif job.state == "ready" and moves:
            job.ready_at = job.created_at if job.ready_at is None else job.ready_at
            job.place = self.next_place()
        elif job.state == "blocked":
            self.block(job, job.place)
        return job.state

    def pause(self, name: str, paused: bool) -> None:
        self.queues.setdefault(name, Queue()).paused = paused

    def set_group(self, queue: str, key: str, values: dict[str, Any], reset: bool) -> None:
        self.used.add(queue)
        group = Group() if reset else self.groups.get((queue, key), Group())
        self.groups[queue, key] = replace(group, **values)

    def redrive(
        self, job_ids: list[int] | None, queue: str | None, n: int, per_second: float | None
    ) -> tuple[int, int | None]:
        for job_id in job_ids or ():
            if job_id not in self.jobs:
                raise RefusedError("JQ003")
            if self.jobs[job_id].state in ("leased", "completed", "cancelled"):
                raise RefusedError("JQ005")
        chosen = self._chosen("failed", job_ids, queue, n)
        for ordinal, job in enumerate(chosen):
            job.attempts = 0
            job.keyed = job.dedupe_key is not None and job.id == self.claim(
                (job.queue, job.dedupe_key), job.id, "unfinished", None
            )
            job.waits = job.group_key is not None and self.queue(job.queue).grouped
            if per_second is None:
                self.make_pending(job)
            else:
                self._schedule(job, self.now + round(ordinal / per_second * SECOND))
        return len(chosen), last_id(chosen, n)

    def purge(
        self, status: str, job_ids: list[int] | None, queue: str | None, n: int
    ) -> tuple[int, int | None]:
        chosen = self._chosen(status, job_ids, queue, n)
        gone = {job.id for job in chosen}
        for job_id in gone:
            del self.jobs[job_id]
        self.holds = {k: h for k, h in self.holds.items() if h.job_id not in gone}
        self.ended = {pair: e for pair, e in self.ended.items() if pair[0] not in gone}
        return len(chosen), last_id(chosen, n)

    def reap(self) -> int:
        expired = [j for j in self.in_state("leased") if (j.lease_until or 0) <= self.now]
        for job in expired:
            self.reap_one(job)
        return len(expired)

    def reap_one(self, job: Job) -> None:
        assert job.lease_id is not None
        if job.deadline is not None and job.deadline <= self.now:
            error = f"timed out after {(job.timeout or 0) // SECOND} s"
        else:
            error = f"lease expired: worker {job.worker} did not renew it"
        self.ended[job.id, job.lease_id] = "expired"
        self._end_attempt(job, error, permanent=False, retry_in=None)

    def promote(self, queue: str) -> int:
        scheduled = self.in_state("scheduled", queue=queue)
        due = [(j.due, j.id) for j in scheduled if j.due is not None and j.due <= self.now]
        for _, job_id in sorted(due):
            self.make_pending(self.jobs[job_id])
        return len(due)

    def maintain(self) -> list[tuple[str, int, bool]]:
        done = []
        for task, every in sorted(self.every.items()):
            if self.next_task.get(task, self.now) <= self.now:
                done.append((task, self._task(task), False))
                self.next_task[task] = self.now + every
        return done

    def _task(self, task: str) -> int:
        match task:
            case "keys":
                return self._drop_keys()
            case "limits":
                return self.heal()
            case "promote":
                return sum(self.promote(queue) for queue in self.used)
            case "reap":
                return self.reap()
            case _:
                return 0

    def _drop_keys(self) -> int:
        dropped = 0
        for key, hold in list(self.holds.items()):
            if hold.until is not None and hold.until <= self.now:
                if self.jobs[hold.job_id].state in STATUS:
                    hold.until = None
                else:
                    del self.holds[key]
                    dropped += 1
        return dropped

    def _chosen(
        self, state: str, job_ids: list[int] | None, queue: str | None, n: int
    ) -> list[Job]:
        found = [j for j in self.in_state(state, queue=queue) if job_ids is None or j.id in job_ids]
        return sorted(found, key=lambda j: j.id)[:n]

    def _asked_twice(self, pair: Pair, *fitting: str) -> str:
        ended = self.ended.get(pair)
        if ended is None or ended not in fitting:
            raise RefusedError("JQ004")
        return ended

    def _end_attempt(self, job: Job, error: str, permanent: bool, retry_in: int | None) -> None:
        job.errors.append(error)
        if job.stopping:
            self._finish(job, "cancelled")
        elif permanent or job.attempts >= job.max_attempts:
            self._finish(job, "failed")
        elif retry_in is not None:
            self._drop_lease(job)
            self.keep_for_retry(job)
            self._schedule(job, self.now + max(retry_in, 0))
        else:
            self._drop_lease(job)
            self.keep_for_retry(job)
            longest, exact = self._backoff(job)
            self._schedule(job, self.now + longest if exact else None)
            job.due_from, job.due_within = 0, longest

    def _backoff(self, job: Job) -> tuple[int, bool]:
        """The longest wait, and whether it is the only one possible."""
        mine, queue = job.policy, self.queue(job.queue).policy

        def setting(name: str, default: Any) -> Any:
            own, shared = getattr(mine, name), getattr(queue, name)
            return own if own is not None else shared if shared is not None else default

        fixed = setting("backoff", "exponential") == "fixed"
        base = setting("backoff_base", 10 * SECOND)
        power = 0 if fixed else job.attempts - 1
        wait = min(
            setting("backoff_cap", 3600 * SECOND), base * setting("backoff_factor", 2) ** power
        )
        jitter = setting("backoff_jitter", "none" if fixed else "full")
        return wait, jitter == "none" or wait == 0

    def _schedule(self, job: Job, due: int | None) -> None:
        job.state = "scheduled"
        job.due = due
        job.runs_when_due = False

    def _drop_lease(self, job: Job) -> None:
        if job.lease_id is not None:
            self.let_go(job)
        job.lease_id = job.lease_until = job.worker = job.progress = None

    def _finish(self, job: Job, state: str, pair: Pair | None = None) -> None:
        job.state = state
        self._drop_lease(job)
        job.stopping = job.waits = job.seat = job.start = False
        if pair is not None:
            self.ended[pair] = state
        if job.keyed:
            self.holds = {
                k: h
                for k, h in self.holds.items()
                if h.job_id != job.id or (h.until is not None and h.until > self.now)
            }


def last_id(chosen: list[Job], n: int) -> int | None:
    """Where a bulk call that took these jobs, at most n, says to go on."""
    return chosen[-1].id if len(chosen) == n else None
