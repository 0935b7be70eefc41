"""Why a job is not running, and what would be leased next."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from aiohttp import web
from msgspec import Meta, Raw, Struct

from pybatchq import calls
from pybatchq.api import queues
from pybatchq.api.answers import answer
from pybatchq.api.models import shown
from pybatchq.api.routes import Call, NoQuery, Route
from pybatchq.errors import JobNotFoundError
from pybatchq.types import State


class PeekQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """`limit`: as n of a lease."""

    limit: Annotated[int, Meta(ge=1, le=1000, description="a number from 1 to 1000")] = 10


class Gate(Struct, frozen=True):
    """What holds a job or a queue back; where `holds` is false, what is to be known of it.

    `says`: one sentence. `until`: when it is known to open; null: it hangs on what others do.
    `data`: the numbers, ids and times of the sentence.
    """

    gate: str
    holds: bool
    says: str
    until: datetime | None
    data: Annotated[Raw, Meta(description="an object")]


class Explanation(Struct, frozen=True):
    """The nearest first: the first one is the answer."""

    gates: list[Gate]


class PeekedJob(Struct, frozen=True):
    """A job that a lease would give. `state`: where it is now."""

    job_id: int
    kind: str
    priority: int
    group_key: str | None
    state: State


class PeekedJobs(Struct, frozen=True):
    """Best first; whoever leases in the meantime takes them."""

    jobs: list[PeekedJob]


async def explain_job(call: Call[NoQuery, None]) -> web.Response:
    job_id = await call.job_id()
    if call.caller.queues is not None:
        record = await call.services.db(calls.get_job, job_id=job_id)
        if not call.caller.may_use(record.queue):
            raise JobNotFoundError(f"no job {job_id}")
    gates = await call.services.db(calls.explain_job, job_id=job_id)
    return answer(Explanation([shown(gate, Gate) for gate in gates]))


async def explain_queue(call: Call[NoQuery, None]) -> web.Response:
    queue = queues.queue_of(call)
    gates = await call.services.db(calls.explain_queue, queue=queue)
    return answer(Explanation([shown(gate, Gate) for gate in gates]))


async def peek(call: Call[PeekQuery, None]) -> web.Response:
    queue = queues.queue_of(call)
    jobs = await call.services.db(calls.peek_lease, queue=queue, n=call.query.limit)
    return answer(PeekedJobs([shown(job, PeekedJob) for job in jobs]))


ROUTES = (
    Route(
        method="GET",
        path="/jobs/{id}/explain",
        handler=explain_job,
        summary="Why a job is not running: every gate that holds it back",
        scope="monitor",
        answer=Explanation,
        errors=("JQ001", "JQ003"),
    ),
    Route(
        method="GET",
        path=f"{queues.PATH}/explain",
        handler=explain_queue,
        summary="Why jobs of a queue are not running",
        scope="monitor",
        answer=Explanation,
        errors=("JQ002",),
    ),
    Route(
        method="GET",
        path=f"{queues.PATH}/peek",
        handler=peek,
        summary="What would be leased now, best first, without leasing it",
        scope="monitor",
        query=PeekQuery,
        answer=PeekedJobs,
        errors=("JQ001", "JQ002"),
    ),
)
