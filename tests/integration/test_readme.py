"""What the README shows works as it is printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import psycopg

import pybatchq
from pybatchq import handlers
from pybatchq.testing import drain

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def block(language: str, start: str) -> str:
    """The code block of a language that starts with this text."""
    found = re.search(rf"```{language}\n({re.escape(start)}.*?)```", README, re.DOTALL)
    assert found is not None, start
    return found[1]


async def test_the_sql_runs(conn: psycopg.AsyncConnection[Any]) -> None:
    produce, rest = block("sql", "-- produce").split("-- work")
    await conn.execute(produce.encode())
    work, look = rest.split("-- look")
    statements = [line for line in work.splitlines()[1:] if line.startswith("select")]
    cursor = await conn.execute(statements[0].encode())
    ((job_id, lease_id, kind, payload),) = await cursor.fetchall()
    assert (job_id, lease_id, kind, payload) == (1, 1, "send_receipt", {"order": 42})
    await conn.execute(statements[1].encode())
    for line in look.splitlines():
        if line.startswith("select"):
            assert await (await conn.execute(line.encode())).fetchall()


async def test_a36_the_handler_and_the_producer_run(db: str) -> None:
    shown = block("python", "# my_jobs.py").split("\n", 1)[1]
    assert shown.strip() in (ROOT / "examples" / "my_jobs.py").read_text()
    assert len(shown.strip().splitlines()) <= 15
    registry = handlers.Registry()
    scope = {"handler": registry.handler, "__name__": __name__}
    exec(shown.replace("from pybatchq import", "# "), scope)  # the README's own text
    async with await psycopg.AsyncConnection.connect(db, autocommit=True) as conn:
        await conn.execute("create table orders (id integer, total numeric)")
    async with await psycopg.AsyncConnection.connect(db) as conn, conn.transaction():
        await conn.execute("insert into orders (id, total) values (43, 12)")
        good = await pybatchq.enqueue(conn, "send_receipt", {"order": 43})
        bad = await pybatchq.enqueue(conn, "send_receipt", {})
    await drain(db, registry)
    async with await psycopg.AsyncConnection.connect(db) as conn:
        got = await pybatchq.calls.get_job(conn, job_id=good)
        assert (got.status, got.result) == ("completed", b'{"sent": 1}')
        failed = await pybatchq.calls.get_job(conn, job_id=bad)
        assert (failed.status, failed.attempts) == ("failed", 1)
        assert failed.last_error == "decode payload: order: required field is missing"
    assert failed.last_error in README
