"""`batchq explain` and `peek`: why a job is not running, and what comes next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

import click
from rich.text import Text

from pybatchq import calls
from pybatchq.cli._common import command, dsn_option, json_option
from pybatchq.cli._database import Database
from pybatchq.cli._show import Cell, Column, Rows, as_json, cell, console, is_terminal, note
from pybatchq.cli._values import complete_queue, job_ids
from pybatchq.types import Gate, PeekedJob
from pybatchq.words import span
from pybatchq.words import visible as safe

WIDTH = 80
COLUMNS = (
    Column("ID", 10, justify="right"),
    Column("KIND", 9, least=8),
    Column("PRIORITY", 7, justify="right"),
    Column("STATE", 8),
    Column("GROUP", 6, least=8),
)
queue_argument = click.argument(
    "queue", metavar="[QUEUE]", default="default", shell_complete=complete_queue
)


@command(
    "explain",
    "batchq explain 1234",
    "batchq explain 0190b3a1-7c3e-8c55-bf51-0000000004d2 --json",
    "batchq explain --queue mail",
)
@click.argument("job_id", metavar="[ID]", required=False)
@click.option("--queue", metavar="NAME", shell_complete=complete_queue,
              help="Not a job: why jobs of this queue do not run.")  # fmt: skip
@json_option
@dsn_option
def explain(*, job_id: str | None, queue: str | None, as_json: bool, dsn: str | None) -> None:
    """Say why a job is not running.

    Everything that holds it back, the nearest first. ID is the number or the UUID.
    """
    if (job_id is None) == (queue is None):
        raise click.UsageError("give the ID of a job, or --queue.")
    with Database(dsn) as db:
        if queue is not None:
            gates = db.call(calls.explain_queue, queue=queue)
            what = f"queue {queue}"
        else:
            found = job_ids(db, [job_id or ""])[0]
            gates = db.call(calls.explain_job, job_id=found)
            what = f"job {found}"
        _print(gates, what, db.now(), as_lines=as_json)


@command("peek", "batchq peek mail", "batchq peek mail -n 100 --json")
@queue_argument
@click.option("-n", "--limit", type=click.IntRange(1, 1000), metavar="N", default=10,
              show_default=True, help="How many.")  # fmt: skip
@json_option
@dsn_option
def peek(*, queue: str, limit: int, as_json: bool, dsn: str | None) -> None:
    """List the jobs that would be leased now, best first.

    Nothing is leased. Limits of the queue and of its groups are counted in.
    """
    with Database(dsn) as db:
        jobs = db.call(calls.peek_lease, queue=queue, n=limit)
        if jobs:
            Rows[PeekedJob](COLUMNS, _row, as_json=as_json).print(jobs)
        else:
            note(f"nothing can be leased now: batchq explain --queue {queue}")


def _row(job: PeekedJob) -> Sequence[Cell]:
    return (
        cell(job.job_id), cell(job.kind), cell(job.priority), cell(job.state),
        cell(job.group_key),
    )  # fmt: skip


def _print(gates: Sequence[Gate], what: str, now: datetime, *, as_lines: bool) -> None:
    if as_lines:
        for gate in gates:
            click.echo(as_json(gate))
        return
    held = [gate for gate in gates if gate.holds]
    if held:
        click.echo(safe(f"{what} is held back:"))
    for line in _lines(held, "- ", now):
        click.echo(line)
    if held and len(held) < len(gates):
        click.echo()
    for line in _lines((gate for gate in gates if not gate.holds), "", now):
        click.echo(line)


def _lines(gates: Iterable[Gate], bullet: str, now: datetime) -> Iterable[str]:
    """Each sentence, wrapped on a terminal; in a pipe one line each."""
    screen = console()
    width = min(screen.width, WIDTH) - len(bullet)
    for gate in gates:
        left = gate.until - now if gate.until is not None and gate.holds else None
        told = safe(gate.says if left is None else f"{gate.says} (in {span(left)})")
        lines = [told]
        if is_terminal():
            lines = [line.plain.rstrip() for line in Text(told).wrap(screen, width)]
        yield bullet + lines[0]
        for line in lines[1:]:
            yield " " * len(bullet) + line
