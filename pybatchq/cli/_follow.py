"""Jobs as they come and change, by looking again and again."""

from __future__ import annotations

import time
from typing import Any

from pybatchq import calls
from pybatchq.cli._database import Database
from pybatchq.cli._show import Rows, note
from pybatchq.types import JobId, JobSummary

EVERY_S = 1.0
WINDOW = 500
MOST_PAGES = 20

Mark = tuple[object, ...]


def run(db: Database, rows: Rows[JobSummary], matching: dict[str, Any], *, n: int) -> None:
    """Print the newest n, oldest first, then what is new or has changed. Ctrl-C ends it well."""
    try:
        window: list[JobSummary] = db.look(calls.list_jobs, **matching, n=WINDOW)
        rows.print(window[:n][::-1])
        while True:
            time.sleep(EVERY_S)
            before, window = window, _newest(db, matching, window)
            rows.print(_changed(before, window))
    except KeyboardInterrupt:
        return


def _newest(db: Database, matching: dict[str, Any], before: list[JobSummary]) -> list[JobSummary]:
    """The newest that match: the window, and as far as it takes to reach those seen before."""
    known = before[0].id if before else 0
    page = db.look(calls.list_jobs, **matching, n=WINDOW)
    found = [*page]
    for _ in range(MOST_PAGES):
        if page.next_id is None or page.next_id <= known:
            return found
        page = db.look(calls.list_jobs, **matching, n=WINDOW, before_id=page.next_id)
        found += page
    note(f"too many new jobs at once: only the newest {len(found):,} of them are shown")
    return found


def _changed(before: list[JobSummary], now: list[JobSummary]) -> list[JobSummary]:
    """Those that were not there or were otherwise, in the order in which they changed.

    A job below a full window was not looked at before: it is neither.
    """
    seen: dict[JobId, Mark] = {job.id: _mark(job) for job in before}
    lowest = before[-1].id if len(before) >= WINDOW else 0
    changed = [job for job in now if job.id > lowest and seen.get(job.id) != _mark(job)]
    return sorted(changed, key=lambda job: (job.updated_at, job.id))


def _mark(job: JobSummary) -> Mark:
    """What has to differ for a job to be printed again: not its progress or heartbeat."""
    return job.state, job.attempts, job.last_error, job.locked_by
