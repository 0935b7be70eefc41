"""The worker protocol, for languages without a PostgreSQL driver.

A job's `lease_id` is what makes it the caller's, as in SQL: whoever lost the lease is told so and
changes nothing. A token that is for some queues leases from these only, and to it all leases of
others are lost ones.

Each request hands in one object or an array of them. One is answered with the job's new state, or
409; of many, those that were not taken are named, and the others were.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from functools import partial
from typing import Annotated, Any, Final, TypeVar

import psycopg
from aiohttp import web
from msgspec import UNSET, Meta, Raw, Struct

from pybatchq import calls
from pybatchq.api import bodies
from pybatchq.api.answers import answer
from pybatchq.api.decoding import Decoder
from pybatchq.api.errors import MAYBE_STORED, ApiError, as_api_error
from pybatchq.api.models import shown
from pybatchq.api.routes import Call, NoQuery, Route
from pybatchq.api.settling import (
    COMPLETE,
    FAIL,
    PROGRESS,
    RELEASE,
    SNOOZE,
    Settlement,
    ids,
    own,
    own_outcomes,
    span,
)
from pybatchq.api.upkeep import UPKEEP
from pybatchq.api.waiting import WAITING, Want, give_back, lease
from pybatchq.api.work_models import (
    MOST_SETTLED,
    Completion,
    ExtendedLease,
    ExtendedLeases,
    ExtendLeases,
    FailedAttempt,
    Lease,
    LeasedJobs,
    LeaseJobs,
    ProgressReport,
    RefusedLease,
    RefusedLeases,
    SettleAndLease,
    Settled,
    SettledAndLeased,
    Snoozing,
    WorkJob,
    check_json,
)
from pybatchq.calls import Connection
from pybatchq.errors import LeaseLostError
from pybatchq.types import WorkItem

L = TypeVar("L", bound=Lease)
R = TypeVar("R")

SETTLE_S: Final = 10.0
AGAIN: Final = "it may or may not have been done; being asked twice is no error, so ask again"
LEASED_ANYHOW: Final = "jobs that were leased all the same are ready again when their leases end"
LOST: Final = "the lease ran out and was taken back, or the job ended; drop this attempt's result"


async def lease_jobs(call: Call[NoQuery, LeaseJobs]) -> web.Response:
    want = _want(call, call.body)
    items = await _said(LEASED_ANYHOW, lease(call.services, want))
    items = await _or_wait(call, want, items)
    return answer(LeasedJobs(await _jobs(call, items), _next_due(items)))


async def settle_and_lease(call: Call[NoQuery, SettleAndLease]) -> web.Response:
    given, want = call.body, _want(call, call.body)
    for one in given.completed:
        check_json(one.result, "result")

    async def settle(conn: Connection) -> tuple[list[Lease], list[WorkItem]]:
        outcomes, others = await own_outcomes(conn, call.caller, given)
        found = await calls.settle_and_lease(
            conn,
            queues=want.queues,
            n=want.n,
            worker=want.worker,
            lease_for=want.lease_for,
            **outcomes.arguments(),
        )
        return others, found

    others, found = await _said(AGAIN, call.services.db.run(settle, within_s=SETTLE_S))
    items = [item for item in found if item.event in {"leased", "sleep"}]
    refused = _not_theirs(others) + [
        RefusedLease(item.job_id, item.lease_id, item.event)  # type: ignore[arg-type]
        for item in found
        if item.event not in {"leased", "sleep"}
    ]
    if not refused:  # who has to hand something in again is not kept waiting
        items = await _or_wait(call, want, items)
    return answer(SettledAndLeased(await _jobs(call, items), _next_due(items), refused))


async def complete(call: Call[NoQuery, Any]) -> web.Response:
    given = await _given(call, _decode_completions)
    for one in given if isinstance(given, list) else [given]:
        check_json(one.result, "result")
    return await _settle(call, given, COMPLETE)


async def fail(call: Call[NoQuery, Any]) -> web.Response:
    given = await _given(call, _decode_failures)
    return await _settle(call, given, FAIL)


async def release(call: Call[NoQuery, Any]) -> web.Response:
    given = await _given(call, _decode_leases)
    return await _settle(call, given, RELEASE)


async def snooze(call: Call[NoQuery, Any]) -> web.Response:
    given = await _given(call, _decode_snoozings)
    return await _settle(call, given, SNOOZE)


async def progress(call: Call[NoQuery, Any]) -> web.Response:
    given = await _given(call, _decode_reports)
    for one in given if isinstance(given, list) else [given]:
        check_json(one.progress, "progress")
    return await _settle(call, given, PROGRESS)


async def extend(call: Call[NoQuery, ExtendLeases]) -> web.Response:
    given = call.body
    leases = given.the_leases()

    async def beat(conn: Connection) -> list[ExtendedLease]:
        mine, others = await own(conn, call.caller, leases)
        states = [ExtendedLease(one.job_id, one.lease_id, "lost", None) for one in others]
        if mine:
            extended = await calls.extend(conn, **ids(mine), lease_for=span(given.lease_for))
            states += [shown(one, ExtendedLease) for one in extended]
        return states

    states = await _said(AGAIN, call.services.db.run(beat, within_s=SETTLE_S))
    if given.leases is not UNSET:
        return answer(ExtendedLeases(states))
    if states[0].state == "lost":
        raise _lost(leases[0])
    return answer(states[0])


def _want(call: Call[NoQuery, Any], given: LeaseJobs | SettleAndLease) -> Want:
    """What to lease; ApiError 403 for queues that are not the caller's."""
    for queue in given.queues:
        call.caller.check_queue(queue)
    call.request.app[UPKEEP].want()
    return Want(
        tuple(given.queues),
        given.n,
        given.worker,
        span(given.lease_for),
        partial(_has_left, call.request),
    )


