"""`/ui/workers`: who works, on what, running what, and asking one to stop."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from aiohttp import web

from pybatchq import calls
from pybatchq.api.workers import check_worker, worker_id_of
from pybatchq.calls import Connection
from pybatchq.dashboard import views
from pybatchq.dashboard.pages import Page, Visit
from pybatchq.types import JobPage, JobSummary, WorkerInfo

WHERE: Final = "/ui/workers"
# The newest of those that run; a worker's name may be that of several processes.
MOST_JOBS: Final = 100


async def show(visit: Visit) -> web.Response:
    async def work(conn: Connection) -> tuple[list[WorkerInfo], JobPage]:
        workers = await calls.list_workers(conn)
        if not any(worker.is_alive for worker in workers):
            return workers, JobPage()
        return workers, await calls.list_jobs(conn, status="running", n=MOST_JOBS)

    found, jobs = await visit.services.db.run(work)
    running: defaultdict[str, list[JobSummary]] = defaultdict(list)
    for job in jobs:
        if job.locked_by is not None and visit.caller.may_use(job.queue):
            running[job.locked_by].append(job)
    workers = views.workers_of(found, visit.caller)
    return visit.page(
        "workers.html", workers=workers, running=running, are_all=jobs.next_id is None
    )


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
