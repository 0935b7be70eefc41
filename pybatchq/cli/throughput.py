"""`batchq throughput`: what happened over time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import click

from pybatchq import calls
from pybatchq.cli._common import command, dsn_option, json_option
from pybatchq.cli._database import Database
from pybatchq.cli._show import STYLES, Cell, Column, Rows, cell, is_terminal, note, stamp
from pybatchq.cli._values import DURATION, complete_queue
from pybatchq.rates import ThroughputPoint
from pybatchq.words import span

# For people: about so many lines, whatever the time is that they look at.
MOST_LINES = 30
STEPS = tuple(
    timedelta(minutes=minutes) for minutes in (1, 2, 5, 10, 15, 30, 60, 120, 360, 720, 1440)
)
BAR = 20
COLUMNS = (
    Column("FROM", 10),
    Column("IN", 9, justify="right"),
    Column("DONE", 8, justify="right"),
    Column("FAILED", 7, justify="right"),
    Column("WAIT 50%", 5, justify="right"),
    Column("95%", 3, justify="right"),
    Column("RUN 50%", 6, justify="right"),
    Column("95%", 4, justify="right"),
    Column("", 2),
)


@command(
    "throughput",
    "batchq throughput",
    "batchq throughput mail --since 24h",
    "batchq throughput mail --since 7d --step 1h --json",
)
@click.argument("queue", required=False, shell_complete=complete_queue)
@click.option("--kind", metavar="KIND", help="Of these jobs only.")
@click.option("--since", type=DURATION, default="1h", metavar="TIME", show_default=True,
              help="How far back, up to 7 days.")  # fmt: skip
@click.option("--step", type=DURATION, metavar="TIME",
              help="Whole minutes, up to a day; default: 1m, for people longer.")  # fmt: skip
@json_option
@dsn_option
def throughput(
    *,
    queue: str | None,
    kind: str | None,
    since: timedelta,
    step: timedelta | None,
    as_json: bool,
    dsn: str | None,
) -> None:
    """Show what happened over time, in a queue or in all.

    Counts are up to the last whole minute that upkeep has counted. Waits are those of jobs that
    were completed by their first attempt, from when they were due; runs are those of attempts that
    completed a job. Both are estimates: more than half of what is true, and less than twice.
    """
    if step is None and is_terminal() and not as_json:
        step = fitting(since)
    with Database(dsn) as db:
        points = db.call(calls.throughput, queue=queue, kind=kind, since=since, step=step)
        most = max((point.completed for point in points), default=0)
        Rows[ThroughputPoint](COLUMNS, lambda p: shown(p, most), as_json=as_json).print(points)
        if not any(p.enqueued or p.completed or p.failed or p.reaped for p in points):
            note("nothing happened, or upkeep has not counted it yet")


def fitting(since: timedelta) -> timedelta:
    """The shortest step that makes no more than about MOST_LINES of it."""
    return next((step for step in STEPS if since <= step * MOST_LINES), STEPS[-1])


def shown(point: ThroughputPoint, most: int) -> Sequence[Cell]:
    failed = point.failed + point.reaped
    bar = "█" * round(BAR * point.completed / most) if most else ""
    return (
        cell(stamp(point.at)), _count(point.enqueued), _count(point.completed),
        _count(failed, STYLES["failed"]), _length(point.wait_p50), _length(point.wait_p95),
        _length(point.run_p50), _length(point.run_p95), cell(bar, STYLES["completed"]),
    )  # fmt: skip


def _count(count: int, style: str = "") -> Cell:
    return cell(f"{count:,}", style if count else "dim")


def _length(length: timedelta | None) -> Cell:
    if length is None:
        return cell("-", "dim")
    return cell("<1ms" if length < timedelta(milliseconds=1) else span(length))