def _has_left(request: web.Request) -> bool:
    transport = request.transport
    return transport is None or transport.is_closing()


async def _or_wait(call: Call[NoQuery, Any], want: Want, items: list[WorkItem]) -> list[WorkItem]:
    """What was leased; where that is nothing, what comes while the caller is willing to wait."""
    if call.body.wait and items and items[0].event == "sleep":
        waiting = call.request.app[WAITING]
        items = await _said(LEASED_ANYHOW, waiting.wait(want, call.body.wait))
    if want.has_left():
        await give_back(call.services, items)
    return items


async def _jobs(call: Call[NoQuery, Any], items: Sequence[WorkItem]) -> list[WorkJob]:
    return [
        WorkJob(
            item.job_id,
            item.lease_id,
            round(item.lease_s, 3),
            await call.services.uuid(item.job_id),
            item.queue,
            item.kind,
            item.kind,
            Raw(item.payload),
            item.attempt,
            item.max_attempts,
            item.timeout_s,
            None if item.headers is None else Raw(item.headers),
        )
        for item in items
        if item.event == "leased"
    ]


def _next_due(items: Sequence[WorkItem]) -> float | None:
    return items[0].timeout_s if items and items[0].event == "sleep" else None


async def _given(call: Call[NoQuery, Any], decode: Decoder[Any]) -> Any:
    """One or many, of which each is checked: an array may be as large as a bulk of jobs."""
    bodies.check_type(call.request)
    return decode(await bodies.read(call.request, call.services.settings.max_bulk_body))


