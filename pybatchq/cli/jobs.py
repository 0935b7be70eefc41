"""`batchq jobs`, `job`, `set-job` and `wait`: single jobs."""

from __future__ import annotations

import itertools
import shlex
import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

import click

from pybatchq import calls
from pybatchq.cli import _follow, _record, _workforce
from pybatchq.cli._common import (
    EXIT_TIMED_OUT,
    CliError,
    command,
    dsn_option,
    json_option,
)
from pybatchq.cli._database import Database
from pybatchq.cli._show import STYLES, Cell, Column, Rows, cell, is_terminal, note
from pybatchq.cli._show import as_json as to_json
from pybatchq.cli._values import (
    DURATION,
    MOMENT,
    SINCE,
    STATES,
    STATUSES,
    job_ids,
    kind_option,
    one_of,
    queue_option,
    summary,
)
from pybatchq.types import JobSummary
from pybatchq.words import age, counted, first_line, iso, span, visible

PAGE = 500
DEFAULT_N = 50
FOLLOWED_N = 10
LOOK_FIRST_S = 0.1
LOOK_MOST_S = 1.0
FILTERS = {"since": "created_after", "until": "created_before"}
ENDED = ("completed", "failed", "cancelled")
COLUMNS = (
    Column("ID", 10, justify="right"),
    Column("KIND", 8, least=8),
    Column("QUEUE", 6, least=5),
    Column("STATUS", 9),
    Column("TRIES", 5, justify="right"),
    Column("AGE", 7, justify="right"),
    Column("NOTE", 4, least=10),
)


@command(
    "jobs",
    "batchq jobs --status failed --kind send_email",
    "batchq jobs --since 2h --queue mail -n 200",
    "batchq jobs --follow",
    "batchq jobs --all --json | jq -r 'select(.attempts > 2) | .id'",
)
@click.option("--status", metavar="STATUS", shell_complete=one_of(*STATUSES, "processing"),
              help="pending, running, completed, failed or cancelled.")  # fmt: skip
@click.option("--state", metavar="STATE", shell_complete=one_of(*STATES),
              help="The finer word: scheduled, ready, leased, ...")  # fmt: skip
@kind_option
@queue_option
@click.option("--dedupe-key", metavar="KEY", help="Added with this key.")
@click.option("--since", type=SINCE, metavar="WHEN", help="Added since then; 2h: two hours ago.")
@click.option("--until", type=SINCE, metavar="WHEN", help="Added before then.")
@click.option("-n", "--limit", type=click.IntRange(1), metavar="N",
              help=f"How many. [default: {DEFAULT_N}; {FOLLOWED_N} with --follow]")  # fmt: skip
@click.option("--before", metavar="ID", help="Only older ones than this job: the next page.")
@click.option("--all", "everything", is_flag=True, help="All that match, page by page.")
@click.option("--follow", "-f", is_flag=True, help="Then print new jobs and changes as they come.")
@json_option
@dsn_option
def jobs(
    *,
    limit: int | None,
    before: str | None,
    everything: bool,
    follow: bool,
    as_json: bool,
    dsn: str | None,
    **filters: Any,
) -> None:
    """List jobs, newest first.

    With --follow the oldest comes first, and a job is printed again whenever it has changed; this
    watches the newest 500 that match, over restarts of the server. Ctrl-C ends it.
    """
    if follow and (everything or before is not None):
        raise click.UsageError("--follow goes with neither --all nor --before.")
    if everything and limit is not None:
        raise click.UsageError("give -n or --all, not both.")
    with Database(dsn) as db:
        filters = {name: _absolute(db, value) for name, value in filters.items()}
        matching = {FILTERS.get(name, name): value for name, value in filters.items()}
        rows = Rows[JobSummary](COLUMNS, lambda job: shown(job, db.now()), as_json=as_json)
        if follow:
            _follow.run(db, rows, matching, n=limit or FOLLOWED_N)
            return
        before_id = None if before is None else job_ids(db, [before])[0]
        n = None if everything else limit or DEFAULT_N
        last = None
        for page in pages(db, matching, n=n, before_id=before_id):
            rows.print(page)
            last = page[-1].id
        if last is None:
            note("no jobs match")
            _workforce.tell_if_unused(db, filters["queue"])
        elif n is not None and _goes_on(db, matching, last):
            note(f"more: {_next_page(filters, limit, last)}")


def _goes_on(db: Database, matching: dict[str, Any], last: int) -> bool:
    """Whether there are, or may be, more jobs below that one."""
    page = db.call(calls.list_jobs, **matching, before_id=last, n=1)
    return bool(page) or page.next_id is not None


def _absolute(db: Database, value: Any) -> Any:
    return db.moment(value) if isinstance(value, timedelta) else value


def pages(
    db: Database, matching: dict[str, Any], *, n: int | None, before_id: int | None = None
) -> Iterator[list[JobSummary]]:
    """The newest n that match, or all, by keyset; none of them empty."""
    left = n
    while left is None or left > 0:
        size = PAGE if left is None else min(left, PAGE)
        page = db.look(calls.list_jobs, **matching, n=size, before_id=before_id)
        if page:
            yield page
        if page.next_id is None:
            return
        before_id = page.next_id
        left = None if left is None else left - len(page)


