"""Who works: the list of worker processes, and how one that speaks HTTP gets onto it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final
from uuid import UUID

from aiohttp import web
from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import asdict, replace

from pybatchq import calls
from pybatchq.api.answers import HEADERS, answer
from pybatchq.api.auth import Caller
from pybatchq.api.errors import invalid
from pybatchq.api.models import Name, shown
from pybatchq.api.routes import Call, NoQuery, Route
from pybatchq.api.services import Services
from pybatchq.api.work_models import TellWorker
from pybatchq.types import WorkerInfo

MOST_LISTED: Final = 10_000


class WorkersQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """`alive`: only those that are, or only those that are not. `queue`: those that work on it."""

    alive: Annotated[bool, Meta(description="true or false")] | UnsetType = UNSET
    queue: Name | UnsetType = UNSET  # null is a name like any other
    limit: Annotated[int, Meta(ge=1, le=MOST_LISTED, description="a number from 1 to 10000")] = (
        1_000
    )


class Worker(Struct, frozen=True):
    """A worker process. `worker`: its name, as in a job's `locked_by`; processes may share one.

    `running`: how many jobs it ran at its last beat. `is_alive`: that was less than 90 s ago.
    `drain_requested_at`: it was asked to take no more jobs and to end.
    """

    worker_id: UUID
    worker: str
    host: str
    pid: int
    version: str
    queues: list[str]
    kinds: list[str]
    concurrency: int
    running: int
    started_at: datetime
    beat_at: datetime
    memory_bytes: int | None
    stopping: bool
    is_alive: bool
    drain_requested_at: datetime | None


class Workers(Struct, frozen=True):
    """Those that are alive first. Of queues, a token that is for some sees these only."""

    workers: list[Worker]


class WorkerTold(Struct, frozen=True):
    """`drain`: the worker was asked to take no more jobs, finish what it runs and end."""

    drain: bool


class DrainAsked(Struct, frozen=True):
    """`asked`: false if there is no such worker, or it is not alive."""

    asked: bool


async def list_workers(call: Call[WorkersQuery, None]) -> web.Response:
    query, caller = call.query, call.caller
    if query.queue is not UNSET:
        caller.check_queue(query.queue)
    found = await call.services.db(calls.list_workers, n=MOST_LISTED)
    some = [
        seen_by(caller, worker)
        for worker in found
        if query.alive in {UNSET, worker.is_alive}
        and (query.queue is UNSET or query.queue in worker.queues)
        and (caller.queues is None or not caller.queues.isdisjoint(worker.queues))
    ]
    return answer(Workers([shown(worker, Worker) for worker in some[: query.limit]]))


async def beat(call: Call[NoQuery, TellWorker]) -> web.Response:
    worker_id = worker_id_of(call.path["worker_id"])
    for queue in call.body.queues:
        call.caller.check_queue(queue)
    db = call.services.db
    return answer(WorkerTold(await db(calls.beat_worker, worker_id=worker_id, **asdict(call.body))))


async def drain(call: Call[NoQuery, None]) -> web.Response:
    worker_id = worker_id_of(call.path["worker_id"])
    await check_worker(call.services, call.caller, worker_id)
    return answer(DrainAsked(await call.acting(calls.drain_worker, worker_id=worker_id)))


async def drop(call: Call[NoQuery, None]) -> web.Response:
    await call.services.db(calls.drop_worker, worker_id=worker_id_of(call.path["worker_id"]))
    return web.Response(status=204, headers=HEADERS)


async def check_worker(services: Services, caller: Caller, worker_id: UUID) -> None:
    """ApiError 403 if it works on a queue that is not the caller's."""
    if caller.queues is not None:
        for worker in await services.db(calls.list_workers, n=MOST_LISTED):
            if worker.worker_id == worker_id:
                for queue in worker.queues:
                    caller.check_queue(queue)


def seen_by(caller: Caller, worker: WorkerInfo) -> WorkerInfo:
    if caller.queues is None:
        return worker
    return replace(worker, queues=[queue for queue in worker.queues if caller.may_use(queue)])


def worker_id_of(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        hint = "give a UUID, made when the worker process starts"
        raise invalid(f"invalid worker id: {text[:80]}", hint=hint) from None


ROUTES = (
    Route(
        method="GET",
        path="/workers",
        handler=list_workers,
        summary="Worker processes of the last day that did not end cleanly: who is alive",
        scope="monitor",
        query=WorkersQuery,
        answer=Workers,
        errors=("JQ001",),
    ),
    Route(
        method="PUT",
        path="/workers/{worker_id}",
        handler=beat,
        summary="Say, every 30 s, that a worker process is there; the answer may ask it to end",
        scope="work",
        body=TellWorker,
        answer=WorkerTold,
        errors=("JQ001",),
        changes=True,
    ),
    Route(
        method="POST",
        path="/workers/{worker_id}/drain",
        handler=drain,
        summary="Ask a worker process to take no more jobs, finish what it runs and end",
        scope="operate",
        answer=DrainAsked,
        errors=("JQ001",),
        changes=True,
    ),
    Route(
        method="DELETE",
        path="/workers/{worker_id}",
        handler=drop,
        summary="Take a worker process off the list, at its clean end",
        scope="work",
        statuses=(204,),
        errors=("JQ001",),
        changes=True,
    ),
)
