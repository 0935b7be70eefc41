"""One look-up for all who need the same at the same time."""

from __future__ import annotations

import asyncio

import pytest

from pybatchq.api.shared import Shared


class Source:
    """Answers when it is told to, and counts how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def __call__(self) -> str:
        self.asked += 1
        return await asyncio.shield(self.answer)


async def turns(number: int) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


async def test_a01_a_thousand_at_once_are_one_look_up_and_all_have_it_a_few_turns_later() -> None:
    shared, source = Shared(), Source()
    waiting = [asyncio.ensure_future(shared("it", source)) for _ in range(1_000)]
    await turns(3)
    source.answer.set_result("found")
    await turns(10)
    assert all(task.done() for task in waiting)
    assert {task.result() for task in waiting} == {"found"}
    assert source.asked == 1


async def test_what_was_found_is_not_kept() -> None:
    shared, source = Shared(), Source()
    source.answer.set_result("found")
    assert [await shared("it", source), await shared("it", source)] == ["found"] * 2
    assert source.asked == 2


async def test_different_things_do_not_wait_for_each_other() -> None:
    shared, held, free = Shared(), Source(), Source()
    waiting = asyncio.ensure_future(shared("one", held))
    await turns(2)
    free.answer.set_result("found")
    assert await shared("two", free) == "found"
    assert not waiting.done()
    held.answer.set_result("later")
    assert await waiting == "later"


async def test_all_get_the_error_and_the_next_one_looks_again() -> None:
    shared, source = Shared(), Source()
    waiting = [asyncio.ensure_future(shared("it", source)) for _ in range(3)]
    await turns(3)
    source.answer.set_exception(ValueError("away"))
    for result in await asyncio.gather(*waiting, return_exceptions=True):
        assert isinstance(result, ValueError)
    again = Source()
    again.answer.set_result("found")
    assert await shared("it", again) == "found"


async def test_when_the_one_who_looks_leaves_another_one_does() -> None:
    shared, source = Shared(), Source()
    first, *others = [asyncio.ensure_future(shared("it", source)) for _ in range(3)]
    await turns(3)
    first.cancel()
    await turns(5)
    assert source.asked == 2
    source.answer.set_result("found")
    assert await asyncio.gather(*others) == ["found"] * 2
    assert first.cancelled()


async def test_one_who_waits_can_leave_alone() -> None:
    shared, source = Shared(), Source()
    first, second = [asyncio.ensure_future(shared("it", source)) for _ in range(2)]
    await turns(3)
    second.cancel()
    await turns(3)
    source.answer.set_result("found")
    assert await first == "found"
    assert second.cancelled()


async def test_what_is_begun_is_waited_for_by_those_who_need_it_only() -> None:
    shared, source = Shared(), Source()
    shared.begin("it", source)
    shared.begin("it", source)
    await turns(2)
    waiting = asyncio.ensure_future(shared("it", source))
    await turns(2)
    source.answer.set_result("found")
    assert await waiting == "found"
    assert source.asked == 1


async def test_an_error_of_what_was_begun_is_nobodys(caplog: pytest.LogCaptureFixture) -> None:
    shared, source = Shared(), Source()
    source.answer.set_exception(ValueError("away"))
    shared.begin("it", source)
    await turns(5)
    assert not caplog.records
    with pytest.raises(ValueError, match="away"):
        await shared("it", source)
