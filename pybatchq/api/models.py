"""What travels: requests about jobs and their answers.

Their types validate and are what /openapi.json shows. A description completes the sentence
`give …`. JSON values of jobs, payloads above all, are kept as text: nothing is decoded and encoded
again, so every digit of a number stays.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, TypeVar
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from pybatchq.api.decoding import check_depth
from pybatchq.api.errors import ApiError, invalid
from pybatchq.types import State, Status

S = TypeVar("S", bound=Struct)

YEAR_S = 365 * 86_400
# The database's 10 years: to PostgreSQL, which compares intervals, they have months of 30 days.
MOST_DELAY_S = 3_600 * 86_400
MOST_ID = 2**62 - 1
MOST_KEY_BYTES = 1024

Name = Annotated[
    str, Meta(min_length=1, max_length=255, description="a text of 1 to 255 characters")
]
Key = Annotated[str, Meta(min_length=1, max_length=1024, description="a text of 1 to 1024 bytes")]
Priority = Annotated[
    int,
    Meta(ge=-32_768, le=32_767, description="an integer from -32768 to 32767, higher first"),
]
Attempts = Annotated[int, Meta(ge=1, le=32_767, description="an integer from 1 to 32767")]
Time = Annotated[
    datetime,
    Meta(tz=True, description="a time with its zone by RFC 3339, like 2030-01-31T12:00:00Z"),
]
Delay = Annotated[
    float,
    Meta(
        ge=-MOST_DELAY_S,
        le=MOST_DELAY_S,
        description="a number of seconds, at most 3600 days (311040000)",
    ),
]
DedupeFor = Annotated[
    float, Meta(ge=0, le=MOST_DELAY_S, description="a number of seconds from 0 to 3600 days")
]
Timeout = Annotated[
    float, Meta(ge=0.01, le=YEAR_S, description="a number of seconds from 0.01 to 365 days")
]
Wait = Annotated[float, Meta(ge=0, le=YEAR_S, description="a number of seconds from 0 to 365 days")]
Factor = Annotated[float, Meta(ge=1, le=100, description="a number from 1 to 100")]
Reason = Annotated[str, Meta(max_length=1000, description="a text of at most 1000 characters")]
Step = Annotated[int, Meta(ge=1, le=100_000, description="a number from 1 to 100000")]
Cursor = Annotated[
    str, Meta(pattern="^[0-9A-Za-z_-]+$", description="next_cursor of the answer before")
]
Id = Annotated[int, Meta(ge=0, le=MOST_ID)]
Ids = Annotated[list[Id], Meta(min_length=1, max_length=10_000, description="1 to 10000 job ids")]
PayloadJson = Annotated[Raw, Meta(description="any JSON value but null, at most 1 MiB")]
HeadersJson = Annotated[Raw, Meta(description="a JSON object of at most 64 KiB")]


class NewJob(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A job to enqueue. `kind` or `type` is required; `run_at` and `available_at` are one."""

    kind: Name | UnsetType = UNSET
    type: Name | UnsetType = UNSET
    payload: PayloadJson | UnsetType = UNSET
    queue: Name | UnsetType = UNSET
    priority: Priority | UnsetType = UNSET
    run_at: Time | UnsetType = UNSET
    available_at: Time | UnsetType = UNSET
    delay: Delay | UnsetType = UNSET
    max_attempts: Attempts | UnsetType = UNSET
    timeout: Timeout | UnsetType = UNSET
    backoff: Literal["exponential", "fixed"] | UnsetType = UNSET
    backoff_base: Wait | UnsetType = UNSET
    backoff_factor: Factor | UnsetType = UNSET
    backoff_cap: Wait | UnsetType = UNSET
    backoff_jitter: Literal["full", "none"] | UnsetType = UNSET
    dedupe_key: Key | UnsetType = UNSET
    dedupe_scope: Literal["unfinished", "pending"] | UnsetType = UNSET
    dedupe_for: DedupeFor | UnsetType = UNSET
    on_duplicate: Literal["return", "replace"] | UnsetType = UNSET
    headers: HeadersJson | UnsetType = UNSET
    group_key: Name | UnsetType = UNSET

    def check(self) -> None:
        """Make synonyms one, and refuse what no type can: ApiError 400."""
        if self.type is not UNSET:
            if self.kind is not UNSET and self.kind != self.type:
                raise _differ("kind", "type")
            self.kind, self.type = self.type, UNSET
        if self.kind is UNSET:
            raise invalid("kind: this field is required", hint="kind (or type) names a handler")
        if self.available_at is not UNSET:
            if self.run_at is not UNSET and self.run_at != self.available_at:
                raise _differ("run_at", "available_at")
            self.run_at, self.available_at = self.available_at, UNSET
        if self.payload is not UNSET:
            text = bytes(self.payload)
            check_depth(text)
            if text.strip() == b"null":
                raise invalid("payload: it is null", hint="leave it out, or give another value")
        if self.headers is not UNSET:
            text = bytes(self.headers)
            check_depth(text)
            if not text.lstrip().startswith(b"{"):
                raise invalid("headers: expected object", hint="give a JSON object")
        self._check_options()

    def _check_options(self) -> None:
        """Fields that go together, or do not; the database would say the same.

        Times become UTC, and spans whole microseconds: it takes no offsets of 16 hours, and no
        numbers of 300 places.
        """
        if self.run_at is not UNSET:
            self.run_at = utc(self.run_at)
        for name in SPANS:
            span = getattr(self, name)
            if span is not UNSET:
                setattr(self, name, round(span, 6))
        if self.delay is not UNSET and self.run_at is not UNSET:
            raise invalid("run_at and delay are both given", hint="give run_at or delay")
        if self.dedupe_key is UNSET:
            given = (self.dedupe_scope, self.dedupe_for, self.on_duplicate)
            if any(value is not UNSET for value in given):
                raise invalid("dedupe_key: this field is required by those that go with it")
        elif len(self.dedupe_key.encode()) > MOST_KEY_BYTES:
            raise invalid("dedupe_key: it is too long", hint=f"give 1 to {MOST_KEY_BYTES} bytes")

    @property
    def queue_name(self) -> str:
        return "default" if self.queue is UNSET else self.queue


