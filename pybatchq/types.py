"""What the functions of batchq give back. Names ending in `_s` are seconds."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Literal, NewType
from uuid import UUID

from msgspec import Struct

JobId = NewType("JobId", int)
LeaseId = NewType("LeaseId", int)

Status = Literal["pending", "running", "completed", "failed", "cancelled"]
Scope = Literal["produce", "work", "operate", "monitor"]
State = Literal["scheduled", "ready", "blocked", "leased", "completed", "failed", "cancelled"]
Event = Literal["leased", "sleep", "lost", "deferred", "too_large"]
LostReason = Literal["lost", "deferred", "too_large"]
ExtendedState = Literal["extended", "cancelled", "timed_out", "lost", "deferred"]


class EnqueuedJob(Struct, frozen=True):
    """`ordinal` is the place in the input, from 1. Not `is_new`: the job that holds the key."""

    ordinal: int
    job_id: JobId
    is_new: bool


class LeasedJob(Struct, frozen=True):
    """A job and the right to run it. `payload` and `headers` are JSON, not decoded."""

    job_id: JobId
    lease_id: LeaseId
    lease_until: datetime
    queue: str
    kind: str
    payload: bytes
    priority: int
    attempt: int
    max_attempts: int
    timeout: timedelta | None
    headers: bytes | None


class WorkItem(Struct, frozen=True, gc=False):
    """One row of settle_and_lease.

    `leased`: a job, with its lease's length in `lease_s`. `sleep`: there was no job to lease;
    `timeout_s` is the time until the next scheduled job is due, None if there is none. Any
    other event: a settlement that was not taken.
    """

    event: Event
    job_id: JobId
    lease_id: LeaseId
    lease_s: float
    queue: str
    kind: str
    payload: bytes
    attempt: int
    max_attempts: int
    timeout_s: float | None
    headers: bytes | None


class LostLease(Struct, frozen=True):
    """A settlement that was not taken. `deferred`: hand it in again."""

    job_id: JobId
    lease_id: LeaseId
    reason: LostReason


class ExtendedLease(Struct, frozen=True):
    job_id: JobId
    lease_id: LeaseId
    lease_until: datetime | None
    state: ExtendedState


class JobRecord(Struct, frozen=True):
    """Everything about one job. JSON values are not decoded; `errors` is a JSON array."""

    id: JobId
    uuid: UUID
    kind: str
    queue: str
    status: Status
    state: State
    priority: int
    attempts: int
    max_attempts: int
    payload: bytes
    headers: bytes | None
    dedupe_key: str | None
    created_at: datetime
    run_at: datetime
    updated_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    timeout: timedelta | None
    locked_by: str | None
    locked_until: datetime | None
    cancel_requested_at: datetime | None
    progress: bytes | None
    result: bytes | None
    last_error: str | None
    errors: bytes
    group_key: str | None


class JobSummary(Struct, frozen=True):
    id: JobId
    uuid: UUID
    kind: str
    queue: str
    status: Status
    state: State
    priority: int
    attempts: int
    max_attempts: int
    dedupe_key: str | None
    created_at: datetime
    run_at: datetime
    updated_at: datetime
    locked_by: str | None
    last_error: str | None


class JobPage(list[JobSummary]):
    """A page of jobs, newest first. `next_id`: go on below it; None: there are no more.

    A page may be short, or empty, and not be the last one: a filter that few jobs match is looked
    for among so many jobs a call.
    """

    def __init__(self, jobs: Iterable[JobSummary] = (), next_id: JobId | None = None) -> None:
        super().__init__(jobs)
        self.next_id = next_id


class JobState(Struct, frozen=True):
    """Where a job stands, and nothing else of it."""

    job_id: JobId
    queue: str
    state: State
    status: Status


class QueueSettings(Struct, frozen=True):
    """What set_queue has set. None: not set; `paused_at`: not paused."""

    queue: str
    max_attempts: int | None
    timeout: timedelta | None
    lease_for: timedelta | None
    backoff: str | None
    backoff_base: timedelta | None
    backoff_factor: float | None
    backoff_cap: timedelta | None
    backoff_jitter: str | None
    paused_at: datetime | None
    pause_reason: str | None
    max_running: int | None
    rate: int | None
    rate_period: timedelta | None
    group_limit: int | None
    group_rate: int | None
    group_period: timedelta | None
    group_retry: str | None
    fair: bool | None
    age_every: timedelta | None
    max_depth: int | None
    on_full: str | None
    breaker_share: float | None
    breaker_min: int | None
    breaker_window: timedelta | None
    breaker_pause: timedelta | None


class GroupInfo(Struct, frozen=True):
    """A group of a queue. `group_limit`: how many seats it has, None: no limit; `seats`: taken.

    `is_exact`: its blocked jobs were counted to the end. `is_set`: by set_group. `next_since`:
    since when the job is blocked that is next.
    """

    group_key: str
    blocked: int
    is_exact: bool
    seats: int
    group_limit: int | None
    weight: int
    is_set: bool
    next_since: datetime | None


class BreakerInfo(Struct, frozen=True):
    """A kind of job that is held back: of `ended` attempts `failed` did. `held`: up to 10,000.

    `probe_at`: when the next job is let through; `probe_job_id`: the one that runs, `probes`: how
    many failed.
    """

    queue: str
    kind: str
    opened_at: datetime
    probe_at: datetime
    probe_job_id: JobId | None
    probes: int
    held: int
    ended: int
    failed: int
    last_error: str | None


class DeadError(Struct, frozen=True):
    """Dead letters that failed alike. `error`: the line they share, N for numbers.

    `job_ids`: the newest 10 of them.
    """

    error: str
    queue: str
    kind: str
    jobs: int
    first_at: datetime
    last_at: datetime
    job_ids: list[JobId]


class DeadErrors(list[DeadError]):
    """The most frequent first. `others`: dead letters that were not looked at, up to 95,000."""

    def __init__(self, errors: Iterable[DeadError] = (), others: int = 0) -> None:
        super().__init__(errors)
        self.others = others


class TokenInfo(Struct, frozen=True):
    """A token of the HTTP API. `queues`: the only ones it is for; None: all."""

    token_id: int
    name: str
    scopes: list[Scope]
    queues: list[str] | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


class SessionInfo(TokenInfo, frozen=True):
    """The token that a session of the dashboard was opened with, until `ends_at`."""

    ends_at: datetime


class AuditEntry(Struct, frozen=True):
    """What an operator did. `actor` is who was said to act; `db_user`: who was connected.

    `details`: what was given, a JSON object, not decoded.
    """

    audit_id: int
    at: datetime
    actor: str
    db_user: str
    action: str
    target: str | None
    details: bytes | None


class QueueStats(Struct, frozen=True):
    """Counts stop at 100,000 a state, sooner where queues are many; not `is_exact`: one did."""

    queue: str
    paused_at: datetime | None
    pause_reason: str | None
    ready: int
    scheduled: int
    leased: int
    dead: int
    is_exact: bool
    oldest_ready_at: datetime | None
    next_run_at: datetime | None
    blocked: int


class WorkerInfo(Struct, frozen=True):
    """A worker process. `worker`: its name, as in `locked_by`; processes may share one."""

    worker_id: UUID
    worker: str
    host: str
    pid: int
    version: str
    queues: list[str]
    kinds: list[str]
    concurrency: int
    running: int
    started_at: datetime
    beat_at: datetime
    memory_bytes: int | None
    stopping: bool
    is_alive: bool
    drain_requested_at: datetime | None


class Gate(Struct, frozen=True):
    """What holds a job or a queue back, or (not `holds`) what is to be known of it.

    `says`: one sentence. `until`: when it is known to open. `data`: the same as a JSON object.
    """

    gate: str
    holds: bool
    says: str
    until: datetime | None
    data: bytes


class PeekedJob(Struct, frozen=True):
    """A job that a lease would give, and where it is now: ready, scheduled or blocked."""

    job_id: JobId
    kind: str
    priority: int
    group_key: str | None
    state: State


class CancelledJobs(Struct, frozen=True):
    """`asked`: were running, and were asked to stop. `deferred`: were locked, try again.

    `last_id`: go on after it; None: all were looked at.
    """

    cancelled: int
    asked: int
    deferred: int
    last_id: JobId | None


class RedrivenJobs(Struct, frozen=True):
    """`last_id`: go on after it; None: all were looked at."""

    redriven: int
    last_id: JobId | None


class PurgedJobs(Struct, frozen=True):
    """`last_id`: go on after it; None: all were looked at."""

    purged: int
    last_id: JobId | None


class JobCounters(Struct, frozen=True):
    """What has happened from `since` to `tallied_at`; `started`: to now. They never go down."""

    enqueued: int
    started: int
    completed: int
    failed: int
    retried: int
    reaped: int
    dead_letters: int
    cancelled: int
    since: datetime
    tallied_at: datetime


class KindCounters(Struct, frozen=True):
    """The counters of a queue and kind; both are empty for all beyond 1,000 pairs."""

    queue: str
    kind: str
    enqueued: int
    completed: int
    failed: int
    retried: int
    reaped: int
    dead_letters: int
    cancelled: int
    waited: int
    wait_s: float
    run_s: float
    waits: list[int]
    runs: list[int]


class Maintained(Struct, frozen=True):
    task: str
    done: int
    more: bool


class InstalledVersion(Struct, frozen=True):
    version: str
    migration: int
    installed_at: datetime


class ErrorCode(Struct, frozen=True):
    code: str
    name: str
    http_status: int
    description: str
