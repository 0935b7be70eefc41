"""The demo: real jobs through a real PostgreSQL, with a worker killed in the middle.

One job for every `.py` file of the standard library. Some files are enqueued twice, a few fail
twice before they succeed, and one of the two worker processes dies by SIGKILL while it works. At
the end the handlers' own ledger, not batchq, says whether anything was lost or finished twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import sysconfig
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from pybatchq import calls, demo_handlers
from pybatchq.embedded import Server, default_data_dir
from pybatchq.install import install_dsn

DATABASE = "batchq_demo"
KIND = "count_definitions"
LEASE = "2s"
TWICE = 100
FAILING = 20
WAIT_S = 120.0

REPORT = """
select count(*) filter (where status = 'completed'),
       count(*) filter (where attempts > 1 and last_error not like 'lease expired%'),
       count(*) filter (where last_error like 'lease expired%'),
       count(*) filter (where status <> 'completed')
from batchq.jobs
"""
PROOF = """
with finished as (select job_id, count(*) as times from ledger where event = 'finish' group by 1)
select (select count(*) from unnest(%s::bigint[]) j(id)
        where not exists (select from finished f where f.job_id = j.id)),
       (select count(*) from finished f where f.times > 1)
"""


class DemoError(Exception):
    """The demo could not run to its end; the text says why."""


@dataclass(slots=True)
class Tally:
    """What the demo did, for its table."""

    jobs: int = 0
    refused: int = 0
    seconds: float = 0.0
    ids: tuple[int, ...] = ()


async def run(console: Console, dsn: str | None = None) -> bool:
    """Run the demo on a server of its own (or the given one); True if nothing was lost."""
    if dsn is not None:
        return await _on_server(console, dsn)
    with console.status("starting PostgreSQL"):
        server = Server(default_data_dir() / "demo", settings={"max_connections": 50})
        server.start()
    try:
        return await _on_server(console, server.dsn())
    finally:
        server.close()


async def _on_server(console: Console, dsn: str) -> bool:
    with console.status("installing batchq into a fresh database"):
        database = await _fresh_database(dsn)
        await install_dsn(database)
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as conn:
        version = (await (await conn.execute("show server_version")).fetchall())[0][0]
        console.print(f"PostgreSQL {version}, database {DATABASE}")
        await conn.execute(demo_handlers.SCHEMA)
        tally = await _enqueue(conn, source_files())
        console.print(f"enqueued {tally.jobs} files, and {TWICE} of them again")
        await _work(console, conn, database, tally)
        return await _report(console, conn, tally)


def source_files() -> list[Path]:
    """Every `.py` file of the running Python's standard library."""
    library = Path(sysconfig.get_paths()["stdlib"])
    skipped = {"site-packages", "dist-packages", "__pycache__"}
    return sorted(
        path
        for path in library.rglob("*.py")
        if skipped.isdisjoint(path.relative_to(library).parts)
    )


async def _fresh_database(dsn: str) -> str:
    name = sql.Identifier(DATABASE)
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as conn:
        await conn.execute(sql.SQL("drop database if exists {} with (force)").format(name))
        await conn.execute(sql.SQL("create database {}").format(name))
    return psycopg.conninfo.make_conninfo(dsn, dbname=DATABASE)


async def _enqueue(conn: calls.Connection, files: list[Path]) -> Tally:
    """All files, then some of them again. In two transactions; each commits as a whole."""
    step = max(1, len(files) // FAILING)
    jobs: list[dict[str, Any]] = [
        {
            "kind": KIND,
            "payload": {"path": str(path)} | ({"fail_first": 2} if i % step == 0 else {}),
            "dedupe_key": str(path),
            "backoff": "fixed",
            "backoff_base": timedelta(seconds=0.5),
            "max_attempts": 5,
        }
        for i, path in enumerate(files)
    ]
    first = await calls.enqueue_many(conn, jobs=jobs)
    again = await calls.enqueue_many(conn, jobs=jobs[:TWICE])
    return Tally(
        jobs=len(first),
        refused=sum(not job.is_new for job in again),
        ids=tuple(job.job_id for job in first),
    )


async def _work(console: Console, conn: calls.Connection, database: str, tally: Tally) -> None:
    started = time.monotonic()
    killed = False
    log = default_data_dir() / "demo-workers.log"
    async with _worker(database, "alice", log) as alice, _worker(database, "bob", log) as bob:
        with _progress(console) as progress:
            bar = progress.add_task("two workers", total=tally.jobs)
            while (done := await _finished(conn)) < tally.jobs:
                progress.update(bar, completed=done)
                if not killed and done > tally.jobs // 3 and await _holds(conn, "bob"):
                    bob.kill()
                    killed = True
                    progress.update(bar, description="[red]bob killed[/red], alice goes on")
                if alice.poll() is not None or time.monotonic() - started > WAIT_S:
                    raise DemoError(f"the workers did not finish; see {log}")
                await asyncio.sleep(0.1)
            progress.update(bar, completed=done, description="done")
        tally.seconds = time.monotonic() - started


@contextlib.asynccontextmanager
async def _worker(database: str, name: str, log: Path) -> AsyncIterator[subprocess.Popen[bytes]]:
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable, "-m", "pybatchq", "worker", "--name", name, "--concurrency", "4",
        "--handlers", demo_handlers.__name__, "--lease", LEASE,
    ]  # fmt: skip
    with log.open("ab") as out:
        process = subprocess.Popen(  # noqa: ASYNC220  # returns at once
            command, stdout=out, stderr=out, env=os.environ | {"DATABASE_URL": database}
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        await asyncio.to_thread(process.wait)


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        console=console,
    )  # fmt: skip


async def _finished(conn: calls.Connection) -> int:
    cursor = await conn.execute("select count(*) from ledger where event = 'finish'")
    return int((await cursor.fetchall())[0][0])


async def _holds(conn: calls.Connection, worker: str) -> bool:
    """Whether a worker has jobs right now, so that killing it is worth watching."""
    running = await calls.list_jobs(conn, status="running", n=50)
    return sum(job.locked_by == worker for job in running) >= 2


async def _report(console: Console, conn: calls.Connection, tally: Tally) -> bool:
    completed, retried, reaped, other = (await (await conn.execute(REPORT)).fetchall())[0]
    cursor = await conn.execute(PROOF, (list(tally.ids),))
    lost, twice = (await cursor.fetchall())[0]
    functions, classes = (
        await (await conn.execute("select sum(functions), sum(classes) from file")).fetchall()
    )[0]
    table = Table(title="what happened", title_justify="left")
    for column in ("jobs", "completed", "retried", "reaped", "duplicates refused", "jobs/s"):
        table.add_column(column, justify="right")
    table.add_row(
        *map(str, (tally.jobs, completed, retried, reaped, tally.refused)),
        f"{tally.jobs / tally.seconds:.0f}",
    )
    console.print(table)
    console.print(f"found {functions} functions and {classes} classes")
    console.print("by the handlers' own ledger: ", end="")
    fine: bool = lost == twice == other == 0
    console.print(f"lost {lost}, finished twice {twice}", style="green" if fine else "bold red")
    return fine
