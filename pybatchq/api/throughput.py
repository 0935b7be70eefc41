"""What happened over time: counts and percentiles of waits and runs, from the rollups."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

from aiohttp import web
from msgspec import Meta, Struct

from pybatchq import calls
from pybatchq.api import queues
from pybatchq.api.answers import answer
from pybatchq.api.errors import invalid
from pybatchq.api.models import Name, shown
from pybatchq.api.routes import Call, Route
from pybatchq.api.selection import queue_filter
from pybatchq.settings import parse_duration

Length = Annotated[str, Meta(description="a time like 30m or 24h")]


class ThroughputQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """`since`: how far back, 1 minute to 7 days. `step`: whole minutes, up to a day."""

    since: Length = "1h"
    step: Length = "1m"
    kind: Name | None = None


class Point(Struct, frozen=True):
    """What happened from `at` on, for one step.

    `wait_p50` and so on: for how many seconds jobs waited that were completed by their first
    attempt, from when they were due. `run_p50` and so on: how long attempts ran that completed a
    job. Both are estimates, more than half and less than twice of what is true; null: there was
    none.
    """

    at: datetime
    enqueued: int
    completed: int
    cancelled: int
    failed: int
    reaped: int
    retried: int
    dead_letters: int
    wait_p50: float | None
    wait_p95: float | None
    wait_p99: float | None
    run_p50: float | None
    run_p95: float | None
    run_p99: float | None


class Throughput(Struct, frozen=True):
    """Oldest first, up to the last whole minute that upkeep has counted."""

    points: list[Point]


async def of_all(call: Call[ThroughputQuery, None]) -> web.Response:
    return await _throughput(call, queue_filter(call.caller, None))


async def of_queue(call: Call[ThroughputQuery, None]) -> web.Response:
    return await _throughput(call, queues.queue_of(call))


async def _throughput(call: Call[ThroughputQuery, None], queue: str | None) -> web.Response:
    found = await call.services.db(
        calls.throughput,
        queue=queue,
        kind=call.query.kind,
        since=_length("since", call.query.since),
        step=_length("step", call.query.step),
    )
    return answer(Throughput([shown(point, Point) for point in found]))


def _length(name: str, text: str) -> timedelta:
    seconds = parse_duration(text)
    if seconds is None or seconds > timedelta(days=366).total_seconds():
        raise invalid(f"invalid {name}: {text[:80]}", hint="give a time like 30m or 24h")
    return timedelta(seconds=seconds)


ROUTES = (
    Route(
        method="GET",
        path="/throughput",
        handler=of_all,
        summary="What happened over time in all queues, waits and run times",
        scope="monitor",
        query=ThroughputQuery,
        answer=Throughput,
        errors=("JQ001",),
    ),
    Route(
        method="GET",
        path=f"{queues.PATH}/throughput",
        handler=of_queue,
        summary="What happened over time in a queue, waits and run times",
        scope="monitor",
        query=ThroughputQuery,
        answer=Throughput,
        errors=("JQ001", "JQ002"),
    ),
)
