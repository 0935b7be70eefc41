"""What is set for queues and groups, as it travels. Names and bounds are those of set_queue."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from pybatchq.api.models import YEAR_S, Attempts, Factor, Timeout, Wait
from pybatchq.api.work_models import LeaseFor

MONTH_S = 30 * 86_400

Backoff = Literal["exponential", "fixed"]
Jitter = Literal["full", "none"]
GroupRetry = Literal["hold", "yield"]
OnFull = Literal["refuse", "delay"]
Count = Annotated[int, Meta(ge=0, le=1_000_000, description="an integer from 0 to 1000000")]
GroupCount = Annotated[int, Meta(ge=0, le=10_000, description="an integer from 0 to 10000")]
Weight = Annotated[int, Meta(ge=1, le=1_000, description="an integer from 1 to 1000")]
Period = Annotated[
    float, Meta(ge=0.1, le=MONTH_S, description="a number of seconds from 0.1 to 30 days")
]
AgeEvery = Annotated[
    float, Meta(ge=1, le=YEAR_S, description="a number of seconds from 1 to 365 days")
]
MaxDepth = Annotated[int, Meta(ge=1, le=100_000, description="an integer from 1 to 100000")]
Share = Annotated[float, Meta(gt=0, le=1, description="a number above 0, up to 1")]
BreakerMin = Annotated[int, Meta(ge=1, le=1_000, description="an integer from 1 to 1000")]
BreakerWindow = Annotated[
    float, Meta(ge=1, le=3_600, description="a number of seconds from 1 to 3600")
]
BreakerPause = Annotated[
    float, Meta(ge=1, le=86_400, description="a number of seconds from 1 to 86400")
]
Setting = Literal[
    "max_attempts", "timeout", "lease_for", "backoff", "backoff_base", "backoff_factor",
    "backoff_cap", "backoff_jitter", "max_running", "rate", "rate_period", "group_limit",
    "group_rate", "group_period", "group_retry", "fair", "age_every", "max_depth", "on_full",
    "breaker_share", "breaker_min", "breaker_window", "breaker_pause",
]  # fmt: skip
Clear = Annotated[list[Setting], Meta(description="a list of names of settings")]


class SetQueue(Struct, frozen=True, forbid_unknown_fields=True):
    """What a queue's jobs, leases and retries have unless they say otherwise; null: not set.

    And its limits: how many of its jobs run, start and wait, in all and by group; and when a kind
    that fails is held back.
    """

    max_attempts: Attempts | None = None
    timeout: Timeout | None = None
    lease_for: LeaseFor | None = None
    backoff: Backoff | None = None
    backoff_base: Wait | None = None
    backoff_factor: Factor | None = None
    backoff_cap: Wait | None = None
    backoff_jitter: Jitter | None = None
    max_running: Count | None = None
    rate: Count | None = None
    rate_period: Period | None = None
    group_limit: GroupCount | None = None
    group_rate: GroupCount | None = None
    group_period: Period | None = None
    group_retry: GroupRetry | None = None
    fair: bool | None = None
    age_every: AgeEvery | None = None
    max_depth: MaxDepth | None = None
    on_full: OnFull | None = None
    breaker_share: Share | None = None
    breaker_min: BreakerMin | None = None
    breaker_window: BreakerWindow | None = None
    breaker_pause: BreakerPause | None = None


class ChangeQueue(Struct, frozen=True, forbid_unknown_fields=True):
    """As SetQueue; what is left out stays as it is. `clear` sets those it names to null, too."""

    max_attempts: Attempts | UnsetType | None = UNSET
    timeout: Timeout | UnsetType | None = UNSET
    lease_for: LeaseFor | UnsetType | None = UNSET
    backoff: Backoff | UnsetType | None = UNSET
    backoff_base: Wait | UnsetType | None = UNSET
    backoff_factor: Factor | UnsetType | None = UNSET
    backoff_cap: Wait | UnsetType | None = UNSET
    backoff_jitter: Jitter | UnsetType | None = UNSET
    max_running: Count | UnsetType | None = UNSET
    rate: Count | UnsetType | None = UNSET
    rate_period: Period | UnsetType | None = UNSET
    group_limit: GroupCount | UnsetType | None = UNSET
    group_rate: GroupCount | UnsetType | None = UNSET
    group_period: Period | UnsetType | None = UNSET
    group_retry: GroupRetry | UnsetType | None = UNSET
    fair: bool | UnsetType | None = UNSET
    age_every: AgeEvery | UnsetType | None = UNSET
    max_depth: MaxDepth | UnsetType | None = UNSET
    on_full: OnFull | UnsetType | None = UNSET
    breaker_share: Share | UnsetType | None = UNSET
    breaker_min: BreakerMin | UnsetType | None = UNSET
    breaker_window: BreakerWindow | UnsetType | None = UNSET
    breaker_pause: BreakerPause | UnsetType | None = UNSET
    clear: Clear = []


class SetGroup(Struct, frozen=True, forbid_unknown_fields=True):
    """What is different for one group of a queue; null: nothing.

    `group_limit`: in place of the queue's. `weight`: where groups take turns.
    """

    group_limit: GroupCount | None = None
    weight: Weight | None = None
