"""Many jobs at once: first it is counted what would happen, then it is asked, then it is done.

The form that asks carries the filters on; what is done is done in bounded steps, and when these
take long, the page says how far it came and goes on from there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import isfinite
from time import monotonic
from typing import Annotated, Any, Final, Literal

from aiohttp import web
from msgspec import Meta, Struct

from pybatchq import calls
from pybatchq.api.dead import Rate
from pybatchq.api.decoding import parameters
from pybatchq.api.errors import invalid
from pybatchq.api.models import MOST_ID, Name, Time
from pybatchq.api.selection import bulk, check_own
from pybatchq.calls import Connection
from pybatchq.dashboard.pages import Page, Visit, is_own
from pybatchq.types import State
from pybatchq.words import counted

STEP: Final = 1_000
MOST_COUNTED: Final = 100_000
MOST_IDS: Final = 500
MOST_DONE: Final = 10**9
# How long one answer may take; a browser and what is in between wait longer.
WORK_S: Final = 5.0
CALL_S: Final = 20.0
VERBS: Final = {"cancel": "Cancel", "redrive": "Retry", "purge": "Forget"}
DONE: Final = {"cancel": "cancelled", "redrive": "put back", "purge": "forgotten"}

Step = Callable[[int, int | None], Awaitable[tuple[int, int | None]]]


class Many(Struct, frozen=True, forbid_unknown_fields=True):
    """What to do with which jobs: the filters are those of cancel_many, redrive and purge.

    step: count first, or do it. done, after: how many were done so far, and the last one's id.
    before: by then they had to be dead, so that none is put back twice.
    """

    action: Literal["cancel", "redrive", "purge"]
    step: Literal["ask", "do"] = "ask"
    back: str = "/ui/jobs"
    queue: Name | None = None
    kind: Name | None = None
    state: State | None = None
    error: str | None = None
    created_after: Time | None = None
    created_before: Time | None = None
    before: Time | None = None
    per_second: Rate | None = None
    reason: str | None = None
    every: Literal["yes", "no"] = "no"
    done: Annotated[int, Meta(ge=0, le=MOST_DONE)] = 0
    after: Annotated[int, Meta(ge=0, le=MOST_ID)] | None = None


@dataclass(frozen=True, slots=True)
class Came:
    """How far it came. last_id: None: that was all."""

    done: int
    last_id: int | None
    before: datetime | None


async def many(visit: Visit) -> web.Response:
    given = {name: value for name, value in visit.form if value != "" and name != "id"}
    wanted = parameters(given, Many)
    job_ids = _job_ids(visit.fields("id"))
    _check(visit, wanted, job_ids)
    is_dry = wanted.step == "ask"
    came = await visit.acting.run(
        lambda conn: _work(conn, visit, wanted, job_ids, is_dry=is_dry), within_s=CALL_S
    )
    if not is_dry and came.last_id is None:
        total = wanted.done + came.done
        return visit.lead(wanted.back, f"{counted(total, 'job')} {DONE[wanted.action]}.")
    return visit.page(
        "bulk.html",
        verb=VERBS[wanted.action],
        done_word=DONE[wanted.action],
        wanted=wanted,
        job_ids=job_ids or (),
        n=came.done,
        is_dry=is_dry,
        is_more=came.last_id is not None,
        carried={
            **given,
            "step": "do",
            "before": "" if came.before is None else came.before.isoformat(),
            "done": str(0 if is_dry else wanted.done + came.done),
            "after": "" if is_dry or came.last_id is None else str(came.last_id),
        },
    )


async def _work(
    conn: Connection, visit: Visit, wanted: Many, job_ids: list[int] | None, *, is_dry: bool
) -> Came:
    await check_own(conn, visit.caller, job_ids)
    before = wanted.before
    if before is None and job_ids is None:
        before = await calls.now(conn)
    step = _step(conn, wanted, job_ids, before, is_dry=is_dry)
    if is_dry:
        n, last_id = await bulk(step, limit=MOST_COUNTED, after_id=None, is_dry=True)
        return Came(n, last_id, before)
    until = monotonic() + WORK_S
    done, last_id = 0, wanted.after
    while True:
        n, last_id = await step(STEP, last_id)
        done += n
        if last_id is None or monotonic() > until:
            return Came(done, last_id, before)


def _step(
    conn: Connection,
    wanted: Many,
    job_ids: list[int] | None,
    before: datetime | None,
    *,
    is_dry: bool,
) -> Step:
    """One bounded call of what is wanted."""
    common: dict[str, Any] = {
        "job_ids": job_ids, "queue": wanted.queue, "kind": wanted.kind, "dry_run": is_dry,
    }  # fmt: skip

    put_back_so_far = wanted.done

    async def cancel(n: int, after: int | None) -> tuple[int, int | None]:
        found = await calls.cancel_many(
            conn,
            state=wanted.state,
            created_after=wanted.created_after,
            created_before=wanted.created_before or before,
            reason=wanted.reason,
            n=n,
            after_id=after,
            **common,
        )
        return found.cancelled + found.asked, found.last_id

    async def redrive(n: int, after: int | None) -> tuple[int, int | None]:
        nonlocal put_back_so_far
        # those of this step come after those of the steps before
        rate = wanted.per_second
        put_back = await calls.redrive(
            conn,
            error=wanted.error,
            failed_before=before,
            per_second=rate,
            delay=None if not rate else timedelta(seconds=put_back_so_far / rate),
            n=n,
            after_id=after,
            **common,
        )
        put_back_so_far += put_back.redriven
        return put_back.redriven, put_back.last_id

    async def purge(n: int, after: int | None) -> tuple[int, int | None]:
        gone = await calls.purge(
            conn, error=wanted.error, finished_before=before, n=n, after_id=after, **common
        )
        return gone.purged, gone.last_id

    return {"cancel": cancel, "redrive": redrive, "purge": purge}[wanted.action]


def _job_ids(given: list[str]) -> list[int] | None:
    if not given:
        return None
    if len(given) > MOST_IDS or not all(
        text.isascii() and text.isdigit() and len(text) <= 19 and int(text) <= MOST_ID
        for text in given
    ):
        raise invalid("invalid ids of jobs", hint=f"give at most {MOST_IDS} numbers")
    return [int(text) for text in given]


def _check(visit: Visit, wanted: Many, job_ids: list[int] | None) -> None:
    """ApiError for what names no jobs, or those of others."""
    if job_ids is None:
        if wanted.queue is None and visit.caller.queues is not None:
            raise invalid("no queue is named", hint=visit.caller.hint)
        filters = (wanted.queue, wanted.kind, wanted.state, wanted.error, wanted.created_before)
        if wanted.every == "no" and not any(filters):
            raise invalid("no jobs are chosen", hint="tick some, or choose all that match")
    if wanted.per_second is not None and not isfinite(wanted.per_second):
        raise invalid(f"invalid per_second: {wanted.per_second}", hint="give a number")
    if wanted.queue is not None:
        visit.caller.check_queue(wanted.queue)
    if not is_own(wanted.back):
        raise invalid(f"invalid back: {wanted.back[:80]}")


PAGES = (Page(method="POST", path="/ui/many", handler=many, scope="operate"),)
