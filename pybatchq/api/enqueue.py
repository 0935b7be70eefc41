"""POST /jobs, and many at once: all or none, or line by line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import psycopg
from aiohttp import web
from msgspec import UNSET, Raw

from pybatchq import calls, tracing
from pybatchq.api import bodies, idempotency
from pybatchq.api.answers import answer, error_answer
from pybatchq.api.decoding import Decoder
from pybatchq.api.errors import (
    ApiError,
    as_api_error,
    invalid,
    place_of,
    refused,
    without_place,
)
from pybatchq.api.models import (
    AcceptedJob,
    BulkAccepted,
    BulkJob,
    NewJob,
    NewJobs,
    StreamAccepted,
    encode_spec,
)
from pybatchq.api.routes import Call, NoQuery, Route
from pybatchq.errors import BatchqError
from pybatchq.types import EnqueuedJob

BULK_S: Final = 30.0
LINES_AT_ONCE: Final = 1_000
BYTES_AT_ONCE: Final = 1024 * 1024

_decode_one = Decoder(NewJob)
_decode_many: Decoder[Any] = Decoder(NewJobs | list[NewJob], of=NewJob)  # type: ignore[arg-type]


async def enqueue(call: Call[NoQuery, NewJob]) -> web.Response:
    job, services = call.body, call.services
    job.check()
    call.caller.check_queue(job.queue_name)
    key = call.request.headers.get(idempotency.HEADER)
    fingerprint = None if key is None else idempotency.claim(job, key)
    trace = tracing.current_headers(None)
    if trace is not None:
        idempotency.add_headers(job, trace)
    row = await services.gatherer.add(
        encode_spec(job),
        keyed=job.dedupe_key is not UNSET,
        queue=job.queue_name,
        later=job.delay is not UNSET or job.run_at is not UNSET,
    )
    if fingerprint is not None and not row.is_new:
        await idempotency.check_same(services.db, row.job_id, fingerprint)
    uuid = await services.uuid(row.job_id)
    accepted = AcceptedJob(row.job_id, uuid, duplicate=not row.is_new)
    return answer(accepted, 201 if row.is_new else 200)


async def enqueue_many(call: Call[NoQuery, Any]) -> web.StreamResponse:
    request, services = call.request, call.services
    if idempotency.HEADER in request.headers:
        hint = "give each job a dedupe_key, with dedupe_for to keep it for a while"
        raise invalid(f"{idempotency.HEADER} is for POST /jobs", hint=hint)
    if bodies.check_type(request, *bodies.NDJSON) in bodies.NDJSON:
        return await _Stream(call).enqueue()
    data = await bodies.read(request, services.settings.max_bulk_body)
    given = _decode_many(data)
    jobs = given.jobs if isinstance(given, NewJobs) else given
    if len(jobs) > services.settings.max_bulk:
        hint = f"send at most {services.settings.max_bulk:,}, or lines: {bodies.NDJSON[0]}"
        raise refused(413, f"these are {len(jobs):,} jobs", name="too_many_jobs", hint=hint)
    rows = await _store_all(call, jobs)
    accepted = [
        BulkJob(row.job_id, await services.uuid(row.job_id), not row.is_new) for row in rows
    ]
    return answer(BulkAccepted(accepted), 201 if any(row.is_new for row in rows) else 200)


async def _store_all(call: Call[NoQuery, Any], jobs: list[NewJob]) -> list[EnqueuedJob]:
    """All or none; the error of a bad one names its place."""
    trace = tracing.current_headers(None)
    specs: list[bytes] = []
    for job in jobs:
        if len(specs) % LINES_AT_ONCE == 0:
            await asyncio.sleep(0)  # others want to be served, too
        try:
            specs.append(_spec(call, job, trace))
        except ApiError as error:
            raise error.changed(detail=f"job {len(specs) + 1}") from None
    try:
        return await _store(call, specs)
    except BatchqError as error:
        shown, place = as_api_error(error), place_of(error)
        if shown is None or place is None:
            raise
        raise shown.changed(message=without_place(error), detail=f"job {place}") from None


class _Stream:
    """Jobs as lines, stored some at a time and in order; what came before a fault stays stored."""

    def __init__(self, call: Call[NoQuery, Any]) -> None:
        self._call = call
        self._trace = tracing.current_headers(None)
        self._limit = call.services.settings.max_body
        self._waiting: list[tuple[int, bytes]] = []  # the line's number, and its job
        self._size = 0
        self._line = 0
        self._taken = 0
        self._duplicates = 0

    async def enqueue(self) -> web.Response:
        """Answers how many were taken, also where that was not all."""
        try:
            await self._take()
        except (ApiError, psycopg.Error) as error:
            shown = as_api_error(error)
            if shown is None:
                raise
            place = "" if shown.body.detail is None else f"{shown.body.detail}; "
            return error_answer(shown.changed(detail=f"{place}taken: {self._taken}"))
        return answer(StreamAccepted(self._taken, self._duplicates), 201)

    async def _take(self) -> None:
        try:
            async for line in self._lines():
                await self._add(line)
        except ApiError:
            await self._flush()  # what came before
            raise
        await self._flush()

    async def _lines(self) -> AsyncIterator[bytes]:
        rest = b""
        async for chunk in bodies.stream(self._call.request, None):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                self._line += 1
                yield line
            if len(rest) > self._limit:
                break
        self._line += 1
        yield rest

    async def _add(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            if len(line) > self._limit:
                raise bodies.too_large(self._limit)
            spec = _spec(self._call, _decode_one(line), self._trace)
        except ApiError as error:
            raise error.changed(detail=f"line {self._line}") from None
        self._waiting.append((self._line, spec))
        self._size += len(spec)
        if len(self._waiting) >= LINES_AT_ONCE or self._size >= BYTES_AT_ONCE:
            await self._flush()

    async def _flush(self) -> None:
        """Store what waits; up to the bad one, if the database finds one, whose error it raises."""
        waiting, self._waiting, self._size = self._waiting, [], 0
        if not waiting:
            return
        try:
            await self._store(waiting)
        except BatchqError as error:
            place = place_of(error)
            if place is None:
                detail = f"lines {waiting[0][0]} to {waiting[-1][0]}"
            else:
                detail = f"line {waiting[place - 1][0]}"
                await self._store(waiting[: place - 1])
            shown = as_api_error(error)
            if shown is None:
                raise
            raise shown.changed(message=without_place(error), detail=detail) from None

    async def _store(self, waiting: list[tuple[int, bytes]]) -> None:
        if waiting:
            rows = await _store(self._call, [spec for _, spec in waiting])
            self._taken += len(rows)
            self._duplicates += sum(not row.is_new for row in rows)


def _spec(call: Call[NoQuery, Any], job: NewJob, trace: Mapping[str, Any] | None) -> bytes:
    """A job as enqueue_many takes it; ApiError if it or its queue is refused."""
    job.check()
    call.caller.check_queue(job.queue_name)
    if trace is not None:
        idempotency.add_headers(job, trace)
    return encode_spec(job)


async def _store(call: Call[NoQuery, Any], specs: list[bytes]) -> list[EnqueuedJob]:
    """All of them in one transaction, or none."""
    jobs = Raw(b"[" + b",".join(specs) + b"]")
    return await call.services.db.run(
        lambda conn: calls.enqueue_many(conn, jobs=jobs), within_s=BULK_S
    )


ROUTES = (
    Route(
        method="POST",
        path="/jobs",
        handler=enqueue,
        summary="Enqueue a job",
        scope="produce",
        body=NewJob,
        answer=AcceptedJob,
        statuses=(201, 200),
        errors=("JQ001", "JQ006"),
        changes=True,
    ),
    *(
        Route(
            method="POST",
            path=path,
            handler=enqueue_many,
            summary="Enqueue many jobs: a JSON array is stored as a whole or not at all,"
            " lines of JSON (application/x-ndjson) are stored as they come",
            scope="produce",
            body=NewJobs,
            body_size="bulk",
            reads_body=True,
            answer=BulkAccepted,
            statuses=(201, 200),
            errors=("JQ001", "JQ006"),
            changes=True,
        )
        for path in ("/jobs/bulk", "/jobs:bulk")
    ),
)
