"""Bodies: read with a limit while they arrive, and with an end to patience."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

from aiohttp import web

from pybatchq.api.errors import ApiError, refused

JSON = "application/json"
NDJSON = ("application/x-ndjson", "application/ndjson", "application/jsonl")
# How long a client may send nothing, and how fast it must be all in all after a first grace.
SILENCE_S = 10.0
FIRST_S = 20.0
LEAST_BYTES_PER_S = 16_384


async def read(request: web.Request, limit: int) -> bytes:
    """The whole body; ApiError 413 as soon as it is too long, 408 when it comes too slowly."""
    length = request.content_length
    if length is not None and length > limit:
        raise too_large(limit)
    if not request.content.is_eof():
        return b"".join([chunk async for chunk in stream(request, limit)])
    try:
        body = request.content.read_nowait()  # it came together with the head, or there is none
    except web.RequestPayloadError as error:
        raise malformed(error) from None
    if len(body) > limit:
        raise too_large(limit)
    return body


async def stream(request: web.Request, limit: int | None) -> AsyncIterator[bytes]:
    """The body piece by piece, never more than limit bytes in all."""
    started = time.monotonic()
    taken = 0
    while True:
        spent = time.monotonic() - started
        left = FIRST_S + taken / LEAST_BYTES_PER_S - spent
        try:
            async with asyncio.timeout(min(SILENCE_S, max(left, 0))):
                chunk = await request.content.readany()
        except TimeoutError:
            raise refused(408, "the body comes too slowly") from None
        except web.RequestPayloadError as error:
            raise malformed(error) from None
        if not chunk:
            return
        taken += len(chunk)
        if limit is not None and taken > limit:
            raise too_large(limit)
        yield chunk


def check_type(request: web.Request, *more: str) -> str:
    """The body's media type, which is JSON or one of these; ApiError 415 otherwise."""
    given = request.headers.get("Content-Type", "")
    kind = given if given == JSON else given.partition(";")[0].strip().lower()
    if kind != JSON and kind not in more:
        shown = kind[:80] or "none"
        hint = f"send Content-Type: {' or '.join((JSON, *more[:1]))}"
        raise refused(415, f"the body's type is {shown}, not JSON", hint=hint)
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise refused(415, "the body is compressed", hint="send it as it is")
    return kind


def too_large(limit: int) -> ApiError:
    return refused(413, f"the body is longer than {limit:,} bytes", name="body_too_large")


def malformed(error: web.RequestPayloadError) -> ApiError:
    return refused(400, f"the body is malformed: {error}", name="malformed_body")
