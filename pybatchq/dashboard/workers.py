"""`/ui/workers`: who works, on what, and asking one to stop."""

from __future__ import annotations

from aiohttp import web

from pybatchq import calls
from pybatchq.api.workers import check_worker, worker_id_of
from pybatchq.dashboard import views
from pybatchq.dashboard.pages import Page, Visit

WHERE = "/ui/workers"


async def show(visit: Visit) -> web.Response:
    found = await visit.services.db(calls.list_workers)
    return visit.page("workers.html", workers=views.workers_of(found, visit.caller))


async def drain(visit: Visit) -> web.Response:
    worker_id = worker_id_of(visit.path["worker_id"])
    await check_worker(visit.services, visit.caller, worker_id)
    if not await visit.acting(calls.drain_worker, worker_id=worker_id):
        return visit.lead(WHERE, "This worker is not alive any more.")
    return visit.lead(WHERE, "The worker takes no more jobs, and ends when its own are done.")


PAGES = (
    Page(path=WHERE, handler=show),
    Page(method="POST", path=f"{WHERE}/{{worker_id}}/drain", handler=drain, scope="operate"),
)
