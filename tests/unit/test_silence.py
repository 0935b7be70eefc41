"""How long somebody may be silent, in a loop that is really blocked."""

from __future__ import annotations

import asyncio
import time

import pytest

from pybatchq.silence import LATE_S, silence


async def test_who_says_nothing_for_so_long_is_given_up() -> None:
    at = time.monotonic()
    with pytest.raises(TimeoutError):
        async with silence(0.1):
            await asyncio.Event().wait()
    assert time.monotonic() - at >= 0.1


async def test_who_answers_in_time_is_heard_and_no_timer_is_left() -> None:
    async with silence(0.05):
        await asyncio.sleep(0)
    await asyncio.sleep(0.1)  # a timer that was left would end this


async def test_what_was_said_while_the_loop_stood_still_is_heard() -> None:
    """The answer takes some turns of the loop more, as one of several packets does."""
    loop = asyncio.get_running_loop()
    answer = loop.create_future()
    async with silence(0.2):
        loop.call_soon(time.sleep, 0.2 + 3 * LATE_S)
        loop.call_later(0.25, answer.set_result, "here")
        await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)
        assert await answer == "here"


async def test_a_block_is_forgiven_but_silence_after_it_is_not() -> None:
    asyncio.get_running_loop().call_soon(time.sleep, 0.1 + 3 * LATE_S)
    with pytest.raises(TimeoutError):
        async with silence(0.1):
            await asyncio.Event().wait()


async def test_a_cancellation_stays_one() -> None:
    async def waits() -> None:
        async with silence(5.0):
            await asyncio.Event().wait()

    task = asyncio.create_task(waits())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