class NewJobs(Struct, forbid_unknown_fields=True):
    """Jobs to enqueue, all or none. The bare array is taken as well."""

    jobs: list[NewJob]


SPANS = ("delay", "timeout", "backoff_base", "backoff_cap", "dedupe_for")

encode_spec = msgspec.json.Encoder().encode
"""A checked NewJob as what enqueue_many takes: its fields have the same names."""


class AcceptedJob(Struct, frozen=True, omit_defaults=True):
    """`duplicate`: another job holds the key, and this is that job's id."""

    id: int
    uuid: UUID
    duplicate: bool = False


class BulkJob(Struct, frozen=True):
    """One of many, in the order of the input."""

    id: int
    uuid: UUID
    duplicate: bool


class BulkAccepted(Struct, frozen=True):
    jobs: list[BulkJob]


class StreamAccepted(Struct, frozen=True):
    """Of a stream of lines: how many were taken, and how many of these were duplicates."""

    taken: int
    duplicates: int


class Failure(Struct, frozen=True):
    """An attempt that failed."""

    attempt: int
    failed_at: datetime
    error: str | None
    worker: str | None


class Job(Struct, frozen=True):
    """Everything about a job. `type` is `kind`, `available_at` is `run_at`."""

    id: int
    uuid: UUID
    kind: str
    type: str
    queue: str
    status: Status
    state: State
    priority: int
    attempts: int
    max_attempts: int
    payload: Raw
    headers: Raw | None
    dedupe_key: str | None
    created_at: datetime
    run_at: datetime
    available_at: datetime
    updated_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    timeout: float | None
    locked_by: str | None
    locked_until: datetime | None
    cancel_requested_at: datetime | None
    progress: Raw | None
    result: Raw | None
    last_error: str | None
    errors: Annotated[Raw, Meta(extra={"schema_of": list[Failure]})]
    group_key: str | None


