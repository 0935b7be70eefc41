"""What workers hand in, as calls: one or many, and only what is theirs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Generic, TypeVar

from msgspec import UNSET, Raw, UnsetType

from pybatchq import calls
from pybatchq.api.auth import Caller
from pybatchq.api.work_models import (
    Completion,
    FailedAttempt,
    Lease,
    ProgressReport,
    SettleAndLease,
    Snoozing,
)
from pybatchq.calls import Connection
from pybatchq.outcomes import Outcomes
from pybatchq.types import LostLease

L = TypeVar("L", bound=Lease)

LOOKED_UP: Final = 1_000


@dataclass(frozen=True, slots=True)
class Settlement(Generic[L]):
    """How to do it with one, for its new state; and with many, for those not taken."""

    one: Callable[[Connection, L], Awaitable[str]]
    many: Callable[[Connection, list[L]], Awaitable[list[LostLease]]]


async def own(conn: Connection, caller: Caller, leases: Sequence[L]) -> tuple[list[L], list[L]]:
    """Those of the caller's queues, and the others.

    The queue of a job never changes, so a look before the call is as good as one in it.
    """
    if caller.queues is None or not leases:
        return list(leases), []
    queues: dict[int, str] = {}
    ids = list({one.job_id for one in leases})
    for at in range(0, len(ids), LOOKED_UP):
        found = await calls.job_states(conn, job_ids=ids[at : at + LOOKED_UP])
        queues.update((job.job_id, job.queue) for job in found)
    yes = [one for one in leases if caller.may_use(queues.get(one.job_id, ""))]
    return yes, [one for one in leases if not caller.may_use(queues.get(one.job_id, ""))]


async def own_outcomes(
    conn: Connection, caller: Caller, given: SettleAndLease
) -> tuple[Outcomes, list[Lease]]:
    """What settle_and_lease is to settle, and what of it is not the caller's."""
    completed, not_one = await own(conn, caller, given.completed)
    failed, not_two = await own(conn, caller, given.failed)
    released, not_three = await own(conn, caller, given.released)
    outcomes = Outcomes(
        [(one.job_id, one.lease_id, _text(one.result)) for one in completed],
        [
            (one.job_id, one.lease_id, one.error, one.permanent, span(one.retry_in))
            for one in failed
        ],
        [(one.job_id, one.lease_id, span(one.delay)) for one in released],
    )
    return outcomes, [*not_one, *not_two, *not_three]


async def _complete(conn: Connection, one: Completion) -> str:
    return await calls.complete(conn, **_id(one), result=_raw(one.result))


async def _complete_many(conn: Connection, some: list[Completion]) -> list[LostLease]:
    return await calls.complete_many(conn, **ids(some), results=[_raw(one.result) for one in some])


async def _fail(conn: Connection, one: FailedAttempt) -> str:
    return await calls.fail(
        conn, **_id(one), error=one.error, permanent=one.permanent, retry_in=span(one.retry_in)
    )


async def _fail_many(conn: Connection, some: list[FailedAttempt]) -> list[LostLease]:
    return await calls.fail_many(
        conn,
        **ids(some),
        errors=[one.error for one in some],
        permanents=[one.permanent for one in some],
        retry_ins=[span(one.retry_in) for one in some],
    )


async def _release(conn: Connection, one: Lease) -> str:
    return await calls.release(conn, **_id(one))


async def _release_many(conn: Connection, some: list[Lease]) -> list[LostLease]:
    return await calls.release_many(conn, **ids(some))


async def _snooze(conn: Connection, one: Snoozing) -> str:
    return await calls.snooze(conn, **_id(one), delay=timedelta(seconds=one.delay))


async def _snooze_many(conn: Connection, some: list[Snoozing]) -> list[LostLease]:
    return await calls.snooze_many(conn, **ids(some), delays=[span(one.delay) for one in some])


async def _progress(conn: Connection, one: ProgressReport) -> str:
    await calls.progress(conn, **_id(one), progress=one.progress)
    return "leased"


async def _progress_many(conn: Connection, some: list[ProgressReport]) -> list[LostLease]:
    return await calls.progress_many(conn, **ids(some), progress=[one.progress for one in some])


def _id(one: Lease) -> dict[str, int]:
    return {"job_id": one.job_id, "lease_id": one.lease_id}


def ids(some: Sequence[Lease]) -> dict[str, Any]:
    return {
        "job_ids": [one.job_id for one in some],
        "lease_ids": [one.lease_id for one in some],
    }


def _raw(value: Raw | UnsetType) -> Raw | None:
    return None if value is UNSET else value


def _text(value: Raw | UnsetType) -> str | None:
    return None if value is UNSET else bytes(value).decode()


def span(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)


COMPLETE: Final = Settlement(_complete, _complete_many)
FAIL: Final = Settlement(_fail, _fail_many)
RELEASE: Final = Settlement(_release, _release_many)
SNOOZE: Final = Settlement(_snooze, _snooze_many)
PROGRESS: Final = Settlement(_progress, _progress_many)
