"""Waiting for an answer, in an event loop that a handler may have kept from reading it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

LATE_S = 0.1


@contextlib.asynccontextmanager
async def silence(longest_s: float) -> AsyncIterator[None]:
    """TimeoutError after so many seconds in which the loop turned and the block did not end.

    A timer that fires late tells that the loop stood still: what others said meanwhile was not read
    yet, so it is no silence of theirs, and they have the time once more.
    """
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle

    def over() -> None:
        now = loop.time()
        if now - timer.when() > LATE_S:
            start(now)
        else:
            limit.reschedule(now)

    def start(now: float) -> None:
        nonlocal timer
        timer = loop.call_at(now + longest_s, over)

    start(loop.time())
    try:
        async with asyncio.timeout(None) as limit:
            yield
    finally:
        timer.cancel()
