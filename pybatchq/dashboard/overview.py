"""`/`: every queue, what is wrong, who works."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from aiohttp import web
from markupsafe import Markup

from pybatchq import calls
from pybatchq.calls import Connection
from pybatchq.dashboard import charts, views
from pybatchq.dashboard.context import HUB
from pybatchq.dashboard.pages import HOME, Page, Visit
from pybatchq.rates import QueueTrend, ThroughputPoint, WatchedQueue

HOUR: Final = timedelta(hours=1)
MINUTE_S: Final = 60.0


async def overview(visit: Visit) -> web.Response:
    query = visit.query(views.OverviewQuery)
    live = await visit.request.app[HUB].look()
    everything = views.queues_of(live, visit.caller)
    found = views.chosen(everything, query)
    shown = views.of_page(found, query)
    trends, points = await visit.services.db.run(lambda conn: _history(conn, visit, shown))
    return visit.page(
        "overview.html",
        query=query,
        queues=shown,
        n_queues=len(found),
        pages=-(-len(found) // views.PER_PAGE),
        sparks={trend.queue: spark(trend) for trend in trends},
        chart=charts.figure(charts.throughput(points, MINUTE_S)) if points else None,
        total=views.total_of(everything),
        counters=views.counters_of(live, visit.caller),
        alerts=views.alerts_of(live, visit.caller),
        workers=views.workers_of(live.workers, visit.caller),
    )


def spark(trend: QueueTrend) -> Markup:
    return charts.sparkline(
        charts.Series("in", trend.enqueued),
        charts.Series("done", trend.ended),
        title=f"{trend.queue}, the last hour",
    )


async def _history(
    conn: Connection, visit: Visit, shown: Sequence[WatchedQueue]
) -> tuple[list[QueueTrend], list[ThroughputPoint]]:
    """The chart of all queues is not for a visitor who may see only some."""
    trends = await calls.queue_trends(conn, queues=[queue.queue for queue in shown])
    if visit.caller.queues is not None:
        return trends, []
    return trends, await calls.throughput(conn, since=HOUR, step=timedelta(minutes=1))


PAGES = (Page(path=HOME, handler=overview),)
