"""Queues: how deep they are, what is set for them, pausing and resuming."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Final

from aiohttp import web
from msgspec import UNSET, Meta, Struct
from msgspec.structs import asdict

from pybatchq import calls
from pybatchq.api.answers import answer
from pybatchq.api.depths import DEPTHS, Depth
from pybatchq.api.models import Reason, shown
from pybatchq.api.queue_models import ChangeQueue, SetQueue
from pybatchq.api.routes import Call, NoQuery, Route
from pybatchq.calls import Connection
from pybatchq.errors import QueueNotFoundError
from pybatchq.rates import drain_s
from pybatchq.types import QueueSettings

# Any name at all: aiohttp's own pattern refuses braces.
PATH: Final = "/queues/{queue:[^/]+}"
# Settings that are seconds here and intervals in the database.
SPANS: Final = (
    "timeout", "lease_for", "backoff_base", "backoff_cap", "rate_period", "group_period",
    "age_every", "breaker_window", "breaker_pause",
)  # fmt: skip


class QueuesQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Queues in order of name."""

    limit: Annotated[int, Meta(ge=1, le=1000, description="a number from 1 to 1000")] = 100
    cursor: Annotated[str, Meta(description="next_cursor of the page before")] = ""


class PauseQueue(Struct, frozen=True, forbid_unknown_fields=True):
    """`reason` is shown to people."""

    reason: Reason | None = None


class Rate(Struct, frozen=True):
    """Per second, over the last whole minute: jobs, and attempts that failed or ran out."""

    enqueued: float
    completed: float
    failed: float


class Queue(Struct, frozen=True):
    """A queue: its depth by state, and what is set.

    Counts stop at 100,000 a state; `is_exact` is false when one did. `oldest_age`: for how many
    seconds its longest waiting ready job has been ready. Where counting takes long, counts are up
    to 2 seconds old. `rate` is null where upkeep has not counted lately. `drain_s`: in how many
    seconds no job waits or runs, as things go now, scheduled ones apart; at least, if `is_exact` is
    false; null if there are more and more.
    """

    queue: str
    ready: int
    scheduled: int
    blocked: int
    leased: int
    dead: int
    is_exact: bool
    oldest_age: float | None
    oldest_ready_at: datetime | None
    next_run_at: datetime | None
    rate: Rate | None
    drain_s: float | None
    paused_at: datetime | None
    pause_reason: str | None
    settings: SetQueue


class QueuePage(Struct, frozen=True):
    """`next_cursor` is null at the end."""

    queues: list[Queue]
    next_cursor: str | None


class QueueState(Struct, frozen=True):
    """What is set for a queue, and since when it is paused; null: it is not."""

    queue: str
    paused_at: datetime | None
    pause_reason: str | None
    settings: SetQueue


async def list_queues(call: Call[QueuesQuery, None]) -> web.Response:
    found = await call.services.db(calls.list_queues)
    after, limit = call.query.cursor, call.query.limit
    left = [one for one in found if one.queue > after and call.caller.may_use(one.queue)]
    page, more = left[:limit], len(left) > limit
    queues = await _with_depths(call, page, found)
    return answer(QueuePage(queues, page[-1].queue if more else None))


async def get_queue(call: Call[NoQuery, None]) -> web.Response:
    queue = queue_of(call)
    settings = await call.services.db(calls.get_queue, queue=queue)
    found = await _with_depths(call, [settings])
    if not found:  # gone meanwhile
        raise QueueNotFoundError(f"no queue '{queue}'")
    return answer(found[0])


async def set_queue(call: Call[NoQuery, SetQueue]) -> web.Response:
    queue = queue_of(call)

    async def work(conn: Connection) -> QueueSettings:
        await calls.set_queue(conn, queue=queue, reset=True, **arguments(asdict(call.body)))
        return await calls.get_queue(conn, queue=queue)

    return answer(_state(await call.acting.run(work)))


async def change_queue(call: Call[NoQuery, ChangeQueue]) -> web.Response:
    queue = queue_of(call)
    given = {name: value for name, value in asdict(call.body).items() if value is not UNSET}
    clear = given.pop("clear") + [name for name, value in given.items() if value is None]

    async def work(conn: Connection) -> QueueSettings:
        await calls.set_queue(conn, queue=queue, clear=clear or None, **arguments(given))
        return await calls.get_queue(conn, queue=queue)

    return answer(_state(await call.acting.run(work)))


