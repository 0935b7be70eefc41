"""`batchq breakers` and `reset-breaker`: kinds of job that are held back as too many failed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import click

from pybatchq import calls
from pybatchq.cli._common import command, dsn_option, json_option
from pybatchq.cli._database import Database
from pybatchq.cli._show import STYLES, Cell, Column, Rows, cell, note
from pybatchq.cli._values import complete_queue
from pybatchq.types import BreakerInfo
from pybatchq.words import age, span

COLUMNS = (
    Column("QUEUE", 10, least=8),
    Column("KIND", 9, least=8),
    Column("OPEN", 7, justify="right"),
    Column("FAILED", 6, justify="right"),
    Column("HELD", 8, justify="right"),
    Column("PROBE", 5, justify="right"),
    Column("ERROR", 2, least=8),
)
MOST_COUNTED = 10_000


@command("breakers", "batchq breakers", "batchq breakers mail --json")
@click.argument("queue", required=False, shell_complete=complete_queue)
@json_option
@dsn_option
def breakers(*, queue: str | None, as_json: bool, dsn: str | None) -> None:
    """List kinds of job that are held back as too many failed.

    FAILED: of how many attempts, when it began; PROBE: when the next job is let through, or the job
    that runs to see whether it works again. See `set-queue --breaker-share`.
    """
    with Database(dsn) as db:
        found = db.call(calls.list_breakers, queue=queue)
        Rows[BreakerInfo](COLUMNS, lambda b: shown(b, db.now()), as_json=as_json).print(found)
        if not found:
            note("no kind is held back")


@command("reset-breaker", "batchq reset-breaker mail newsletter")
@click.argument("queue", shell_complete=complete_queue)
@click.argument("kind")
@dsn_option
def reset_breaker(*, queue: str, kind: str, dsn: str | None) -> None:
    """Let jobs of a kind run again that are held back.

    What failed until now does not count any more.
    """
    with Database(dsn) as db:
        db.call(calls.reset_breaker, queue=queue, kind=kind)
        click.echo(f"kind {cell(kind).text} of queue {cell(queue).text} may run.")


def shown(breaker: BreakerInfo, now: datetime) -> Sequence[Cell]:
    if breaker.probe_job_id is not None:
        probe = f"job {breaker.probe_job_id}"
    elif breaker.probe_at > now:
        probe = f"in {span(breaker.probe_at - now)}"
    else:
        probe = "now"
    more = "+" if breaker.held >= MOST_COUNTED else ""
    return (
        cell(breaker.queue), cell(breaker.kind), cell(age(breaker.opened_at, now)),
        cell(f"{breaker.failed:,} of {breaker.ended:,}", STYLES["failed"]),
        cell(f"{breaker.held:,}{more}"), cell(probe), cell(breaker.last_error),
    )  # fmt: skip