def shown(job: JobSummary, now: datetime) -> Sequence[Cell]:
    notes = []
    if job.state == "scheduled":
        wait = job.run_at - now
        notes.append(f"in {span(wait)}" if wait > timedelta() else "due")
    elif job.state not in {job.status, "ready", "leased"}:
        notes.append(job.state)
    if job.locked_by:
        notes.append(f"by {job.locked_by}")
    if job.last_error:
        notes.append(first_line(job.last_error))
    style = STYLES.get(job.status, "")
    return (
        cell(job.id), cell(job.kind), cell(job.queue), cell(job.status, style),
        cell(f"{job.attempts}/{job.max_attempts}"), cell(age(job.created_at, now)),
        cell("; ".join(notes), "dim"),
    )  # fmt: skip


def _next_page(filters: dict[str, Any], limit: int | None, last: int) -> str:
    """The command that shows the next page of this list."""
    words = ["batchq", "jobs"]
    for name, value in filters.items():
        if value is not None:
            option = f"--{name.replace('_', '-')}"
            words += [option, iso(value) if isinstance(value, datetime) else str(value)]
    if limit is not None:
        words += ["-n", str(limit)]
    return shlex.join([*words, "--before", str(last)])


@command(
    "job",
    "batchq job 1234",
    "batchq job 0190b3a1-7c3e-8c55-bf51-0000000004d2 --full",
    "batchq job 1234 --json | jq .payload",
)
@click.argument("job_id", metavar="ID")
@click.option("--full", is_flag=True, help="Do not cut long values.")
@json_option
@dsn_option
def job(*, job_id: str, full: bool, as_json: bool, dsn: str | None) -> None:
    """Show all about one job: payload, result, errors, timeline.

    ID is the number or the UUID.
    """
    with Database(dsn) as db:
        record = db.call(calls.get_job, job_id=job_ids(db, [job_id])[0])
        if as_json:
            click.echo(to_json(record))
        else:
            notice = _workforce.why_pending(db, record) if record.status == "pending" else None
            _record.show(record, db.now(), full=full or not is_terminal(), notice=notice)


@command(
    "set-job",
    "batchq set-job 1234 --run-now",
    "batchq set-job 1234 --priority 10 --in 2h",
)
@click.argument("job_id", metavar="ID")
@click.option("--priority", type=int, metavar="N", help="Higher first.")
@click.option("--run-now", is_flag=True, help="As soon as there is a worker for it.")
@click.option("--run-at", type=MOMENT, metavar="WHEN", help="Not before this time.")
@click.option("--in", "delay", type=DURATION, metavar="TIME", help="Not before so long from now.")
@dsn_option
def set_job(
    *,
    job_id: str,
    priority: int | None,
    run_now: bool,
    run_at: datetime | None,
    delay: timedelta | None,
    dsn: str | None,
) -> None:
    """Change a pending job: its priority, or when it runs."""
    if run_now + (run_at is not None) + (delay is not None) > 1:
        raise click.UsageError("give one of --run-now, --run-at and --in.")
    with Database(dsn) as db:
        if run_now or delay is not None:
            run_at = _after(db.now(), delay or timedelta())
        id_ = job_ids(db, [job_id])[0]
        state = db.call(calls.set_job, job_id=id_, priority=priority, run_at=run_at)
        is_due = state == "scheduled" and run_at is not None and run_at <= db.now()
        click.echo(f"job {id_} is {'due' if is_due else state}.")


def _after(now: datetime, delay: timedelta) -> datetime:
    try:
        return now + delay
    except OverflowError:
        raise click.UsageError("--in: that is beyond the calendar.") from None


@command(
    "wait",
    "batchq wait 1234 1235 --timeout 30s",
    "batchq wait $(batchq enqueue report) && echo done",
    exit_codes="""\b
Exit codes:
  0  all jobs completed
  1  one failed or was cancelled, or there is no such job
  2  wrong usage: an option, an argument or a setting
  3  the database cannot be reached
  4  the time was over before all had ended
""",
)
@click.argument("job", metavar="ID...", nargs=-1, required=True)
@click.option("--timeout", type=DURATION, metavar="TIME", help="Give up after this. [default: no]")
@json_option
@dsn_option
def wait(
    *, job: tuple[str, ...], timeout: timedelta | None, as_json: bool, dsn: str | None
) -> None:
    """Wait until jobs have ended; print each as it ends.

    A server that goes away is waited for: until the timeout, without one for a minute.
    """
    deadline = None if timeout is None else time.monotonic() + timeout.total_seconds()
    bad = 0
    with Database(dsn) as db:
        if deadline is not None:
            db.look_until = deadline
        ids = waiting = job_ids(db, job)
        for attempt in itertools.count():
            found = [summary(db, job_id) for job_id in waiting]
            ended = sorted((f for f in found if f.status in ENDED), key=lambda f: f.updated_at)
            for one in ended:
                bad += one.status != "completed"
                click.echo(to_json(one) if as_json else _told(one))
            waiting = [f.id for f in found if f.status not in ENDED]
            if not waiting:
                break
            pause = min(LOOK_FIRST_S * 1.5 ** min(attempt, 10), LOOK_MOST_S)
            if deadline is not None:
                pause = min(pause, deadline - time.monotonic())
            if pause <= 0:
                left = f"timed out: {len(waiting):,} of {counted(len(ids), 'job')} did not end"
                raise CliError(left, exit_code=EXIT_TIMED_OUT)
            time.sleep(pause)
    if bad:
        raise CliError(f"{bad:,} of {counted(len(ids), 'job')} did not complete")


def _told(job: JobSummary) -> str:
    if job.status == "completed" or not job.last_error:
        return f"{job.id} {job.status}"
    return f"{job.id} {job.status}: {visible(first_line(job.last_error))}"