async def pause(call: Call[NoQuery, PauseQueue]) -> web.Response:
    queue = queue_of(call)

    async def work(conn: Connection) -> QueueSettings:
        await calls.pause(conn, queue=queue, reason=call.body.reason)
        return await calls.get_queue(conn, queue=queue)

    return answer(_state(await call.acting.run(work)))


async def resume(call: Call[NoQuery, None]) -> web.Response:
    queue = queue_of(call)

    async def work(conn: Connection) -> QueueSettings:
        await calls.resume(conn, queue=queue)
        return await calls.get_queue(conn, queue=queue)

    return answer(_state(await call.acting.run(work)))


def queue_of(call: Call[Any, Any]) -> str:
    """The queue of the path, if it is the caller's."""
    queue = call.path["queue"]
    call.caller.check_queue(queue)
    return queue


async def _with_depths(
    call: Call[Any, Any], page: Sequence[QueueSettings], all_of: Sequence[QueueSettings] = ()
) -> list[Queue]:
    names = [one.queue for one in page]
    depths = await call.request.app[DEPTHS].of(names, [one.queue for one in all_of])
    return [_shown(one, depths[one.queue]) for one in page if one.queue in depths]


def _shown(settings: QueueSettings, depth: Depth) -> Queue:
    stats = depth.stats
    since = stats.oldest_ready_at
    age = None if since is None else max((depth.at - since).total_seconds(), 0.0)
    state = _state(settings)
    return Queue(
        stats.queue,
        stats.ready,
        stats.scheduled,
        stats.blocked,
        stats.leased,
        stats.dead,
        stats.is_exact,
        age,
        stats.oldest_ready_at,
        stats.next_run_at,
        None if depth.rate is None else shown(depth.rate, Rate),
        drain_s(stats, depth.rate),
        state.paused_at,
        state.pause_reason,
        state.settings,
    )


def _state(record: QueueSettings) -> QueueState:
    return QueueState(record.queue, record.paused_at, record.pause_reason, settings_of(record))


def settings_of(record: QueueSettings) -> SetQueue:
    return shown(record, SetQueue)


def arguments(settings: dict[str, Any]) -> dict[str, Any]:
    """As set_queue takes them: seconds are intervals there."""
    return {
        name: timedelta(seconds=value) if name in SPANS and value is not None else value
        for name, value in settings.items()
    }


ROUTES = (
    Route(
        method="GET",
        path="/queues",
        handler=list_queues,
        summary="All queues by name: depth, rates, oldest age, settings, pauses",
        scope="monitor",
        query=QueuesQuery,
        answer=QueuePage,
        errors=("JQ001",),
    ),
    Route(
        method="GET",
        path=PATH,
        handler=get_queue,
        summary="One queue: depth, rates, oldest age, settings, pause",
        scope="monitor",
        answer=Queue,
        errors=("JQ002",),
    ),
    Route(
        method="PUT",
        path=PATH,
        handler=set_queue,
        summary="Set what a queue's jobs have unless they say otherwise; what is left out is none",
        scope="operate",
        body=SetQueue,
        answer=QueueState,
        errors=("JQ001",),
        changes=True,
    ),
    Route(
        method="PATCH",
        path=PATH,
        handler=change_queue,
        summary="Change some of what is set for a queue; null, or its name in clear, sets none",
        scope="operate",
        body=ChangeQueue,
        answer=QueueState,
        errors=("JQ001",),
        changes=True,
    ),
    Route(
        method="POST",
        path=f"{PATH}/pause",
        handler=pause,
        summary="Stop leasing from a queue; jobs may still be added, and those that run go on",
        scope="operate",
        body=PauseQueue,
        body_may_be_empty=True,
        answer=QueueState,
        errors=("JQ001",),
        changes=True,
    ),
    Route(
        method="POST",
        path=f"{PATH}/resume",
        handler=resume,
        summary="Lease from a paused queue again",
        scope="operate",
        answer=QueueState,
        errors=("JQ001", "JQ002"),
        changes=True,
    ),
)
