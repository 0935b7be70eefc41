"""What the model of model.py knows of a job and of a queue. Times and spans in microseconds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

SECOND = 1_000_000
LIVE = ("ready", "scheduled", "blocked", "leased")
LIMITS = (
    "max_running", "rate", "rate_period", "group_limit", "group_rate", "group_period",
    "group_retry", "fair", "max_depth", "on_full",
)  # fmt: skip


@dataclass(slots=True)
class Policy:
    """Backoff as a job or a queue sets it; None is not set."""

    backoff: str | None = None
    backoff_base: int | None = None
    backoff_factor: int | None = None
    backoff_cap: int | None = None
    backoff_jitter: str | None = None


@dataclass(slots=True)
class Queue:
    max_attempts: int | None = None
    timeout: int | None = None
    lease_for: int | None = None
    policy: Policy = field(default_factory=Policy)
    paused: bool = False
    max_running: int | None = None
    rate: int | None = None
    rate_period: int | None = None
    group_limit: int | None = None
    group_rate: int | None = None
    group_period: int | None = None
    group_retry: str | None = None
    fair: bool | None = None
    max_depth: int | None = None
    on_full: str | None = None
    missing: int = 0  # permits that jobs leased before there was a cap did not bring back
    permits: list[int] = field(default_factory=list)  # to start: from when on each may be used

    @property
    def grouped(self) -> bool:
        return self.group_limit is not None or self.group_rate is not None or bool(self.fair)

    @property
    def limited(self) -> bool:
        return self.grouped or self.max_running is not None or self.rate is not None

    @property
    def paced(self) -> bool:
        return self.group_rate is not None

    @property
    def takes_turns(self) -> bool:
        """A seat is given back by the start, not by the end."""
        return self.group_limit is None and bool(self.fair)

    @property
    def holds(self) -> bool:
        """A job that waits for its retry keeps its seat."""
        return (self.group_retry or ("hold" if self.group_limit == 1 else "yield")) == "hold"

    @property
    def period(self) -> int:
        return SECOND if self.rate_period is None else self.rate_period


@dataclass(slots=True)
class Group:
    """What set_group said."""

    group_limit: int | None = None
    weight: int | None = None


@dataclass(slots=True)
class Hold:
    job_id: int
    until: int | None


@dataclass(slots=True)
class Job:
    id: int
    queue: str
    priority: int
    max_attempts: int
    timeout: int | None
    dedupe_key: str | None
    keyed: bool
    policy: Policy
    payload: Any
    run_at: int
    group_key: str | None = None
    state: str = "ready"
    attempts: int = 0
    place: int = 0
    first_place: int = 0
    created_at: int = 0
    first_priority: int = 0  # shown once it is over
    ready_at: int | None = None
    due: int | None = None
    due_from: int = 0  # where due is None: a drawn wait of at least so long
    due_within: int = 0  # and at most so long
    runs_when_due: bool = False  # and run_at was drawn with it
    lease_id: int | None = None
    lease_until: int | None = None
    leased_at: int = 0
    worker: str | None = None
    stopping: bool = False
    reason: str | None = None
    progress: Any = None
    result: Any = None
    errors: list[str] = field(default_factory=list)
    # flow control
    waits: bool = False  # for the turns of its group
    rank: int = 0
    seat: bool = False
    start: bool = False  # has a permit of its group to start, not used yet
    permit: bool = False

    @property
    def deadline(self) -> int | None:
        return None if self.timeout is None else self.leased_at + self.timeout

    def shown_run_at(self) -> int | None:
        match self.state:
            case "ready":
                return self.run_at if self.ready_at is None else self.ready_at
            case "scheduled":
                return self.due
            case _:
                return self.run_at
