"""Attempts: whatever a handler returns or raises, its state can be written."""

from __future__ import annotations

import asyncio
import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pydantic
import pytest

from pybatchq import attempts
from pybatchq.attempts import Attempt
from pybatchq.endings import MAX_ERROR, Ending, clean, describe
from pybatchq.errors import Cancelled, PermanentError, RetryIn, Snooze
from pybatchq.handlers import Registry
from pybatchq.job import Job
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


async def run(function: Any, *, options: dict[str, Any] | None = None, **changes: Any) -> Ending:
    """The ending of one attempt, with nothing but the handler and an item."""
    registry = Registry()
    registry.handler("k", **(options or {}))(function)
    leased = item(**changes)
    attempt = Attempt(leased, registry.by_kind["k"], Job(leased, 0, no_progress))
    with ThreadPoolExecutor(1) as threads:

        async def in_thread(attempt: Attempt) -> Ending:
            return await asyncio.get_running_loop().run_in_executor(
                threads, attempts.run_here, attempt.handler, attempt.job, attempt.item.payload
            )

        async with asyncio.timeout(10):
            return await attempts.run(attempt, in_thread)


def no_progress(_item: WorkItem, _text: str) -> None:
    raise AssertionError("no progress here")


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

    ending = await run(coroutine if is_async else function)
    assert ending.event in {"failed", "released"}
    assert "cancelled from inside" not in (ending.text or "")


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

    event, error, permanent, wait_s, what = await run(handler)
    assert (event, permanent, wait_s, what) == ("failed", True, None, "result cannot be stored")
    assert error is not None
    assert error.startswith("result cannot be stored: ")
    assert len(error) <= 500


async def test_f061_a_payload_too_deep_for_python_fails_by_itself() -> None:
    async def handler(payload: Any) -> None:
        raise AssertionError("never called")

    ending = await run(handler, payload=b"[" * 6000 + b"]" * 6000)
    assert ending.text == "decode payload: payload: nested too deeply"
    assert ending.permanent


async def test_requests_of_a_handler_become_endings_with_their_waits() -> None:
    async def raises(error: Exception) -> Ending:
        async def handler(payload: Any) -> None:
            raise error

        return await run(handler)

    assert await raises(Snooze(5)) == Ending("released", wait_s=5)
    busy = Ending("failed", "busy", wait_s=5, what="RetryIn")
    assert await raises(RetryIn(5, "busy")) == busy
    bad = Ending("failed", "bad", permanent=True, what="PermanentError")
    assert await raises(PermanentError("bad")) == bad
    assert (await raises(Cancelled())).text == "the handler was cancelled from inside"


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "thread"])
@pytest.mark.parametrize(
    ("options", "error", "permanent", "wait_s"),
    [
        ({"permanent": [LookupError]}, KeyError("k"), True, None),
        ({"permanent": [LookupError]}, ValueError("v"), False, None),
        ({"retry": [OSError]}, ConnectionError("c"), False, None),
        ({"retry": [OSError]}, ValueError("v"), True, None),
        ({"backoff": lambda attempt, _: attempt * 7}, ValueError("v"), False, 14),
        ({"backoff": lambda *_: None}, ValueError("v"), False, None),
        ({"backoff": lambda *_: math.nan}, ValueError("v"), False, None),
        ({"backoff": lambda *_: 1 / 0}, ValueError("v"), False, None),
        ({"backoff": lambda *_: 7}, RetryIn(3), False, 3),
    ],
)
async def test_a_handlers_policy_says_what_its_exceptions_mean(
    options: dict[str, Any], error: Exception, permanent: bool, wait_s: float | None, is_async: bool
) -> None:
    async def coroutine(payload: Any) -> None:
        raise error

    def function(payload: Any) -> None:
        raise error

    ending = await run(coroutine if is_async else function, options=options, attempt=2)
    assert (ending.event, ending.permanent, ending.wait_s) == ("failed", permanent, wait_s)


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "thread"])
async def test_hooks_surround_an_attempt_and_learn_how_it_ended(is_async: bool) -> None:
    seen: list[Any] = []

    async def coroutine(payload: Any) -> None:
        seen.append("run")
        raise ValueError("v")

    def function(payload: Any) -> None:
        seen.append("run")
        raise ValueError("v")

    options = {
        "before": lambda job: seen.append(job.id),
        "after": lambda _job, error: seen.append(type(error)),
    }
    await run(coroutine if is_async else function, options=options)
    assert seen == [7, "run", ValueError]


async def test_what_a_hook_raises_before_fails_the_attempt_and_after_is_only_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("hook")

    async def handler(payload: Any) -> int:
        return 5

    assert (await run(handler, options={"before": fail})).what == "RuntimeError"
    assert await run(handler, options={"after": fail}) == Ending("completed", "5")
    assert "hook failed" in caplog.text


async def test_a_deliberate_verdict_names_what_it_came_from() -> None:
    async def handler(payload: Any) -> None:
        try:
            int("x")
        except ValueError as error:
            raise RetryIn(5, "bad number") from error

    text = (await run(handler)).text or ""
    assert text.startswith("bad number\n\ncaused by ValueError: invalid literal")


async def test_the_place_of_an_error_is_the_users_own() -> None:
    async def handler(payload: Any) -> None:
        empty: dict[str, Any] = {}
        empty["missing"]

    text = (await run(handler)).text or ""
    assert text.startswith("KeyError: 'missing'\n\n  File")
    assert "attempts.py" not in text.replace("test_attempts.py", "")
    assert "^" not in text


async def test_a_pydantic_model_is_a_result() -> None:
    class Out(pydantic.BaseModel):
        n: int

    async def handler(payload: Any) -> Out:
        return Out(n=5)

    assert (await run(handler)).text == '{"n":5}'
