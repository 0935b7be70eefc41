"""Dead letters: why they are dead, putting them back, forgetting them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final

from aiohttp import web
from msgspec import UNSET, Meta, Struct, UnsetType

from pybatchq import calls
from pybatchq.api.answers import answer
from pybatchq.api.errors import invalid
from pybatchq.api.models import Cursor, Ids, Name, Step, Time, one_of, shown
from pybatchq.api.routes import Call, Route
from pybatchq.api.selection import (
    AFTER,
    bulk,
    bulk_filter,
    check_own,
    cursor,
    cursor_id,
    queue_filter,
)
from pybatchq.calls import Connection

STEP: Final = 1_000
MOST_COUNTED: Final = 100_000
STEP_S: Final = 30.0

Group = Annotated[
    str,
    Meta(max_length=1000, description="an error as GET /dead has it, of at most 1000 characters"),
]
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
    """The most frequent first, of the newest 5,000 dead letters.

    `others`: how many more dead letters there are, of any kind, counted up to 95,000. `is_exact`:
    there are none, and these are all groups or the `limit` that was asked for.
    """

    errors: list[DeadGroup]
    others: int
    is_exact: bool


class RedriveDead(Struct, frozen=True, forbid_unknown_fields=True):
    """Put back the dead letters that match all that is given, `limit` of them at a time.

    `error`: as GET /dead has it. `failed_before`: by default now, so that none is put back twice.
    `per_second`: start no more than so many a second. `dry_run`: only count, up to 100,000.
    """

    ids: Ids | None = None
    queue: Name | None = None
    kind: Name | None = None
    type: Name | None = None
    error: Group | None = None
    failed_after: Time | None = None
    failed_before: Time | None = None
    per_second: Rate | None = None
    limit: Step | None = None
    cursor: Cursor | None = None
    dry_run: bool = False


class RedrivenDead(Struct, frozen=True):
    """`redriven`: how many were put back, or would be. `more`: there may be others.

    Ask for those with `failed_before` as it is here and with `next_cursor` as `cursor`, after
    `pause` seconds where there is a rate.
    """

    redriven: int
    more: bool
    failed_before: datetime | None
    pause: float
    next_cursor: str | None


class PurgeDead(Struct, frozen=True, forbid_unknown_fields=True):
    """Forget the dead letters that match all that is given, `limit` of them at a time.

    What is forgotten is gone, so something has to be given; `all` is every one there is.
    `dry_run`: only count, up to 100,000.
    """

    ids: Ids | None = None
    queue: Name | None = None
    kind: Name | None = None
    type: Name | None = None
    error: Group | None = None
    failed_before: Time | None = None
    all: bool = False
    limit: Step | None = None
    cursor: Cursor | None = None
    dry_run: bool = False


class PurgedDead(Struct, frozen=True):
    """`purged`: how many were forgotten, or would be.

    `more`: ask again, with `next_cursor` as `cursor`, there may be others.
    """

    purged: int
    more: bool
    next_cursor: str | None


async def list_errors(call: Call[DeadQuery, None]) -> web.Response:
    query = call.query
    queue, kind, type_ = _given(query.queue), _given(query.kind), _given(query.type)
    found = await call.services.db.run(
        lambda conn: calls.list_errors(
            conn,
            queue=queue_filter(call.caller, queue),
            kind=one_of(kind, type_),
            n=query.limit,
        ),
        within_s=STEP_S,
    )
    groups = [shown(group, DeadGroup) for group in found]
    return answer(DeadGroups(groups, found.others, found.others == 0))


async def redrive(call: Call[Any, RedriveDead]) -> web.Response:
    given, limit = call.body, _limit(call.body)
    kind = one_of(given.kind, given.type)
    queue = bulk_filter(call.caller, given.queue, given.ids)
    after_id = cursor_id(AFTER, given.cursor)

    async def work(conn: Connection) -> tuple[int, int | None, datetime | None]:
        await check_own(conn, call.caller, given.ids)
        before = given.failed_before
        if before is None and given.ids is None:
            before = await calls.now(conn)

        async def step(n: int, after: int | None) -> tuple[int, int | None]:
            done = await calls.redrive(
                conn,
                job_ids=given.ids,
                queue=queue,
                kind=kind,
                error=given.error,
                failed_after=given.failed_after,
                failed_before=before,
                n=n,
                per_second=given.per_second,
                dry_run=given.dry_run,
                after_id=after,
            )
            return done.redriven, done.last_id

        n, last_id = await bulk(step, limit=limit, after_id=after_id, is_dry=given.dry_run)
        return n, last_id, before

    n, last_id, before = await call.acting.run(work, within_s=STEP_S)
    pause = 0.0 if given.per_second is None or given.dry_run else n / given.per_second
    return answer(RedrivenDead(n, last_id is not None, before, pause, cursor(AFTER, last_id)))


async def purge(call: Call[Any, PurgeDead]) -> web.Response:
    given, limit = call.body, _limit(call.body)
    kind = one_of(given.kind, given.type)
    filters = (given.ids, given.queue, kind, given.error, given.failed_before)
    if given.all == any(value is not None for value in filters):
        message = "all: filters are given as well" if given.all else "no dead letters are named"
        raise invalid(message, hint="give ids or filters, or all for every one there is")
    queue = bulk_filter(call.caller, given.queue, given.ids)
    after_id = cursor_id(AFTER, given.cursor)

    async def work(conn: Connection) -> tuple[int, int | None]:
        await check_own(conn, call.caller, given.ids)

        async def step(n: int, after: int | None) -> tuple[int, int | None]:
            done = await calls.purge(
                conn,
                job_ids=given.ids,
                queue=queue,
                kind=kind,
                error=given.error,
                finished_before=given.failed_before,
                n=n,
                dry_run=given.dry_run,
                after_id=after,
            )
            return done.purged, done.last_id

        return await bulk(step, limit=limit, after_id=after_id, is_dry=given.dry_run)

    n, last_id = await call.acting.run(work, within_s=STEP_S)
    return answer(PurgedDead(n, last_id is not None, cursor(AFTER, last_id)))


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


REDRIVE = Route(
    method="POST",
    path="/dead/redrive",
    handler=redrive,
    summary="Put dead letters back, by ids or filter; dry_run counts them first",
    scope="operate",
    body=RedriveDead,
    answer=RedrivenDead,
    errors=("JQ001", "JQ003", "JQ005"),
    changes=True,
)

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
    REDRIVE,
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
