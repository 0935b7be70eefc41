"""Changing a job that is pending: its priority, or when it runs."""

from __future__ import annotations

from typing import Final

from aiohttp import web
from msgspec import Struct

from pybatchq import calls
from pybatchq.api.answers import answer
from pybatchq.api.errors import invalid
from pybatchq.api.models import Priority, Time, utc
from pybatchq.api.routes import Call, NoQuery, Route
from pybatchq.api.selection import check_own
from pybatchq.calls import Connection
from pybatchq.types import State


class SetJob(Struct, frozen=True, forbid_unknown_fields=True):
    """What is left out, or null, stays as it is. `run_now` is `run_at` now."""

    priority: Priority | None = None
    run_at: Time | None = None
    run_now: bool = False


class JobSet(Struct, frozen=True):
    """Its state afterwards. `scheduled` also where it is due: the next lease makes it ready."""

    state: State


async def set_job(call: Call[NoQuery, SetJob]) -> web.Response:
    given, job_id = call.body, await call.job_id()
    if given.run_now and given.run_at is not None:
        raise invalid("run_at and run_now are both given", hint="give run_at or run_now")

    async def work(conn: Connection) -> State:
        await check_own(conn, call.caller, [job_id])
        run_at = None if given.run_at is None else utc(given.run_at)
        if given.run_now:
            run_at = await calls.now(conn)
        return await calls.set_job(conn, job_id=job_id, priority=given.priority, run_at=run_at)

    return answer(JobSet(await call.acting.run(work)))


ROUTES: Final = (
    Route(
        method="PATCH",
        path="/jobs/{id}",
        handler=set_job,
        summary="Change a pending job: its priority, when it runs, or that it runs now",
        scope="operate",
        body=SetJob,
        answer=JobSet,
        errors=("JQ001", "JQ003", "JQ005"),
        changes=True,
    ),
)
