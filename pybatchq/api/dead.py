"""Dead letters: why they are dead, putting them back, forgetting them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final

from aiohttp import web
from msgspec import UNSET, Meta, Struct, UnsetType

from pybatchq import calls
from pybatchq.api.answers import answer
from pybatchq.api.auth import Caller
from pybatchq.api.errors import invalid, refused
from pybatchq.api.models import Ids, Name, Step, Time, one_of, shown
from pybatchq.api.routes import Call, Route
from pybatchq.calls import Connection
from pybatchq.errors import JobNotFoundError

STEP: Final = 1_000
MOST_COUNTED: Final = 100_000
STEP_S: Final = 30.0

Rate = Annotated[float, Meta(ge=0.001, le=1_000_000, description="a number from 0.001 to 1000000")]


class DeadQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Filters of GET /dead: all that are given have to match."""

    queue: Name | UnsetType = UNSET
    kind: Name | UnsetType = UNSET
    type: Name | UnsetType = UNSET
    limit: Annotated[int, Meta(ge=1, le=1000, description="a number from 1 to 1000")] = 100


class DeadGroup(Struct, frozen=True):
    """Dead letters that failed alike.

    `error`: the first line of their last error, with N for numbers and … for quoted text.
    `job_ids`: the newest 10 of them.
    """

    error: str
    queue: str
    kind: str
    type: str
    jobs: int
    first_at: datetime
    last_at: datetime
    job_ids: list[int]


class DeadGroups(Struct, frozen=True):
    """The most frequent first. No more than the newest 100,000 dead letters are looked at."""

    errors: list[DeadGroup]


class RedriveDead(Struct, frozen=True, forbid_unknown_fields=True):
    """Put back the dead letters that match all that is given, `limit` of them at a time.

    `failed_before`: by default now, so that none is put back twice. `per_second`: start no more
    than so many a second. `dry_run`: only count, up to 100,000.
    """

    ids: Ids | None = None
    queue: Name | None = None
    kind: Name | None = None
    type: Name | None = None
    failed_after: Time | None = None
    failed_before: Time | None = None
    per_second: Rate | None = None
    limit: Step | None = None
    dry_run: bool = False


class RedrivenDead(Struct, frozen=True):
    """`redriven`: how many were put back, or would be. `more`: there may be others.

    Ask for those with `failed_before` as it is here, after `pause` seconds where there is a rate.
    """

    redriven: int
    more: bool
    failed_before: datetime | None
    pause: float


class PurgeDead(Struct, frozen=True, forbid_unknown_fields=True):
    """Forget the dead letters that match all that is given, `limit` of them at a time.

    What is forgotten is gone, so something has to be given; `all` is every one there is.
    `dry_run`: only count, up to 100,000.
    """

    ids: Ids | None = None
    queue: Name | None = None
    kind: Name | None = None
    type: Name | None = None
    failed_before: Time | None = None
    all: bool = False
    limit: Step | None = None
    dry_run: bool = False


class PurgedDead(Struct, frozen=True):
    """`purged`: how many were forgotten, or would be. `more`: ask again, there may be others."""

    purged: int
    more: bool


async def list_errors(call: Call[DeadQuery, None]) -> web.Response:
    query = call.query
    queue, kind, type_ = _given(query.queue), _given(query.kind), _given(query.type)
    found = await call.services.db.run(
        lambda conn: calls.list_errors(
            conn,
            queue=_queue(call.caller, queue),
            kind=one_of(kind, type_),
            n=query.limit,
        ),
        within_s=STEP_S,
    )
    return answer(DeadGroups([shown(group, DeadGroup) for group in found]))


