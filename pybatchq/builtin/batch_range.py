"""The kind batch_range: adds up a range of whole numbers, visiting each. A CPU-bound job."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated

from msgspec import Meta, Struct

from pybatchq.errors import PermanentError
from pybatchq.job import Job

CHUNK = 100_000
MAX_COUNT = 1_000_000_000
MAX_NUMBER = 2**53 - 1  # what every reader of JSON can hold exactly

# One chunk at a time in this process: under the interpreter's lock more threads gain nothing, and
# the event loop, with all its heartbeats, never waits for more than one chunk. Jobs take turns.
_thread = ThreadPoolExecutor(1, thread_name_prefix="batch_range")


class BatchRange(Struct, frozen=True):
    start: Annotated[int, Meta(ge=-MAX_NUMBER, le=MAX_NUMBER)]
    end: Annotated[int, Meta(ge=-MAX_NUMBER, le=MAX_NUMBER)]


async def batch_range(payload: BatchRange, job: Job) -> dict[str, int]:
    """Sum of `start` to `end`, both included; progress is `{"done", "count"}` after each chunk.

    Being cancelled shows between two chunks, a few milliseconds apart.
    """
    start, end = payload.start, payload.end
    count = end - start + 1
    if end < start:
        raise PermanentError(f"decode payload: end: {end} is before start, {start}")
    if count > MAX_COUNT:
        raise PermanentError(f"decode payload: end: {count} numbers; allowed: {MAX_COUNT}")
    loop = asyncio.get_running_loop()
    total = 0
    for first in range(start, end + 1, CHUNK):
        chunk = range(first, min(first + CHUNK, end + 1))
        # sum() takes every number from the range's iterator; there is no shortcut for ranges
        total += await loop.run_in_executor(_thread, sum, chunk)
        job.progress({"done": chunk.stop - start, "count": count})
    return {"start": start, "end": end, "count": count, "sum": total}
