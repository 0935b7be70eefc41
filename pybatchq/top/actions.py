"""What the keys do to queues and jobs: asked first, and as the user whose connection it is."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Any, TypeAlias

from pybatchq import calls
from pybatchq.top.dialogs import Ask, Working
from pybatchq.top.page import Page
from pybatchq.types import DeadError
from pybatchq.words import counted

OfJob: TypeAlias = Callable[[Page, int], Coroutine[Any, Any, None]]

STEP = 1000
MOST_COUNTED = 100_000


async def pause_or_resume(page: Page, queue: str) -> None:
    """Whichever it is not by the newest picture."""
    found = page.feed.picture.queue(queue)
    if found is not None and found.paused_at is not None:
        if await page.app.push_screen_wait(Ask(f"Resume queue {queue}?", "resume")) is not None:
            await page.feed.call(calls.resume, queue=queue)
            page.say(f"queue {queue} is open")
        return
    question = f"Pause queue {queue}? Jobs that run go on."
    reason = await page.app.push_screen_wait(Ask(question, "pause", field="the reason, if any"))
    if reason is not None:
        await page.feed.call(calls.pause, queue=queue, reason=reason or None)
        page.say(f"queue {queue} is paused")


async def redrive(page: Page, group: DeadError) -> None:
    """Those of one error that are dead by now, counted before."""
    feed = page.feed
    # or one that fails again at once would be put back again and again
    by_now = await feed.call(calls.now)
    matched, after_id = 0, None
    while matched < MOST_COUNTED:
        found = await feed.call(
            calls.redrive, queue=group.queue, kind=group.kind, error=group.error,
            failed_before=by_now, n=MOST_COUNTED - matched, dry_run=True, after_id=after_id,
        )  # fmt: skip
        matched, after_id = matched + found.redriven, found.last_id
        if after_id is None:
            break
    if not matched:
        page.say("none is left of these dead letters")
        return
    more = "at least " if matched >= MOST_COUNTED else ""
    question = (
        f"Redrive {more}{counted(matched, 'dead letter')} of queue {group.queue}, kind"
        f" {group.kind}, that failed with:\n{group.error or '(no text)'}"
    )
    if await page.app.push_screen_wait(Ask(question, "redrive")) is not None:
        await _redrive_all(page, group, f"{more}{matched:,}", by_now)


async def _redrive_all(page: Page, group: DeadError, total: str, by_now: datetime) -> None:
    progress = Working(f"0 of {total}")
    await page.app.push_screen(progress)
    done, after_id, is_over = 0, None, False
    try:
        while not (is_over or progress.is_stopped):
            step = await page.feed.call(
                calls.redrive, queue=group.queue, kind=group.kind, error=group.error,
                failed_before=by_now, n=STEP, after_id=after_id,
            )  # fmt: skip
            done, after_id = done + step.redriven, step.last_id
            is_over = after_id is None
            progress.tell(f"{done:,} of {total}")
    finally:
        progress.dismiss()
        page.say(f"{'' if is_over else 'stopped: '}{done:,} redriven")


async def cancel(page: Page, job_id: int) -> None:
    question = f"Cancel job {job_id}? One that runs is asked to stop."
    reason = await page.app.push_screen_wait(Ask(question, "cancel", field="the reason, if any"))
    if reason is not None:
        outcome = await page.feed.call(calls.cancel, job_id=job_id, reason=reason or None)
        asked = outcome == "running"
        page.say(f"job {job_id} {'was asked to stop' if asked else 'is cancelled'}")


async def retry(page: Page, job_id: int) -> None:
    question = f"Retry job {job_id}? It becomes pending again, with all its attempts."
    if await page.app.push_screen_wait(Ask(question, "retry")) is not None:
        done = await page.feed.call(calls.redrive, job_ids=[job_id])
        page.say(f"job {job_id} is pending {'again' if done.redriven else 'already'}")