class ListedJob(Struct, frozen=True):
    """The short form of a job in a list."""

    id: int
    uuid: UUID
    kind: str
    type: str
    queue: str
    status: Status
    state: State
    priority: int
    attempts: int
    max_attempts: int
    dedupe_key: str | None
    created_at: datetime
    run_at: datetime
    available_at: datetime
    updated_at: datetime
    locked_by: str | None
    last_error: str | None


class JobPage(Struct, frozen=True):
    """`next_cursor` is null at the end, and only there.

    A page may be short, or empty, before that: a filter that few jobs match is looked for among so
    many jobs a page.
    """

    jobs: list[ListedJob]
    next_cursor: str | None


class ListQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Filters of GET /jobs: all that are given have to match."""

    status: (
        Literal["pending", "running", "processing", "completed", "failed", "cancelled"] | None
    ) = None
    state: State | None = None
    kind: Name | None = None
    type: Name | None = None
    queue: Name | None = None
    dedupe_key: Key | None = None
    created_after: Time | None = None
    created_before: Time | None = None
    limit: Annotated[int, Meta(ge=1, le=500, description="a number from 1 to 500")] = 50
    cursor: Annotated[str, Meta(description="next_cursor of the page before")] | None = None


class JobQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """`wait`: answer once the job has ended, or after so long, like `30s`."""

    wait: Annotated[str, Meta(description="a time of up to 60s, like 30s or 500ms")] | None = None


class CancelJob(Struct, frozen=True, forbid_unknown_fields=True):
    """`reason` is kept with the job."""

    reason: Reason | None = None


class CancelJobs(Struct, frozen=True, forbid_unknown_fields=True):
    """Cancel those that match all that is given, `limit` of them at a time."""

    ids: Ids | None = None
    queue: Name | None = None
    kind: Name | None = None
    type: Name | None = None
    state: (
        Literal["pending", "running", "processing", "scheduled", "ready", "blocked", "leased"]
        | None
    ) = None
    created_after: Time | None = None
    created_before: Time | None = None
    reason: Reason | None = None
    limit: Step = 1_000
    cursor: Cursor | None = None
    dry_run: bool = False


class CancelledJobs(Struct, frozen=True):
    """`asked`: were running, and were asked to stop. `deferred`: were held; try these again.

    `more`: ask again, with `next_cursor` as `cursor`, there may be others. Where it is null, begin
    again: those are the ones that were held.
    """

    cancelled: int
    asked: int
    deferred: int
    more: bool
    next_cursor: str | None


class ChangedJob(Struct, frozen=True):
    """What became of a job that was to be cancelled or tried again."""

    id: int
    uuid: UUID
    status: Status


SYNONYMS = {"type": "kind", "available_at": "run_at"}


def shown(record: Struct, struct: type[S]) -> S:
    """A record of `pybatchq.types` as one to send: fields by name, synonyms beside them."""
    names = struct.__struct_fields__
    return struct(*[_wire(getattr(record, SYNONYMS.get(name, name))) for name in names])


def _wire(value: Any) -> Any:
    """Stored JSON as it is stored, times in UTC, durations in seconds."""
    match value:
        case bytes():
            return Raw(value)
        case datetime():
            return utc(value)
        case timedelta():
            return value.total_seconds()
    return value


def utc(at: datetime) -> datetime:
    try:
        return at.astimezone(UTC)
    except OverflowError:  # at either end of the calendar
        return at.replace(tzinfo=UTC)


def one_of(kind: str | None, synonym: str | None) -> str | None:
    """A filter by `kind` or `type`; ApiError 400 if they differ."""
    if kind is not None and synonym is not None and kind != synonym:
        raise _differ("kind", "type")
    return synonym if kind is None else kind


def _differ(name: str, synonym: str) -> ApiError:
    return invalid(
        f"{name} and {synonym} differ", hint=f"they are one value: give {name} or {synonym}"
    )
