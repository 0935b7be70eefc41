"""What lists and bulk calls have in common: whose queues they may touch, and where they go on."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any, Final

from pybatchq import calls
from pybatchq.api.auth import Caller
from pybatchq.api.errors import ApiError, invalid, refused
from pybatchq.api.models import MOST_ID
from pybatchq.calls import Connection
from pybatchq.errors import JobNotFoundError

# Before a list of ids begins one direction, and after one the other.
BEFORE: Final = "before"
AFTER: Final = "after"
# How long a request looks for the first job that matches; then it says where to go on.
LOOK_S: Final = 5.0

Step = Callable[[int, int | None], Awaitable[tuple[int, int | None]]]


def queue_filter(caller: Caller, given: str | None) -> str | None:
    """The queue to filter by: a caller with queues of its own has to name one, if not the only."""
    if given is not None:
        caller.check_queue(given)
    elif caller.queues is not None:
        if len(caller.queues) > 1:
            raise refused(403, "this token is for some queues: name one", hint=caller.hint)
        return next(iter(caller.queues), None)
    return given


def bulk_filter(caller: Caller, given: str | None, job_ids: list[int] | None) -> str | None:
    """As queue_filter; jobs that are named need no queue, see check_own."""
    return given if job_ids is not None and given is None else queue_filter(caller, given)


async def check_own(conn: Connection, caller: Caller, job_ids: list[int] | None) -> None:
    """JobNotFoundError for a job in a queue that is not the caller's."""
    if caller.queues is None or job_ids is None:
        return
    found = await calls.job_states(conn, job_ids=job_ids)
    own = {job.job_id for job in found if caller.may_use(job.queue)}
    for job_id in job_ids:
        if job_id not in own:
            raise JobNotFoundError(f"no job {job_id}", hint="check the id")


def cursor(direction: str, job_id: int | None) -> str | None:
    """Where the next page begins, as a text that says nothing to clients; None: nowhere."""
    if job_id is None:
        return None
    return base64.urlsafe_b64encode(f"{direction}:{job_id}".encode()).decode().rstrip("=")


def cursor_id(direction: str, text: str | None) -> int | None:
    """The id in a cursor; ApiError 400 for what is no cursor of ours, or of the other direction."""
    if text is None:
        return None
    try:
        plain = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise _bad_cursor(text) from None
    digits = plain.removeprefix(f"{direction}:".encode())
    if digits == plain or not digits.isdigit() or len(digits) > 19 or int(digits) > MOST_ID:
        raise _bad_cursor(text)
    return int(digits)


async def bulk(
    step: Step, *, limit: int, after_id: int | None, is_dry: bool
) -> tuple[int, int | None]:
    """`step(n, after_id)` until it has done something, or there is nothing more beyond its id.

    A step looks at so many jobs, whether they match or not. One that only counts is asked until all
    are counted. Returns how many, and where to go on; None: that was all.
    """
    until = monotonic() + LOOK_S
    done = 0
    while True:
        n, after_id = await step(limit - done, after_id)
        done += n
        if after_id is None or done >= limit or (done and not is_dry) or monotonic() > until:
            return done, after_id


def _bad_cursor(text: Any) -> ApiError:
    return invalid(f"invalid cursor: {text[:80]}", hint="give next_cursor of the answer before")
