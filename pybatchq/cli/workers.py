"""`batchq workers` and `drain-worker`: the processes that run jobs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import click

from pybatchq import calls
from pybatchq.cli._common import CliError, command, dsn_option, json_option
from pybatchq.cli._database import Database
from pybatchq.cli._show import Cell, Column, Rows, cell, note
from pybatchq.types import WorkerInfo
from pybatchq.words import age, visible

MOST = 10_000
MEGABYTE = 1_000_000
COLUMNS = (
    Column("WORKER", 10, least=12),
    Column("STATE", 9),
    Column("RUNNING", 8, justify="right"),
    Column("SEEN", 7, justify="right"),
    Column("QUEUES", 6, least=12),
    Column("KINDS", 2, least=14),
    Column("MEMORY", 4, justify="right"),
    Column("UP", 3, justify="right"),
    Column("PID", 5, justify="right"),
    Column("HOST", 1, least=14),
)


@command("workers", "batchq workers", "batchq workers --json | jq 'select(.is_alive)'")
@click.option("-a", "--all", "everyone", is_flag=True, help="Also those silent for a while.")
@json_option
@dsn_option
def workers(*, everyone: bool, as_json: bool, dsn: str | None) -> None:
    """List the worker processes that are alive.

    A worker tells of itself every 30 s; after 90 s of silence it is taken for dead.
    """
    with Database(dsn) as db:
        found = db.call(calls.list_workers, n=MOST)
        shown = [worker for worker in found if everyone or worker.is_alive]
        if shown:
            Rows[WorkerInfo](COLUMNS, lambda w: row(w, db.now()), as_json=as_json).print(shown)
        else:
            note("no workers")
        silent = len(found) - len(shown)
        if silent:
            note(f"{silent} more fell silent within the last day: batchq workers --all")


@command("drain-worker", "batchq drain-worker mail-1", "batchq drain-worker host:4711")
@click.argument("worker", metavar="NAME|ID")
@dsn_option
def drain_worker(*, worker: str, dsn: str | None) -> None:
    """Ask worker processes to finish what they run and end.

    They take no more jobs, as after a first SIGTERM. All that bear the name are asked; one by its
    worker_id. Whatever restarts them starts others.
    """
    with Database(dsn) as db:
        found = db.call(calls.list_workers, n=MOST)
        asked = [
            one
            for one in found
            if one.is_alive
            and worker in {one.worker, str(one.worker_id)}
            and db.call(calls.drain_worker, worker_id=one.worker_id)
        ]
        if not asked:
            hint = "batchq workers shows who is there"
            raise CliError(f"no worker {visible(worker)} is alive", hint=hint)
        for one in asked:
            click.echo(f"worker {cell(one.worker).text} (pid {one.pid}) was asked to end.")


def row(worker: WorkerInfo, now: datetime) -> Sequence[Cell]:
    state, style = "alive", "green"
    if worker.drain_requested_at is not None:
        state, style = "draining", "yellow"
    elif worker.stopping:
        state, style = "stopping", "yellow"
    if not worker.is_alive:
        state, style = "silent", "red"
    memory = worker.memory_bytes
    return (
        cell(worker.worker), cell(state, style), cell(f"{worker.running}/{worker.concurrency}"),
        cell(age(worker.beat_at, now)), cell(",".join(worker.queues)),
        cell(",".join(worker.kinds)),
        cell(None if memory is None else f"{memory / MEGABYTE:,.0f} MB"),
        cell(age(worker.started_at, now)), cell(worker.pid), cell(worker.host),
    )  # fmt: skip
