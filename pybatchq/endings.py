"""How an attempt ended: what its handler returned or raised, as the database will be told.

Made where the handler ran, in the worker or in a process of its own, so it is small and plain.
"""

from __future__ import annotations

import asyncio
import traceback
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pybatchq import jsontext
from pybatchq.errors import Cancelled, InvalidArgumentError, PermanentError, RetryIn, Snooze
from pybatchq.handlers import Policy, RunsIn
from pybatchq.payloads import PayloadError

Stop = Literal["cancelled", "lost", "timed_out", "shutdown"]
MAX_ERROR = 2048
# the module that calls handlers, whose frames tell a user nothing
CALLER = str(Path(__file__).with_name("attempts.py"))
UNSTORABLE = "result cannot be stored"
MAX_RESULT_BYTES = 1_048_576


class Ending(NamedTuple):
    """What to tell the database. `text` is the result's JSON, or an error.

    `stopped`: the handler ended because it was told to; `dropped`: there is nobody to tell, the
    lease is another's. wait_s: until the next attempt; None: the job's own backoff, or at once if
    released. what: the kind of failure, for logs, which must not show the text.
    """

    event: Literal["completed", "failed", "released", "stopped", "dropped"]
    text: str | None = None
    permanent: bool = False
    wait_s: float | None = None
    what: str = "error"


COMPLETED = Ending("completed")
RELEASED = Ending("released")
STOPPED = Ending("stopped")
DROPPED = Ending("dropped")
CANCELLED = Ending("failed", "cancelled", permanent=True, what="cancelled")


def returned(value: Any) -> Ending:
    """The value a handler returned is the result, if it is JSON of at most 1 MiB."""
    if value is None:
        return COMPLETED
    try:
        text = jsontext.encode(value)
    except InvalidArgumentError as error:
        reason = clean(f"{UNSTORABLE}: {error}", 500)
        return Ending("failed", reason, permanent=True, what=UNSTORABLE)
    if len(text) > MAX_RESULT_BYTES or len(text.encode()) > MAX_RESULT_BYTES:
        return Ending("failed", f"{UNSTORABLE}: it is over 1 MiB", permanent=True, what=UNSTORABLE)
    return Ending("completed", text)


def raised(error: BaseException, policy: Policy, attempt: int) -> Ending:
    """What a handler raised, under its policy. Never fails, whatever the exception does."""
    if isinstance(error, asyncio.CancelledError | Cancelled):
        return STOPPED
    # a wait that is NaN is no wait: the job's backoff it is
    if isinstance(error, Snooze) and error.seconds == error.seconds:
        return Ending("released", wait_s=error.seconds)
    what, text = type(error).__qualname__, describe(error)
    if isinstance(error, RetryIn) and error.seconds == error.seconds:
        return Ending("failed", text, wait_s=error.seconds, what=what)
    if policy.is_permanent(error):
        return Ending("failed", text, permanent=True, what=what)
    return Ending("failed", text, wait_s=policy.wait_s(attempt, error), what=what)


def undecodable(error: PayloadError) -> Ending:
    return Ending("failed", clean(f"decode payload: {error}", 500), True, what="decode payload")


def after_stop(
    ending: Ending, stop: Stop | None, timeout_s: float | None, runs_in: RunsIn
) -> Ending:
    """What an ending means for an attempt that was told to stop, or was not.

    A coroutine that ends well all the same has done its work. A thread or process cannot be
    stopped, so its lateness is decided here: a result after the timeout is none.
    """
    late = "timed out" if timeout_s is None else f"timed out after {timeout_s:g} s"
    if ending.event == "stopped":
        return {
            None: Ending("failed", "the handler was cancelled from inside"),
            "cancelled": CANCELLED,
            "lost": DROPPED,
            "shutdown": RELEASED,
            "timed_out": Ending("failed", late, what="timed out"),
        }[stop]
    if stop == "timed_out" and ending.event == "failed":
        return Ending("failed", clean(f"{late}; {ending.text}", MAX_ERROR), what="timed out")
    if stop == "timed_out" and ending.event == "completed" and runs_in != "loop":
        return Ending("failed", late, what="timed out")
    return ending


def describe(error: BaseException) -> str:
    """The text of an exception as it is stored: never fails, always fits, always UTF-8.

    The first line is `Type: message`; the traceback's end follows. PermanentError and RetryIn are
    said on purpose: their message alone, and what they were raised from.
    """
    name = type(error).__qualname__
    try:
        message = str(error)
    except BaseException:  # noqa: BLE001  # a hostile __str__ must not cost the outcome
        message = "(its text cannot be shown)"
    if isinstance(error, PermanentError | RetryIn) and message:
        cause = error.__cause__
        because = "" if cause is None else f"\n\ncaused by {describe(cause)}"
        return clean(f"{message}{because}", MAX_ERROR)
    head = clean(f"{name}: {message}" if message else name, MAX_ERROR // 2)
    frames = _frames(error)
    return clean(f"{head}\n\n{frames}" if frames else head, MAX_ERROR)


def _frames(error: BaseException) -> str:
    """Where it was raised, the innermost ten frames, without those that called the handler."""
    try:
        stack = traceback.extract_tb(error.__traceback__, limit=-10)
        lines = [
            f'  File "{one.filename}", line {one.lineno}, in {one.name}\n    {one.line}\n'
            for one in stack
            if one.filename != CALLER
        ]
    except Exception:  # noqa: BLE001  # a hostile __traceback__ must not cost the outcome
        return ""
    return "".join(lines)


def clean(text: str, length: int) -> str:
    """Text that PostgreSQL can store, cut to its head and tail."""
    if len(text) > length:
        keep = (length - 5) // 2
        text = f"{text[:keep]} ... {text[-keep:]}"
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
