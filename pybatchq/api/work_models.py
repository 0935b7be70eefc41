"""What travels between the API and workers that speak HTTP; see models for the rest."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from msgspec import UNSET, Meta, Raw, Struct, UnsetType, field

from pybatchq.api.decoding import check_depth
from pybatchq.api.errors import ApiError, invalid
from pybatchq.api.models import Delay, Name
from pybatchq.types import ExtendedState, LostReason

MOST_WAIT_S = 30.0
# So that an answer of the largest payloads there are still fits into memory.
MOST_LEASED = 100
MOST_SETTLED = 10_000

Id = Annotated[int, Meta(ge=0, le=2**63 - 1, description="the number that came with the lease")]
Queues = Annotated[
    list[Name],
    Meta(min_length=1, max_length=100, description="1 to 100 names, in order of preference"),
]
Worker = Annotated[str, Meta(max_length=255, description="a text of at most 255 characters")]
LeaseFor = Annotated[
    float, Meta(ge=0.1, le=86_400, description="a number of seconds from 0.1 to 86400")
]
WaitFor = Annotated[
    float, Meta(ge=0, le=MOST_WAIT_S, description="a number of seconds from 0 to 30")
]
HowMany = Annotated[int, Meta(ge=1, le=MOST_LEASED, description="a number from 1 to 100")]
Count = Annotated[int, Meta(ge=0, le=2**31 - 1, description="a number from 0")]
Names = Annotated[list[Name], Meta(max_length=1000, description="up to 1000 names")]
ResultJson = Annotated[Raw, Meta(description="any JSON value of at most 1 MiB")]
ProgressJson = Annotated[Raw, Meta(description="any JSON value of at most 64 KiB")]


class LeaseJobs(Struct, frozen=True, forbid_unknown_fields=True):
    """Take up to `n` ready jobs. `wait`: where there are none, answer once there is one.

    `worker` is a name for people to read. `lease_for`: how long the jobs are the caller's.
    """

    queues: Queues = field(default_factory=lambda: ["default"])
    n: HowMany = 1
    worker: Worker | None = None
    lease_for: LeaseFor | None = None
    wait: WaitFor = 0


class WorkJob(Struct, frozen=True):
    """A job to run, for `lease_for` seconds from now: extend it before a third of them is over."""

    job_id: int
    lease_id: int
    lease_for: float
    uuid: UUID
    queue: str
    kind: str
    type: str
    payload: Raw
    attempt: int
    max_attempts: int
    timeout: float | None
    headers: Raw | None


class LeasedJobs(Struct, frozen=True):
    """`next_due`: there are none, and the next scheduled job is due in so many seconds."""

    jobs: list[WorkJob]
    next_due: float | None


class Lease(Struct, frozen=True, forbid_unknown_fields=True):
    """What a job was leased by."""

    job_id: Id
    lease_id: Id


class Completion(Lease, frozen=True, forbid_unknown_fields=True):
    """The job ran well."""

    result: ResultJson | UnsetType = UNSET


class FailedAttempt(Lease, frozen=True, forbid_unknown_fields=True):
    """The attempt failed. `permanent`: it is the last; `retry_in`: instead of the backoff."""

    error: Annotated[str, Meta(description="a text; its head and tail are kept")]
    permanent: bool = False
    retry_in: Delay | None = None


class Snoozing(Lease, frozen=True, forbid_unknown_fields=True):
    """The job is to be run later; the attempt does not count."""

    delay: Delay


class Release(Lease, frozen=True, forbid_unknown_fields=True):
    """The job was not run; the attempt does not count. `delay`: it is to be run later."""

    delay: Delay | None = None


class ProgressReport(Lease, frozen=True, forbid_unknown_fields=True):
    """How far the job has come."""

    progress: ProgressJson


class ExtendLeases(Struct, frozen=True, forbid_unknown_fields=True):
    """One lease by `job_id` and `lease_id`, or many as `leases`; `lease_for` from now."""

    job_id: Id | UnsetType = UNSET
    lease_id: Id | UnsetType = UNSET
    leases: (
        Annotated[list[Lease], Meta(max_length=MOST_SETTLED, description="up to 10000 leases")]
        | UnsetType
    ) = UNSET
    lease_for: LeaseFor | None = None

    def the_leases(self) -> list[Lease]:
        """ApiError 400 if both forms are given, or neither is."""
        if self.leases is not UNSET:
            if self.job_id is not UNSET or self.lease_id is not UNSET:
                raise invalid("leases: job_id or lease_id is given as well", hint=_ONE_FORM)
            return self.leases
        if self.job_id is UNSET or self.lease_id is UNSET:
            missing = "job_id" if self.job_id is UNSET else "lease_id"
            raise invalid(f"{missing}: this field is required", hint=_ONE_FORM)
        return [Lease(self.job_id, self.lease_id)]


_ONE_FORM = "give job_id and lease_id, or leases"


class SettleAndLease(Struct, frozen=True, forbid_unknown_fields=True):
    """A worker's loop in one request: hand in what ended, take the next.

    `n` 0 takes none. `released` with a `delay` is put off. Otherwise as for the single requests.
    """

    queues: Queues = field(default_factory=lambda: ["default"])
    n: Annotated[int, Meta(ge=0, le=MOST_LEASED, description="a number from 0 to 100")] = 1
    worker: Worker | None = None
    lease_for: LeaseFor | None = None
    wait: WaitFor = 0
    completed: Annotated[list[Completion], Meta(max_length=MOST_SETTLED)] = []
    failed: Annotated[list[FailedAttempt], Meta(max_length=MOST_SETTLED)] = []
    released: Annotated[list[Release], Meta(max_length=MOST_SETTLED)] = []


class Settled(Struct, frozen=True):
    """Where the job is now."""

    job_id: int
    lease_id: int
    state: str


class RefusedLease(Struct, frozen=True):
    """`lost`: no longer yours. `deferred`: held just now, hand it in again.

    `too_large`: its result is over 1 MiB, and the job is still leased.
    """

    job_id: int
    lease_id: int
    reason: LostReason


class RefusedLeases(Struct, frozen=True):
    """Of many, those that were not taken; the others were."""

    refused: list[RefusedLease]


class SettledAndLeased(Struct, frozen=True):
    """`refused`: of what was handed in, what was not taken. See LeasedJobs for the rest."""

    jobs: list[WorkJob]
    next_due: float | None
    refused: list[RefusedLease]


class ExtendedLease(Struct, frozen=True):
    """`cancelled`: extended, and the job is to stop. `timed_out`: its time is over: stop.

    `lost`: no longer yours: stop. `deferred`: held just now, try again.
    """

    job_id: int
    lease_id: int
    state: ExtendedState
    lease_until: datetime | None


class ExtendedLeases(Struct, frozen=True):
    """In no particular order."""

    leases: list[ExtendedLease]


class TellWorker(Struct, frozen=True, forbid_unknown_fields=True):
    """That a worker is there, to be said every 30 s; for people to look at, and nothing else."""

    worker: Name
    host: Name
    pid: Count = 0
    version: Name = "unknown"
    queues: Names = field(default_factory=lambda: ["default"])
    kinds: Names = []
    concurrency: Count = 1
    running: Count = 0
    memory_bytes: Annotated[int, Meta(ge=0, le=2**63 - 1, description="a number from 0")] | None = (
        None
    )
    stopping: bool = False


def check_json(value: Raw | UnsetType, name: str) -> None:
    """ApiError 400, naming the field, if sound JSON is nested too deep."""
    if value is not UNSET:
        try:
            check_depth(bytes(value))
        except ApiError as error:
            raise error.changed(message=f"{name}: {error.body.message}") from None
