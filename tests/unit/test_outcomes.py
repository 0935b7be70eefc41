"""Outcomes and the text of errors: whatever a handler raises, its state can be written."""

from __future__ import annotations

import asyncio
import math
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from pybatchq import attempts
from pybatchq.attempts import Attempt, UnknownKinds
from pybatchq.errors import PermanentError, RetryIn, Snooze
from pybatchq.handlers import Job, Registry
from pybatchq.outcomes import MAX_ERROR, Outcomes, clean, describe
from pybatchq.types import JobId, LeaseId, WorkItem


def raised(error: BaseException) -> BaseException:
    """The same, with a traceback."""

    def fail() -> None:
        raise error

    try:
        fail()
    except BaseException as caught:  # noqa: BLE001
        return caught
    return error


def deep(frames: int) -> None:
    if frames == 0:
        raise RecursionError("deep")
    deep(frames - 1)


class MuteError(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


class LeavingError(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class NotTextError(Exception):
    def __str__(self) -> Any:
        return len(self.args)


HOSTILE = {
    "str_raises": MuteError(),
    "str_exits": LeavingError(),
    "str_is_no_text": NotTextError(),
    "surrogate": ValueError("file \udce5 is gone"),
    "nul": ValueError("a\0b"),
    "5_mb": ValueError("x" * 5_000_000 + " the end"),
    "group": BaseExceptionGroup("two", [ValueError("one"), KeyboardInterrupt()]),
    "exit": SystemExit(1),
    "interrupt": KeyboardInterrupt(),
    "empty": ValueError(),
    "long_name": type("N" * 5000, (Exception,), {})("text"),
}


@pytest.mark.parametrize("error", HOSTILE.values(), ids=HOSTILE)
def test_f062_f086_every_error_has_a_text_that_can_be_stored(error: BaseException) -> None:
    text = describe(raised(error))
    assert 0 < len(text) <= MAX_ERROR
    assert "\0" not in text
    text.encode()  # no lone surrogate


def test_a39_the_first_line_is_type_and_message_and_the_place_follows() -> None:
    text = describe(raised(KeyError("who")))
    assert text.splitlines()[0] == "KeyError: 'who'"
    assert text.rstrip().endswith("raise error")


def test_f062_a_long_message_keeps_its_head_and_its_tail() -> None:
    text = describe(ValueError("x" * 5_000_000 + " the end"))
    assert text.startswith("ValueError: xxx")
    assert text.endswith("the end")


def test_f062_of_a_traceback_of_many_frames_the_end_is_kept() -> None:
    try:
        deep(900)
    except RecursionError as error:
        text = describe(error)
    assert text.startswith("RecursionError: deep\n\n")
    assert 'raise RecursionError("deep")' in text
    assert len(text) <= MAX_ERROR


def test_d5_what_cannot_be_stored_is_replaced() -> None:
    assert clean("a\0b\ud800c", 100) == "a\ufffdb?c"
    assert len(clean("x" * 1000, 101)) <= 101


def item(**changes: Any) -> WorkItem:
    fields: dict[str, Any] = {
        "event": "leased", "job_id": JobId(7), "lease_id": LeaseId(8), "lease_s": 60.0,
        "queue": "q", "kind": "k", "payload": b"{}", "attempt": 1, "max_attempts": 3,
        "timeout_s": None, "headers": None,
    }  # fmt: skip
    return WorkItem(**{**fields, **changes})


async def run(function: Any, **changes: Any) -> Outcomes:
    """What comes out of one attempt, with nothing but the handler and an item."""
    registry = Registry()
    registry.handler("k")(function)

    async def save(_job: Job, _value: Any) -> None:
        raise AssertionError("no progress here")

    outcomes = Outcomes()
    leased = item(**changes)
    attempt = Attempt(leased, registry.by_kind["k"], Job(leased, save))
    with ThreadPoolExecutor(1) as threads:
        async with asyncio.timeout(10):
            await attempts.run(attempt, outcomes, threads)
    return outcomes


RAISED = {
    **HOSTILE,
    "stop_iteration": StopIteration(1),
    "generator_exit": GeneratorExit(),
    "timeout": TimeoutError("t"),
    "retry_nan": RetryIn(math.nan),
    "snooze_nan": Snooze(math.nan),
    "snooze_inf": Snooze(math.inf),
    "retry_huge": RetryIn(1e300),
    "retry_past": RetryIn(-5),
}


@pytest.mark.parametrize("error", RAISED.values(), ids=RAISED)
@pytest.mark.parametrize("is_async", [True, False], ids=["async", "thread"])
async def test_a39_f086_whatever_is_raised_is_one_outcome_of_that_attempt(
    error: BaseException, is_async: bool
) -> None:
    async def coroutine(payload: Any) -> None:
        raise error

    def function(payload: Any) -> None:
        raise error

    outcomes = await run(coroutine if is_async else function)
    assert len(outcomes) == 1
    assert not outcomes.completed
    assert not any("cancelled from inside" in text for _, _, text, _, _ in outcomes.failed)


class BadDict(dict[str, Any]):
    def items(self) -> Any:
        raise ZeroDivisionError


circle: list[Any] = []
circle.append(circle)
HOSTILE_RESULTS: dict[str, Any] = {
    "object": object(),
    "set": {1, 2},
    "bytes": b"x",
    "nan": {"x": math.nan},
    "inf": [math.inf],
    "nul": "a\0b",
    "surrogate": "\ud800",
    "bad_dict": BadDict(a=1),
    "50_mb": "x" * 50_000_000,
    "1_mib_of_umlauts": "ä" * 600_000,
    "itself": circle,
    "coroutine_function": run,
}


@pytest.mark.parametrize("result", HOSTILE_RESULTS.values(), ids=HOSTILE_RESULTS)
async def test_f059_f062_f086_a_result_that_cannot_be_stored_fails_the_job_with_a_plain_text(
    result: Any,
) -> None:
    async def handler(payload: Any) -> Any:
        return result

    outcomes = await run(handler)
    ((job_id, lease_id, error, permanent, wait),) = outcomes.failed
    assert (job_id, lease_id, permanent, wait) == (7, 8, True, None)
    assert error.startswith("result cannot be stored: ")
    assert len(error) <= 500
    assert not outcomes.completed


async def test_f061_a_payload_too_deep_for_python_fails_by_itself() -> None:
    async def handler(payload: Any) -> None:
        raise AssertionError("never called")

    outcomes = await run(handler, payload=b"[" * 6000 + b"]" * 6000)
    ((_, _, error, permanent, _),) = outcomes.failed
    assert error == "decode payload: nested too deeply"
    assert permanent


async def test_requests_of_a_handler_become_outcomes_with_their_waits() -> None:
    async def raises(error: Exception) -> Outcomes:
        async def handler(payload: Any) -> None:
            raise error

        return await run(handler)

    assert (await raises(Snooze(5))).released == [(7, 8, timedelta(seconds=5))]
    ((_, _, text, permanent, wait),) = (await raises(RetryIn(5, "busy"))).failed
    assert (text.splitlines()[0], permanent, wait) == ("RetryIn: busy", False, timedelta(seconds=5))
    ((_, _, text, permanent, wait),) = (await raises(PermanentError("bad"))).failed
    assert (text.splitlines()[0], permanent, wait) == ("PermanentError: bad", True, None)


async def test_f067_a_wait_in_the_past_means_now_and_a_huge_one_is_the_databases_to_refuse() -> (
    None
):
    outcomes = Outcomes()
    outcomes.fail(item(), "e", retry_in_s=-5)
    outcomes.fail(item(), "e", retry_in_s=1e300)
    past, huge = (one[4] for one in outcomes.failed)
    assert past == timedelta(0)
    assert huge is not None
    assert huge > timedelta(days=3653)


def test_f013_what_got_no_answer_is_kept_in_front_of_what_came_since() -> None:
    outcomes = Outcomes()
    outcomes.complete(item(), "1")
    taken = outcomes.take()
    assert len(outcomes) == 0
    outcomes.complete(item(job_id=9), "2")
    outcomes.put_back(taken)
    assert [one[0] for one in outcomes.completed] == [7, 9]


def test_f047_outcomes_can_be_tried_one_by_one_and_turned_into_failures() -> None:
    outcomes = Outcomes()
    outcomes.complete(item(job_id=1), "1")
    outcomes.fail(item(job_id=2), "e")
    outcomes.release(item(job_id=3), 4)
    singles = outcomes.singly()
    assert [len(single) for single in singles] == [1, 1, 1]
    assert [single.is_failure() for single in singles] == [False, True, False]
    assert not Outcomes(failed=[(1, 8, "e", False, timedelta(1))]).is_failure()
    refused = singles[0].as_failure("refused\0")
    assert refused.failed == [(1, 8, "refused\ufffd", True, None)]
    assert refused.is_failure()
    assert outcomes.only(2, 8).failed == [(2, 8, "e", False, None)]
    assert len(outcomes.only(2, 9)) == 0


def test_arguments_leave_out_what_is_empty() -> None:
    outcomes = Outcomes()
    assert outcomes.arguments() == {}
    outcomes.complete(item(), None)
    assert outcomes.arguments() == {"completed_ids": (7,), "completed_leases": (8,)}
    outcomes.complete(item(), "1")
    assert outcomes.arguments()["results"] == [None, "1"]


def test_f079_d2_unknown_kinds_go_back_for_longer_each_time_up_to_a_cap(
    caplog: pytest.LogCaptureFixture,
) -> None:
    unknown, outcomes = UnknownKinds(), Outcomes()
    for _ in range(30):
        unknown.put_back(item(), outcomes)
    waits = [wait.total_seconds() for _, _, wait in outcomes.released if wait is not None]
    assert waits[:4] == [1, 2, 4, 8]
    assert waits == sorted(waits)
    assert waits[-1] == 300
    assert len(caplog.records) == 1
