"""Looking at jobs, cancelling them, trying them again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from aiohttp import web

from pybatchq import calls
from pybatchq.api.answers import answer
from pybatchq.api.dead import REDRIVE
from pybatchq.api.errors import invalid
from pybatchq.api.finished import OVER
from pybatchq.api.models import (
    CancelJob,
    CancelJobs,
    CancelledJobs,
    ChangedJob,
    Job,
    JobPage,
    JobQuery,
    ListedJob,
    ListQuery,
    one_of,
    shown,
)
from pybatchq.api.routes import Call, NoQuery, Route
from pybatchq.api.selection import AFTER, BEFORE, cursor, cursor_id, queue_filter
from pybatchq.errors import JobNotFoundError
from pybatchq.settings import parse_duration
from pybatchq.types import JobRecord

MOST_WAIT_S: Final = 60.0


async def get_job(call: Call[JobQuery, None]) -> web.Response:
    wait_s = _wait_s(call.query.wait)
    job_id = await call.job_id()
    record = await _record(call, job_id)
    if wait_s and record.status not in OVER:
        await call.services.poller.wait(job_id, wait_s)
        record = await _record(call, job_id)
    return answer(shown(record, Job))


async def list_jobs(call: Call[ListQuery, None]) -> web.Response:
    query = call.query
    found = await call.services.db(
        calls.list_jobs,
        status=query.status,
        state=query.state,
        kind=one_of(query.kind, query.type),
        queue=queue_filter(call.caller, query.queue),
        dedupe_key=query.dedupe_key,
        created_after=query.created_after,
        created_before=query.created_before,
        n=query.limit,
        before_id=cursor_id(BEFORE, query.cursor),
    )
    page = [shown(job, ListedJob) for job in found]
    return answer(JobPage(page, cursor(BEFORE, found.next_id)))


async def cancel(call: Call[NoQuery, CancelJob]) -> web.Response:
    job_id = await _own_job_id(call)
    # with the scope produce alone it is a program, whose cancelling nobody looks up
    db = call.acting if "operate" in call.caller.scopes else call.services.db
    status = await db(calls.cancel, job_id=job_id, reason=call.body.reason)
    return await _changed(call, job_id, status, 200 if status == "cancelled" else 202)


async def retry(call: Call[NoQuery, None]) -> web.Response:
    job_id = await _own_job_id(call)
    await call.acting(calls.redrive, job_ids=[job_id])
    return await _changed(call, job_id, "pending")


async def cancel_many(call: Call[NoQuery, CancelJobs]) -> web.Response:
    given = call.body
    done = await call.acting(
        calls.cancel_many,
        job_ids=given.ids,
        queue=queue_filter(call.caller, given.queue),
        kind=one_of(given.kind, given.type),
        state=given.state,
        created_after=given.created_after,
        created_before=given.created_before,
        reason=given.reason,
        n=given.limit,
        dry_run=given.dry_run,
        after_id=cursor_id(AFTER, given.cursor),
    )
    more = done.last_id is not None or done.deferred > 0
    next_cursor = cursor(AFTER, done.last_id)
    return answer(CancelledJobs(done.cancelled, done.asked, done.deferred, more, next_cursor))


async def _record(call: Call[Any, Any], job_id: int) -> JobRecord:
    """JobNotFoundError, too, if the job is in a queue that is not the caller's."""
    record = await call.services.db(calls.get_job, job_id=job_id)
    if not call.caller.may_use(record.queue):
        raise JobNotFoundError(f"no job {job_id}")
    return record


async def _own_job_id(call: Call[Any, Any]) -> int:
    """The job of the path, if it is in one of the caller's queues."""
    job_id = await call.job_id()
    if call.caller.queues is not None:
        await _record(call, job_id)
    return job_id


async def _changed(
    call: Call[Any, Any], job_id: int, status: Any, http_status: int = 200
) -> web.Response:
    uuid = await call.services.uuid(job_id)
    return answer(ChangedJob(job_id, uuid, status), http_status)


def _wait_s(text: str | None) -> float:
    if text is None:
        return 0.0
    seconds = parse_duration(text)
    if seconds is None or seconds > MOST_WAIT_S:
        raise invalid(f"invalid wait: {text[:80]}", hint="give up to 60s, like 30s or 500ms")
    return seconds


ROUTES = (
    Route(
        method="GET",
        path="/jobs",
        handler=list_jobs,
        summary="List jobs, newest first",
        scope="monitor",
        query=ListQuery,
        answer=JobPage,
        errors=("JQ001",),
    ),
    Route(
        method="GET",
        path="/jobs/{id}",
        handler=get_job,
        summary="Everything about one job; with wait, once it has ended",
        scope="monitor",
        query=JobQuery,
        answer=Job,
        errors=("JQ001", "JQ003"),
    ),
    Route(
        method="POST",
        path="/jobs/{id}/cancel",
        handler=cancel,
        summary="Cancel a job: 200 it is cancelled, 202 it runs and was asked to stop",
        scope="produce",
        body=CancelJob,
        body_may_be_empty=True,
        answer=ChangedJob,
        statuses=(200, 202),
        errors=("JQ001", "JQ003", "JQ005"),
        changes=True,
    ),
    Route(
        method="POST",
        path="/jobs/{id}/retry",
        handler=retry,
        summary="Put a dead letter back: pending again, attempts 0",
        scope="operate",
        answer=ChangedJob,
        errors=("JQ001", "JQ003", "JQ005"),
        changes=True,
    ),
    Route(
        method="POST",
        path="/jobs/cancel",
        handler=cancel_many,
        summary="Cancel many jobs by filter; dry_run counts them first",
        scope="operate",
        body=CancelJobs,
        answer=CancelledJobs,
        errors=("JQ001", "JQ003"),
        changes=True,
    ),
    replace(REDRIVE, path="/jobs/redrive"),
)