async def redrive(call: Call[Any, RedriveDead]) -> web.Response:
    given, limit = call.body, _limit(call.body)
    kind = one_of(given.kind, given.type)
    queue = _filter(call.caller, given.queue, given.ids)

    async def work(conn: Connection) -> tuple[int, datetime | None]:
        await _check_own(conn, call.caller, given.ids)
        before = given.failed_before
        if before is None and given.ids is None:
            before = await calls.now(conn)
        n = await calls.redrive(
            conn,
            job_ids=given.ids,
            queue=queue,
            kind=kind,
            failed_after=given.failed_after,
            failed_before=before,
            n=limit,
            per_second=given.per_second,
            dry_run=given.dry_run,
        )
        return n, before

    n, before = await call.services.db.run(work, within_s=STEP_S)
    pause = 0.0 if given.per_second is None or given.dry_run else n / given.per_second
    return answer(RedrivenDead(n, n >= limit, before, pause))


async def purge(call: Call[Any, PurgeDead]) -> web.Response:
    given, limit = call.body, _limit(call.body)
    kind = one_of(given.kind, given.type)
    filters = (given.ids, given.queue, kind, given.failed_before)
    if given.all == any(value is not None for value in filters):
        message = "all: filters are given as well" if given.all else "no dead letters are named"
        raise invalid(message, hint="give ids or filters, or all for every one there is")
    queue = _filter(call.caller, given.queue, given.ids)

    async def work(conn: Connection) -> int:
        await _check_own(conn, call.caller, given.ids)
        return await calls.purge(
            conn,
            job_ids=given.ids,
            queue=queue,
            kind=kind,
            finished_before=given.failed_before,
            n=limit,
            dry_run=given.dry_run,
        )

    n = await call.services.db.run(work, within_s=STEP_S)
    return answer(PurgedDead(n, n >= limit))


def _given(value: str | UnsetType) -> str | None:
    """A parameter may be the word null, which is a name like any other."""
    return None if value is UNSET else value


def _limit(given: RedriveDead | PurgeDead) -> int:
    """How many at most; what counts only, or names its jobs, is one step."""
    if given.limit is not None:
        return given.limit
    if given.dry_run:
        return MOST_COUNTED
    return STEP if given.ids is None else max(STEP, len(given.ids))


def _queue(caller: Caller, given: str | None) -> str | None:
    """The queue to filter by: a caller with queues of its own has to name one, if not the only."""
    if given is not None:
        caller.check_queue(given)
    elif caller.queues is not None:
        if len(caller.queues) > 1:
            raise refused(403, "this token is for some queues: name one", hint=caller.hint)
        return next(iter(caller.queues), None)
    return given


def _filter(caller: Caller, given: str | None, job_ids: list[int] | None) -> str | None:
    """As _queue; jobs that are named need no queue, see _check_own."""
    return given if job_ids is not None and given is None else _queue(caller, given)


async def _check_own(conn: Connection, caller: Caller, job_ids: list[int] | None) -> None:
    """JobNotFoundError for a job in a queue that is not the caller's."""
    if caller.queues is None or job_ids is None:
        return
    found = await calls.job_states(conn, job_ids=job_ids)
    own = {job.job_id for job in found if caller.may_use(job.queue)}
    for job_id in job_ids:
        if job_id not in own:
            raise JobNotFoundError(f"no job {job_id}", hint="check the id")


ROUTES = (
    Route(
        method="GET",
        path="/dead",
        handler=list_errors,
        summary="Dead letters, grouped by why they failed",
        scope="monitor",
        query=DeadQuery,
        answer=DeadGroups,
        errors=("JQ001",),
    ),
    Route(
        method="POST",
        path="/dead/redrive",
        handler=redrive,
        summary="Put dead letters back, by ids or filter; dry_run counts them first",
        scope="operate",
        body=RedriveDead,
        answer=RedrivenDead,
        errors=("JQ001", "JQ003", "JQ005"),
        changes=True,
    ),
    Route(
        method="POST",
        path="/dead/purge",
        handler=purge,
        summary="Forget dead letters, by ids or filter; dry_run counts them first",
        scope="operate",
        body=PurgeDead,
        answer=PurgedDead,
        errors=("JQ001", "JQ003"),
        changes=True,
    ),
)
