"""What operators did: for those who look after all queues."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final

from aiohttp import web
from msgspec import Meta, Raw, Struct

from pybatchq import calls
from pybatchq.api.answers import answer
from pybatchq.api.errors import refused
from pybatchq.api.models import Cursor, shown
from pybatchq.api.routes import Call, Route
from pybatchq.api.selection import BEFORE, cursor, cursor_id

Target = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=300,
        description="a target, like queue mail, job 7, token shop, worker and its worker_id",
    ),
]


class AuditQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """What was done to one target, or to all."""

    target: Target | None = None
    limit: Annotated[int, Meta(ge=1, le=1000, description="a number from 1 to 1000")] = 100
    cursor: Cursor | None = None


class AuditEntry(Struct, frozen=True):
    """`actor`: the token's name, of what was done over HTTP; else the database's user.

    `db_user`: that user in any case. `action`: the function of the database; `details`: what was
    given to it, and the `count` of jobs where there may be many.
    """

    audit_id: int
    at: datetime
    actor: str
    db_user: str
    action: str
    target: str | None
    details: Raw | None


class AuditPage(Struct, frozen=True):
    """The newest first. `next_cursor` is null at the end."""

    entries: list[AuditEntry]
    next_cursor: str | None


async def list_audit(call: Call[AuditQuery, None]) -> web.Response:
    query, caller = call.query, call.caller
    if caller.queues is not None:
        raise refused(403, "this token is for some queues, and this is of all", hint=caller.hint)
    found = await call.services.db(
        calls.list_audit,
        n=query.limit,
        before_id=cursor_id(BEFORE, query.cursor),
        target=query.target,
    )
    more = found[-1].audit_id if len(found) == query.limit else None
    return answer(AuditPage([shown(one, AuditEntry) for one in found], cursor(BEFORE, more)))


ROUTES: Final = (
    Route(
        method="GET",
        path="/audit",
        handler=list_audit,
        summary="What operators did in the last 90 days, newest first",
        scope="monitor",
        query=AuditQuery,
        answer=AuditPage,
        errors=("JQ001",),
    ),
)
