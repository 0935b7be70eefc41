"""`batchq cancel`, `redrive` and `purge`: of jobs that are named, or of all that match."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

import click

from pybatchq import calls
from pybatchq.cli._bulk import Action, How, Stepped, run
from pybatchq.cli._common import CliError, command, dsn_option, json_option
from pybatchq.cli._database import Database
from pybatchq.cli._show import as_json as to_json
from pybatchq.cli._show import note
from pybatchq.cli._values import (
    SINCE,
    Number,
    job_ids,
    kind_option,
    one_of,
    queue_option,
    summary,
)
from pybatchq.errors import InvalidArgumentError, JobNotFoundError, WrongStateError
from pybatchq.words import span

C = TypeVar("C", bound=Callable[..., Any])
CANCELLABLE = ("ready", "scheduled", "blocked", "leased", "pending", "running")
PURGED = ("failed", "completed", "cancelled")
ALL_HINT = "name jobs, or give filters, or --all for every one there is"


def _options(*options: Callable[[Any], Any]) -> Callable[[C], C]:
    def add(function: C) -> C:
        for option in reversed(options):
            function = option(function)
        return function

    return add


which_options = _options(
    click.argument("job", metavar="[ID]...", nargs=-1),
    queue_option,
    kind_option,
)
error_option = click.option(
    "--error", metavar="TEXT", help="Of dead letters that failed so, as the API's /dead tells it."
)
how_options = _options(
    click.option("--all", "everything", is_flag=True, help="Every one there is."),
    click.option("--yes", is_flag=True, help="With filters: do not ask."),
    click.option("--dry-run", is_flag=True, help="Only count."),
    click.option(
        "--per-second", type=Number(0.001, 1_000_000), metavar="X",
        help="With filters: no more than so many a second.",
    ),
    json_option,
    dsn_option,
)  # fmt: skip


@command(
    "cancel",
    "batchq cancel 1234 1235 --reason 'ordered twice'",
    "batchq cancel --queue mail --state pending --dry-run",
    "batchq cancel --queue mail --per-second 500 --yes",
)
@which_options
@click.option("--state", metavar="STATE",
              help="ready, scheduled, blocked or leased; pending; running.",
              shell_complete=one_of(*CANCELLABLE),
              )  # fmt: skip
@click.option("--created-after", "--since", "created_after", type=SINCE, metavar="WHEN",
              help="Added since then; 2h: two hours ago.")  # fmt: skip
@click.option("--created-before", "--until", "created_before", type=SINCE, metavar="WHEN",
              help="Added before then.")  # fmt: skip
@click.option("--reason", metavar="TEXT", help="Kept with the job.")
@how_options
def cancel(
    *,
    job: tuple[str, ...],
    everything: bool,
    yes: bool,
    dry_run: bool,
    per_second: float | None,
    reason: str | None,
    as_json: bool,
    dsn: str | None,
    **filters: Any,
) -> None:
    """Cancel pending jobs; ask running ones to stop.

    With filters instead of IDs: all that match, after a question.
    """
    how = _how(job, filters, everything, dry_run=dry_run, yes=yes, rate=per_second, json=as_json)
    with Database(dsn) as db:
        if job and not dry_run:
            _cancel_each(db, job, reason, as_json=as_json)
            return
        given = _given(db, filters)
        ids = job_ids(db, job) if job else None
        if ids is None:
            given.setdefault("created_before", db.call(calls.now))

        def step(n: int, dry: bool, after_id: int | None) -> Stepped:
            done = db.call(
                calls.cancel_many, **given, job_ids=ids, reason=reason,
                n=n, dry_run=dry, after_id=after_id,
            )  # fmt: skip
            counts = {"cancelled": done.cancelled, "asked to stop": done.asked,
                      "deferred": done.deferred}  # fmt: skip
            return Stepped(counts, done.last_id)

        run(Action("cancel", "cancelled", _described(filters), step), how)


def _cancel_each(db: Database, jobs: tuple[str, ...], reason: str | None, *, as_json: bool) -> None:
    """One after the other, whatever becomes of the others."""
    refused = 0
    words = {"running": "was asked to stop"}
    for name in dict.fromkeys(jobs):
        try:
            job_id = job_ids(db, [name])[0]
            outcome = db.call(calls.cancel, job_id=job_id, reason=reason)
        except (InvalidArgumentError, JobNotFoundError, WrongStateError) as error:
            note(f"batchq: {error} ({error.code})")
            refused += 1
            continue
        if as_json:
            click.echo(to_json({"job_id": job_id, "outcome": outcome}))
        else:
            click.echo(f"{job_id} {words.get(outcome, outcome)}")
    if refused:
        raise CliError(f"{refused} of {len(set(jobs))} could not be cancelled")


@command(
    "redrive",
    "batchq redrive 1234",
    "batchq redrive --queue mail --failed-after 2h --dry-run",
    "batchq redrive --kind send_email --per-second 50 --yes",
)
@which_options
@error_option
@click.option("--failed-after", "--since", "failed_after", type=SINCE, metavar="WHEN",
              help="Failed since then; 2h: two hours ago.")  # fmt: skip
@click.option("--failed-before", "--until", "failed_before", type=SINCE, metavar="WHEN",
              help="Failed before then.")  # fmt: skip
@how_options
def redrive(
    *,
    job: tuple[str, ...],
    everything: bool,
    yes: bool,
    dry_run: bool,
    per_second: float | None,
    as_json: bool,
    dsn: str | None,
    **filters: Any,
) -> None:
    """Put dead letters back: pending again with all attempts.

    With filters instead of IDs: all that match, after a question. --per-second spreads their start.
    """
    how = _how(job, filters, everything, dry_run=dry_run, yes=yes, rate=per_second, json=as_json)
    with Database(dsn) as db:
        given = _given(db, filters)
        if job:
            given["job_ids"] = job_ids(db, job)
            how = replace(how, named=len(given["job_ids"]))
        else:
            # or one that fails again at once would be put back again and again
            given.setdefault("failed_before", db.call(calls.now))

        def step(n: int, dry: bool, after_id: int | None) -> Stepped:
            done = db.call(
                calls.redrive, **given, n=n, per_second=per_second, dry_run=dry, after_id=after_id
            )
            return Stepped({"redriven": done.redriven}, done.last_id)

        left = "pending already"
        run(Action("redrive", "redriven", _described(filters), step, left), how)


@command(
    "purge",
    "batchq purge 1234",
    "batchq purge --queue mail --finished-before 30d --dry-run",
    "batchq purge --status completed --finished-before 2030-01-01T00:00Z --yes",
)
@which_options
@error_option
@click.option("--status", metavar="STATUS", help="failed (the default), completed or cancelled.",
              shell_complete=one_of(*PURGED))  # fmt: skip
@click.option("--finished-before", "--until", "finished_before", type=SINCE, metavar="WHEN",
              help="Ended before then; 30d: thirty days ago.")  # fmt: skip
@how_options
def purge(
    *,
    job: tuple[str, ...],
    everything: bool,
    yes: bool,
    dry_run: bool,
    per_second: float | None,
    status: str | None,
    as_json: bool,
    dsn: str | None,
    **filters: Any,
) -> None:
    """Forget jobs that are over, with payload, result and errors.

    Dead letters, unless --status says otherwise. With filters instead of IDs: all that match, after
    a question.
    """
    if status not in {None, *PURGED}:
        words = f"{', '.join(PURGED[:-1])} or {PURGED[-1]}"
        raise click.BadParameter(f"{status!r} is none of {words}", param_hint="--status")
    also = {"status": status, **filters}
    how = _how(
        job, filters if job else also, everything,
        dry_run=dry_run, yes=yes, rate=per_second, json=as_json,
    )  # fmt: skip
    with Database(dsn) as db:
        given = _given(db, also)
        if job:
            given["job_ids"] = job_ids(db, job)
            for job_id in given["job_ids"]:
                summary(db, job_id)
            how = replace(how, named=len(given["job_ids"]))
        else:
            given.setdefault("finished_before", db.call(calls.now))

        def step(n: int, dry: bool, after_id: int | None) -> Stepped:
            done = db.call(calls.purge, **given, n=n, dry_run=dry, after_id=after_id)
            return Stepped({"purged": done.purged}, done.last_id)

        left = f"not {status or 'failed'}; see --status"
        run(Action("purge", "purged", _described(also), step, left, is_refusal=True), how)


def _how(
    jobs: tuple[str, ...],
    filters: dict[str, Any],
    everything: bool,
    *,
    dry_run: bool,
    yes: bool,
    rate: float | None,
    json: bool,
) -> How:
    """UsageError unless it is clear which jobs are meant."""
    filtered = any(value is not None for value in filters.values())
    if jobs and (filtered or everything):
        raise click.UsageError("give jobs or filters, not both.")
    if not (jobs or filtered or everything):
        raise click.UsageError(f"which jobs? {ALL_HINT[0].upper()}{ALL_HINT[1:]}.")
    if jobs and rate is not None:
        raise click.UsageError("--per-second goes with filters.")
    if not (jobs or dry_run or yes or sys.stdin.isatty()):
        raise click.UsageError(
            "this asks before it starts, and there is nobody to ask: "
            "give --yes, or --dry-run to only count."
        )
    return How(named=len(set(jobs)), dry_run=dry_run, yes=yes, per_second=rate, as_json=json)


def _given(db: Database, filters: dict[str, Any]) -> dict[str, Any]:
    return {
        name: db.moment(value) if isinstance(value, datetime | timedelta) else value
        for name, value in filters.items()
        if value is not None
    }


def _described(filters: dict[str, Any]) -> str:
    """What was asked for, in words."""
    parts = []
    for name, value in filters.items():
        if value is not None:
            ago = f"{span(value)} ago" if isinstance(value, timedelta) else str(value)
            parts.append(f"{name.replace('_', ' ')} {ago}")
    return ", ".join(parts) or "all"
