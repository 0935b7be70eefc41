"""`/ui/throughput`: what happened over time, and how long it took."""

from __future__ import annotations

from datetime import timedelta
from typing import Final, Literal

from aiohttp import web
from msgspec import Struct

from pybatchq import calls
from pybatchq.api.errors import refused
from pybatchq.api.models import Name
from pybatchq.calls import Connection
from pybatchq.dashboard import charts
from pybatchq.dashboard.pages import Page, Visit
from pybatchq.rates import ThroughputPoint
from pybatchq.types import KindCounters

Range = Literal["1h", "24h", "7d"]
# How far back, and the step between two points.
RANGES: Final[dict[Range, tuple[timedelta, timedelta]]] = {
    "1h": (timedelta(hours=1), timedelta(minutes=1)),
    "24h": (timedelta(hours=24), timedelta(minutes=10)),
    "7d": (timedelta(days=7), timedelta(hours=1)),
}


class ThroughputQuery(Struct, frozen=True, forbid_unknown_fields=True):
    queue: Name | None = None
    kind: Name | None = None
    range: Range = "1h"


async def show(visit: Visit) -> web.Response:
    query, own = visit.query(ThroughputQuery), sorted(visit.caller.queues or ())
    queue = query.queue or (own[0] if own else None)
    if queue is not None:
        visit.caller.check_queue(queue)
    since, step = RANGES[query.range]

    async def work(conn: Connection) -> tuple[list[ThroughputPoint], list[KindCounters]]:
        counted_to = (await calls.counters(conn)).tallied_at
        points = await calls.throughput(conn, queue=queue, kind=query.kind, since=since, step=step)
        # a step that is not over would look like a fall
        whole = [point for point in points if point.at + step <= counted_to]
        return whole or points, await calls.kind_counters(conn)

    points, counters = await visit.services.db.run(work)
    if not points:
        raise refused(503, "nothing was counted as yet", hint="run a worker, or batchq.maintain()")
    pairs = [(pair.queue, pair.kind) for pair in counters if visit.caller.may_use(pair.queue)]
    step_s = step.total_seconds()
    return visit.page(
        "throughput.html",
        query=query,
        queue=queue,
        ranges=tuple(RANGES),
        queues=own or sorted({name for name, _ in pairs if name} | ({queue} if queue else set())),
        kinds=sorted({kind for name, kind in pairs if kind and queue in {None, name}}),
        figures=[
            charts.figure(chart(points, step_s))
            for chart in (charts.throughput, charts.waits, charts.runs)
        ],
        since=points[0].at,
        sums={
            name: sum(getattr(point, name) for point in points)
            for name in ("enqueued", "completed", "failed", "reaped", "retried", "dead_letters",
                         "cancelled")
        },
    )  # fmt: skip


PAGES = (Page(path="/ui/throughput", handler=show),)
