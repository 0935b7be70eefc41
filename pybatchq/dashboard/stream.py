"""The event stream of a page, `/ui/live`."""

from __future__ import annotations

import contextlib
import random
from time import monotonic
from typing import Final, Literal

from aiohttp import web

from pybatchq.api.answers import HEADERS, encode
from pybatchq.api.errors import invalid
from pybatchq.api.models import Name
from pybatchq.dashboard import views
from pybatchq.dashboard.context import HUB
from pybatchq.dashboard.live import Cells, Watcher
from pybatchq.dashboard.pages import Page, Visit

PATH: Final = "/ui/live"
# A line now and then finds out whether somebody is still there, also behind proxies.
QUIET_S: Final = 15.0
# Then the browser asks again, and has to be signed in still.
MOST_S: Final = 300.0
STREAM_HEADERS: Final = {
    **HEADERS,
    "Content-Type": "text/event-stream",
    "X-Accel-Buffering": "no",
}


class LiveQuery(views.OverviewQuery, frozen=True, forbid_unknown_fields=True):
    """view: of which page. queue, job: which one; what the overview takes is for it only."""

    view: Literal["overview", "queue", "job", "workers"] = "overview"
    queue: Name | None = None
    job: str | None = None


async def live(visit: Visit) -> web.StreamResponse:
    hub, view = visit.request.app[HUB], await _view(visit)
    with hub.watch(view.key, view.cells, job_id=view.job_id, proof=visit.visitor.proof) as watcher:
        response = web.StreamResponse(headers=STREAM_HEADERS)
        with contextlib.suppress(ConnectionError):  # the tab was closed
            await response.prepare(visit.request)
            await _tell(response, watcher)
        return response


async def _tell(response: web.StreamResponse, watcher: Watcher) -> None:
    """What changes, until the watcher or its time is over."""
    await response.write(b"retry: 2000\n\n")
    until = monotonic() + MOST_S * random.uniform(0.9, 1.0)
    while monotonic() < until:
        cells = await watcher.wait(QUIET_S)
        if watcher.is_over:
            break
        told = b"data: " + encode(_plain(cells)) + b"\n\n" if cells else b":\n\n"
        await response.write(told)
    await response.write_eof()


async def _view(visit: Visit) -> views.View:
    query, renderer, caller = visit.query(LiveQuery), visit.renderer, visit.caller
    match query.view:
        case "overview":
            shown = views.OverviewQuery(query.q, query.sort, query.page)
            return views.overview(renderer, caller, shown)
        case "workers":
            return views.workers(renderer, caller)
        case "queue" if query.queue is not None:
            caller.check_queue(query.queue)
            return views.queue(renderer, caller, query.queue)
        case "job" if query.job is not None:
            return views.job(renderer, caller, await visit.services.job_id(query.job))
    raise invalid(f"view {query.view} needs {query.view}")


def _plain(cells: Cells) -> dict[str, str]:
    """Markup as the text it is."""
    return {name: str(text) for name, text in cells.items()}


PAGES = (Page(path=PATH, handler=live),)
