"""Errors batchq raises, one class a code of `batchq.errors()`.

BatchqError
├── InvalidArgumentError   JQ001  a value is missing, of the wrong type or out of its bounds
├── QueueNotFoundError     JQ002
├── JobNotFoundError       JQ003
├── LeaseLostError         JQ004  the job was taken back, or ended otherwise
├── WrongStateError        JQ005
├── QueueFullError         JQ006  as many jobs wait as the queue may hold
└── VersionMismatchError   JQ009  client and schema do not fit each other

What a handler raises to say how its attempt ended: PermanentError, RetryIn, Snooze; and Cancelled,
which Job.check() raises.
"""

from __future__ import annotations

import psycopg


class BatchqError(Exception):
    """Base of all errors of batchq. `hint` says what to do, where there is anything to do."""

    code = "JQ000"

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class InvalidArgumentError(BatchqError, ValueError):
    code = "JQ001"


class QueueNotFoundError(BatchqError):
    code = "JQ002"


class JobNotFoundError(BatchqError):
    code = "JQ003"


class LeaseLostError(BatchqError):
    code = "JQ004"


class WrongStateError(BatchqError):
    code = "JQ005"


class QueueFullError(BatchqError):
    """As many jobs wait in the queue as it may hold; try again later."""

    code = "JQ006"


class VersionMismatchError(BatchqError):
    code = "JQ009"


class PermanentError(Exception):
    """Raised by a handler: this job will never succeed, do not try it again."""


class Cancelled(Exception):  # noqa: N818  # a request, not a fault
    """Raised by Job.check(): the job was asked to stop. Let it pass."""


class RetryIn(Exception):  # noqa: N818  # a request, not a fault
    """Raised by a handler: the attempt failed; try again after this many seconds.

    None: after the job's own backoff. Its message is stored as it is, without a traceback.
    """

    def __init__(self, seconds: float | None, message: str = "") -> None:
        if seconds is not None:
            _check_seconds("RetryIn", seconds)
        super().__init__(message or ("retry" if seconds is None else f"retry in {seconds:g} s"))
        self.seconds = seconds


class Snooze(Exception):  # noqa: N818
    """Raised by a handler: not now. The attempt is given back and the job waits this long."""

    def __init__(self, seconds: float) -> None:
        _check_seconds("Snooze", seconds)
        if seconds < 0:
            raise ValueError(f"Snooze for {seconds:g} s: give 0 or more")
        super().__init__(f"snooze for {seconds:g} s")
        self.seconds = seconds


def _check_seconds(name: str, seconds: object) -> None:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise TypeError(f"{name} takes a number of seconds, not {type(seconds).__name__}")


BY_CODE: dict[str, type[BatchqError]] = {
    error.code: error
    for error in (
        InvalidArgumentError,
        QueueNotFoundError,
        JobNotFoundError,
        LeaseLostError,
        WrongStateError,
        QueueFullError,
        VersionMismatchError,
    )
}


def translate(error: psycopg.Error) -> BatchqError | None:
    """The error of batchq that a database error stands for; None for any other.

    DataError is the driver's or PostgreSQL's own refusal of a value on its way in: a NUL
    character, a number that does not fit; class 54 is a value beyond its limits: nested too deeply,
    too long. 3F000, 42883 and 42703 are a schema that is missing or older than this client: it
    lacks the function, or a column of its answer.
    """
    state = error.sqlstate or ""
    message = error.diag.message_primary or str(error)
    kind = BY_CODE.get(state)
    if kind is not None:
        return kind(message, hint=error.diag.message_hint)
    if isinstance(error, psycopg.DataError) or state.startswith("54"):
        return InvalidArgumentError(message, hint=error.diag.message_hint)
    is_ours = state in {"3F000", "42883"} and "batchq" in message
    if is_ours or state == "42703":
        return VersionMismatchError(message, hint="run `batchq install` on this database")
    return None
