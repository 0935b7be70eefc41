"""`/ui/jobs`: jobs by filter, one job, and what may be done with it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final, Literal

import msgspec
from aiohttp import web
from msgspec import Meta, Struct

from pybatchq import calls
from pybatchq.api.answers import text
from pybatchq.api.errors import invalid
from pybatchq.api.finished import OVER
from pybatchq.api.models import Name, Time
from pybatchq.api.selection import BEFORE, cursor, cursor_id
from pybatchq.calls import Connection
from pybatchq.dashboard import views
from pybatchq.dashboard.pages import Page, Visit
from pybatchq.dashboard.rendering import link
from pybatchq.errors import JobNotFoundError
from pybatchq.live import live_job
from pybatchq.types import Gate, JobRecord, State, Status

PER_PAGE: Final = 50
PATH: Final = "/ui/jobs/{id}"
PARTS: Final = frozenset({"payload", "result", "headers"})

Cursor = Annotated[str, Meta(max_length=100)]


class JobsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The filters are those of GET /jobs. id: go to this job."""

    status: Status | None = None
    state: State | None = None
    queue: Name | None = None
    kind: Name | None = None
    dedupe_key: str | None = None
    created_after: Time | None = None
    created_before: Time | None = None
    before: Cursor | None = None
    id: str | None = None


class JobError(Struct, frozen=True):
    """Why an attempt failed."""

    attempt: int
    failed_at: datetime
    error: str
    worker: str | None


@dataclass(frozen=True, slots=True)
class Event:
    """A line of a job's timeline. kind: how it is drawn."""

    at: datetime
    says: str
    kind: Literal["", "bad", "good", "next"] = ""


async def list_jobs(visit: Visit) -> web.Response:
    query = visit.query(JobsQuery)
    if query.id is not None:
        return visit.lead(link("/ui/jobs", query.id.strip()))
    own = sorted(visit.caller.queues or ())
    queue = query.queue or (own[0] if own else None)
    if queue is not None:
        visit.caller.check_queue(queue)
    found = await visit.services.db(
        calls.list_jobs,
        status=query.status,
        state=query.state,
        queue=queue,
        kind=query.kind,
        dedupe_key=query.dedupe_key,
        created_after=query.created_after,
        created_before=query.created_before,
        n=PER_PAGE,
        before_id=cursor_id(BEFORE, query.before),
    )
    filters = {
        name: visit.request.query.get(name, "")
        for name in JobsQuery.__struct_fields__
        if name not in {"before", "id"}
    }
    return visit.page(
        "jobs.html",
        jobs=found,
        filters={**filters, "queue": queue or ""},
        next_page=cursor(BEFORE, found.next_id),
        is_first=query.before is None,
        own_queues=own,
    )


async def show(visit: Visit) -> web.Response:
    job_id = await _job_id(visit)

    async def work(conn: Connection) -> tuple[JobRecord, list[Gate]]:
        record = await calls.get_job(conn, job_id=job_id)
        if not visit.caller.may_use(record.queue):
            raise JobNotFoundError(f"no job {job_id}")
        return record, await calls.explain_job(conn, job_id=job_id)

    record, gates = await visit.services.db.run(work)
    errors = msgspec.json.decode(record.errors, type=list[JobError])
    return visit.page(
        "job.html",
        job=record,
        live_cells=views.job_cells(visit.renderer.part, live_job(record, gates)),
        errors=errors,
        events=timeline(record, errors),
        is_over=record.status in OVER,
    )


async def part(visit: Visit) -> web.Response:
    """A payload, result or headers as they are stored, as a text to look at or keep."""
    name = visit.path["part"]
    if name not in PARTS:
        raise web.HTTPNotFound
    record = await _own_job(visit)
    body: bytes | None = getattr(record, name)
    return text(bytes(body or b"null"), "text/plain; charset=utf-8")


async def cancel(visit: Visit) -> web.Response:
    job = await _own_job(visit)
    reason = visit.field("reason").strip() or None
    status = await visit.acting(calls.cancel, job_id=job.id, reason=reason)
    said = "is cancelled" if status == "cancelled" else "was asked to stop"
    return visit.lead(link("/ui/jobs", job.id), f"Job {job.id} {said}.")


async def retry(visit: Visit) -> web.Response:
    job = await _own_job(visit)
    await visit.acting(calls.redrive, job_ids=[job.id])
    return visit.lead(link("/ui/jobs", job.id), f"Job {job.id} is pending again.")


async def run_now(visit: Visit) -> web.Response:
    job = await _own_job(visit)

    async def work(conn: Connection) -> str:
        return await calls.set_job(conn, job_id=job.id, run_at=await calls.now(conn))

    await visit.acting.run(work)
    return visit.lead(link("/ui/jobs", job.id), f"Job {job.id} is due now.")


async def set_priority(visit: Visit) -> web.Response:
    job = await _own_job(visit)
    try:
        priority = int(visit.field("priority"))
    except ValueError:
        given = visit.field("priority")[:80]
        hint = "give an integer from -32768 to 32767, higher first"
        raise invalid(f"invalid priority: {given}", hint=hint) from None
    await visit.acting(calls.set_job, job_id=job.id, priority=priority)
    return visit.lead(link("/ui/jobs", job.id), f"Job {job.id} has priority {priority} now.")


def timeline(job: JobRecord, errors: list[JobError]) -> list[Event]:
    """What is known to have happened to a job, and what comes next, oldest first."""
    events = [Event(job.created_at, "created")]
    events += [
        Event(
            error.failed_at,
            f"attempt {error.attempt} failed" + (f" on {error.worker}" if error.worker else ""),
            "bad",
        )
        for error in errors
    ]
    if job.started_at is not None:
        on = f" on {job.locked_by}" if job.locked_by else ""
        events.append(Event(job.started_at, f"attempt {job.attempts} started{on}"))
    if job.cancel_requested_at is not None:
        events.append(Event(job.cancel_requested_at, "asked to stop"))
    if job.finished_at is not None:
        kind: Any = "good" if job.status == "completed" else "bad"
        says = "became a dead letter" if job.status == "failed" else str(job.status)
        events.append(Event(job.finished_at, says, kind))
    events.sort(key=lambda event: event.at)
    if job.state == "scheduled":
        events.append(Event(job.run_at, f"attempt {job.attempts + 1} is due", "next"))
    if job.locked_until is not None:
        events.append(Event(job.locked_until, "the lease ends unless it is renewed", "next"))
    return events


async def _job_id(visit: Visit) -> int:
    return await visit.services.job_id(visit.path["id"])


async def _own_job(visit: Visit) -> JobRecord:
    """The job of the path; JobNotFoundError if it is not in one of the visitor's queues."""
    job_id = await _job_id(visit)
    record = await visit.services.db(calls.get_job, job_id=job_id)
    if not visit.caller.may_use(record.queue):
        raise JobNotFoundError(f"no job {job_id}")
    return record


PAGES = (
    Page(path="/ui/jobs", handler=list_jobs),
    Page(path=PATH, handler=show),
    Page(path=f"{PATH}/{{part}}", handler=part),
    Page(method="POST", path=f"{PATH}/cancel", handler=cancel, scope="operate"),
    Page(method="POST", path=f"{PATH}/retry", handler=retry, scope="operate"),
    Page(method="POST", path=f"{PATH}/run-now", handler=run_now, scope="operate"),
    Page(method="POST", path=f"{PATH}/priority", handler=set_priority, scope="operate"),
)