async def _settle(call: Call[NoQuery, Any], given: L | list[L], how: Settlement[L]) -> web.Response:
    """Do one or many of the same, as far as they are the caller's."""

    async def one(conn: Connection, lease: L) -> str:
        mine, _ = await own(conn, call.caller, [lease])
        if not mine:
            raise _lost(lease)
        return await how.one(conn, lease)

    async def many(conn: Connection, leases: list[L]) -> list[RefusedLease]:
        mine, others = await own(conn, call.caller, leases)
        refused = await how.many(conn, mine) if mine else []
        return [*_not_theirs(others), *(shown(lease, RefusedLease) for lease in refused)]

    db = call.services.db
    if isinstance(given, list):
        refused = await _said(AGAIN, db.run(lambda conn: many(conn, given), within_s=SETTLE_S))
        return answer(RefusedLeases(refused))
    state = await _said(AGAIN, db.run(lambda conn: one(conn, given)))
    return answer(Settled(given.job_id, given.lease_id, state))


async def _said(hint: str, doing: Awaitable[R]) -> R:
    """What comes of it; where that is not known, what the caller can do about it."""
    try:
        return await doing
    except (ApiError, psycopg.Error) as error:
        known = as_api_error(error)
        if known is None or known.body.hint != MAYBE_STORED:
            raise
        raise known.changed(hint=hint) from error


def _not_theirs(leases: Sequence[Lease]) -> list[RefusedLease]:
    return [RefusedLease(one.job_id, one.lease_id, "lost") for one in leases]


def _lost(one: Lease) -> LeaseLostError:
    """As the database says it."""
    return LeaseLostError(f"lease {one.lease_id} of job {one.job_id} is lost", hint=LOST)


def _one_or_many(struct: type[Struct]) -> Any:
    return struct | Annotated[list[struct], Meta(max_length=MOST_SETTLED)]  # type: ignore[valid-type]


_decode_completions: Final = Decoder(_one_or_many(Completion), of=Completion)
_decode_failures: Final = Decoder(_one_or_many(FailedAttempt), of=FailedAttempt)
_decode_leases: Final = Decoder(_one_or_many(Lease), of=Lease)
_decode_snoozings: Final = Decoder(_one_or_many(Snoozing), of=Snoozing)
_decode_reports: Final = Decoder(_one_or_many(ProgressReport), of=ProgressReport)


def _settling(name: str, handler: Any, struct: type[Struct], summary: str) -> Route:
    return Route(
        method="POST",
        path=f"/work/{name}",
        handler=handler,
        summary=summary,
        scope="work",
        body=_one_or_many(struct),
        body_size="bulk",
        reads_body=True,
        answer=Settled | RefusedLeases,  # type: ignore[arg-type]
        errors=("JQ001", "JQ004"),
        changes=True,
    )


ROUTES = (
    Route(
        method="POST",
        path="/work/lease",
        handler=lease_jobs,
        summary="Take ready jobs; with wait, as soon as there are any",
        scope="work",
        body=LeaseJobs,
        body_may_be_empty=True,
        answer=LeasedJobs,
        errors=("JQ001",),
        changes=True,
    ),
    Route(
        method="POST",
        path="/work/settle-and-lease",
        handler=settle_and_lease,
        summary="A worker's loop in one request: hand in what ended, take what is next",
        scope="work",
        body=SettleAndLease,
        body_size="bulk",
        answer=SettledAndLeased,
        errors=("JQ001",),
        changes=True,
    ),
    _settling("complete", complete, Completion, "One job or an array of them ran well"),
    _settling("fail", fail, FailedAttempt, "One attempt or an array of them failed"),
    _settling("release", release, Lease, "Hand back one job or an array of them, not run"),
    _settling("snooze", snooze, Snoozing, "Put off one job or an array of them"),
    _settling("progress", progress, ProgressReport, "Say how far one job or an array of them is"),
    Route(
        method="POST",
        path="/work/extend",
        handler=extend,
        summary="The heartbeat: renew one lease, or many; says which jobs are to stop",
        scope="work",
        body=ExtendLeases,
        body_size="bulk",
        answer=ExtendedLease | ExtendedLeases,  # type: ignore[arg-type]
        errors=("JQ001", "JQ004"),
        changes=True,
    ),
)
