"""Circuit breakers of a queue: kinds of job that are held back, and letting them run again."""

from __future__ import annotations

from datetime import datetime

from aiohttp import web
from msgspec import Struct

from pybatchq import calls
from pybatchq.api import queues
from pybatchq.api.answers import answer
from pybatchq.api.models import shown
from pybatchq.api.routes import Call, NoQuery, Route
from pybatchq.calls import Connection

PATH = f"{queues.PATH}/breakers"


class Breaker(Struct, frozen=True):
    """A kind of job that is held back: of `ended` attempts `failed` did.

    `held`: jobs that were ready, counted up to 10,000. `probe_at`: when the next one is let
    through; `probe_job_id`: the one that runs, null: none; `probes`: how many failed.
    """

    kind: str
    opened_at: datetime
    probe_at: datetime
    probe_job_id: int | None
    probes: int
    held: int
    ended: int
    failed: int
    last_error: str | None


class BreakerList(Struct, frozen=True):
    """At most 1,000, by kind."""

    breakers: list[Breaker]


async def list_breakers(call: Call[NoQuery, None]) -> web.Response:
    queue = queues.queue_of(call)
    return await call.services.db.run(lambda conn: _open(conn, queue))


async def reset_breaker(call: Call[NoQuery, None]) -> web.Response:
    queue = queues.queue_of(call)

    async def work(conn: Connection) -> web.Response:
        await calls.reset_breaker(conn, queue=queue, kind=call.path["kind"])
        return await _open(conn, queue)

    return await call.acting.run(work)


async def _open(conn: Connection, queue: str) -> web.Response:
    """Those that are open; a queue that nobody knows is an error."""
    found = await calls.list_breakers(conn, queue=queue)
    if not found:
        await calls.get_queue(conn, queue=queue)
    return answer(BreakerList([shown(one, Breaker) for one in found]))


ROUTES = (
    Route(
        method="GET",
        path=PATH,
        handler=list_breakers,
        summary="Kinds of job that are held back as too many failed",
        scope="monitor",
        answer=BreakerList,
        errors=("JQ002",),
    ),
    Route(
        method="POST",
        path=f"{PATH}/{{kind:[^/]+}}/reset",
        handler=reset_breaker,
        summary="Let jobs of a kind run again that are held back; none is no error",
        scope="operate",
        answer=BreakerList,
        errors=("JQ001", "JQ002"),
        changes=True,
    ),
)
