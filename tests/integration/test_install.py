"""However batchq is installed, and however often, the same schema stands there."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
from typing import Any

import psycopg
import pytest

from pybatchq import connections, install
from tests.support.servers import Databases

MIGRATIONS = sorted((install.sql_dir() / "migrations").glob("*.sql"))


def psql(server: Databases, dsn: str, *arguments: str, script: str | None = None) -> None:
    """Run psql without PG* variables of ours; it must succeed and have nothing to complain of."""
    done = subprocess.run(
        [server.bin_dir / "psql", "-XAtq", *arguments, dsn],
        input=script,
        env={k: v for k, v in os.environ.items() if not k.startswith("PG")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "ERROR" not in done.stderr


def schema(server: Databases, dsn: str) -> str:
    """What pg_dump says of the schema, without its random restriction key."""
    dump = subprocess.run(
        [server.bin_dir / "pg_dump", "--schema-only", "--schema=batchq", dsn],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return re.sub(r"^\\(?:un)?restrict .*\n", "", dump, flags=re.MULTILINE)


def rows(conn: psycopg.Connection[tuple[Any, ...]], query: str) -> list[tuple[Any, ...]]:
    return conn.execute(query.encode()).fetchall()


async def test_installing_twice_changes_nothing(server: Databases, empty_db: str) -> None:
    first = await install.install_dsn(empty_db)
    assert first.migrations
    assert first.functions > 0
    once = schema(server, empty_db)
    second = await install.install_dsn(empty_db)
    assert second == install.InstallReport((), first.functions)
    assert schema(server, empty_db) == once


def test_migrations_are_numbered_without_gaps() -> None:
    assert [int(file.name[:4]) for file in MIGRATIONS] == list(range(1, len(MIGRATIONS) + 1))


@pytest.mark.parametrize("applied", range(1, len(MIGRATIONS)))
async def test_a_database_at_an_older_migration_becomes_the_same(
    server: Databases, db: str, empty_db: str, applied: int
) -> None:
    async with await psycopg.AsyncConnection.connect(empty_db, autocommit=True) as conn:
        for file in [install.sql_dir() / "schema.sql", *MIGRATIONS[:applied]]:
            await conn.execute(file.read_text().encode())
        await conn.execute("update batchq.upkeep set done = 5 where task = 'reap'")
    report = await install.install_dsn(empty_db)
    assert report.migrations == tuple(file.stem for file in MIGRATIONS[applied:])
    assert schema(server, empty_db) == schema(server, db)
    seeds = "select task, every, done from batchq.upkeep order by task"
    with psycopg.connect(empty_db) as upgraded, psycopg.connect(db) as fresh:
        kept = [(task, every, 5 if task == "reap" else 0) for task, every, _ in rows(fresh, seeds)]
        assert rows(upgraded, seeds) == kept
        newest = "select migration from batchq.version()"
        assert rows(upgraded, newest) == rows(fresh, newest) == [(len(MIGRATIONS),)]


# one job of each kind of row that lives on, with a dedupe key and without; written as it was then
LIVE = """
    insert into batchq.queue (queue, max_attempts) values ('q', 7);
    insert into batchq.job (id, created_at, run_at, segment, priority, max_attempts, queue, kind,
                            payload, dedupe_key)
    select nextval('batchq.position'), now(), now(), batchq_segment.last_value, 0, 3, 'q', 'k',
           '{}', k
    from batchq.current_segment as batchq_segment, unnest(array['a', null, 'c', null, 'e', null]) k;
    insert into batchq.dedupe (queue, dedupe_key, job_id, segment)
    select j.queue, j.dedupe_key, j.id, j.segment from batchq.job j where j.dedupe_key is not null;
    insert into batchq.ready (pos, job_id, segment, priority, attempt, keyed, queue)
    select j.id, j.id, j.segment, 0, 0, j.dedupe_key is not null, 'q'
    from batchq.job j where j.id in (1, 2);
    insert into batchq.scheduled (job_id, run_at, since, segment, priority, attempt, keyed, queue)
    select j.id, now(), now(), j.segment, 0, 1, j.dedupe_key is not null, 'q'
    from batchq.job j where j.id in (3, 4);
    insert into batchq.leased (job_id, lease_id, lease_until, reap_at, leased_at, segment, priority,
                               attempt, keyed, queue)
    select j.id, nextval('batchq.lease_number'), now() + interval '1 h', now() + interval '1 h',
           now(), j.segment, 0, 1, j.dedupe_key is not null, 'q'
    from batchq.job j where j.id in (5, 6);
"""


@pytest.mark.parametrize("applied", range(1, 5))
async def test_jobs_of_a_database_from_before_limits_go_on(
    server: Databases, db: str, empty_db: str, applied: int
) -> None:
    async with await psycopg.AsyncConnection.connect(empty_db, autocommit=True) as conn:
        for file in [install.sql_dir() / "schema.sql", *MIGRATIONS[:applied]]:
            await conn.execute(file.read_text().encode())
        for statement in LIVE.split(";"):
            await conn.execute(statement.encode())
    await install.install_dsn(empty_db)
    assert schema(server, empty_db) == schema(server, db)
    with psycopg.connect(empty_db, autocommit=True) as conn:
        ties = """
            select job_id, ties from batchq.ready
            union all select job_id, ties from batchq.scheduled
            union all select job_id, ties from batchq.leased order by 1"""
        assert rows(conn, ties) == [(1, 1), (2, 0), (3, 1), (4, 0), (5, 1), (6, 0)]
        held = "select batchq.enqueue('k', queue => 'q', dedupe_key => k)"
        again = f"{held} from unnest(array['a', 'c', 'e']) k"
        assert rows(conn, again) == [(1,), (3,), (5,)]
        # they count against limits that are set now, and what they hold is given back
        rows(conn, "select batchq.set_queue('q', max_running => 4, group_limit => 1)")
        took = rows(conn, "select job_id, lease_id from batchq.lease('q', 9)")
        assert [job for job, _ in took] == [1, 2]
        assert rows(conn, "select * from batchq.lease('q', 9)") == []
        rows(conn, "select batchq.complete(job_id, lease_id) from batchq.leased")
        conn.execute("update batchq.upkeep set next_at = '-infinity'")
        rows(conn, "select * from batchq.maintain()")
        assert len(rows(conn, "select * from batchq.lease('q', 9)")) == 2
        rows(conn, "select batchq.complete(job_id, lease_id) from batchq.leased")
        assert rows(conn, "select * from batchq.dedupe") == []
        states = "select state, count(*) from batchq.jobs group by 1"
        assert rows(conn, states) == [("completed", 6)]
        permits = "select sum(n) from batchq.permit where line = 'cap'"
        assert rows(conn, permits) == [(4,)]
        assert rows(conn, "select max_attempts, limited from batchq.queue") == [(7, True)]


def test_a_client_asks_for_the_newest_migration() -> None:
    assert len(MIGRATIONS) == connections.MIGRATION


def test_psql_makes_the_same_schema(server: Databases, db: str, empty_db: str) -> None:
    psql(server, empty_db, "-f", str(install.sql_dir() / "install.sql"))
    assert schema(server, empty_db) == schema(server, db)
    psql(server, empty_db, "-f", str(install.sql_dir() / "install.sql"))
    assert schema(server, empty_db) == schema(server, db)


def test_the_dumped_script_makes_the_same_schema(server: Databases, db: str, empty_db: str) -> None:
    for _ in range(2):
        psql(server, empty_db, script=install.dump())
        assert schema(server, empty_db) == schema(server, db)


async def test_eight_installers_at_once_all_succeed(
    server: Databases, db: str, empty_db: str
) -> None:
    reports = await asyncio.gather(*(install.install_dsn(empty_db) for _ in range(8)))
    assert sum(bool(report.migrations) for report in reports) == 1
    assert schema(server, empty_db) == schema(server, db)


async def test_a_session_keeps_its_settings(empty_db: str) -> None:
    query = "select name, setting from pg_settings order by name"
    async with await psycopg.AsyncConnection.connect(empty_db, autocommit=True) as conn:
        before = await (await conn.execute(query)).fetchall()
        await install.install(conn)
        after: dict[str, str] = dict(await (await conn.execute(query)).fetchall())
    # PL/pgSQL has settings of its own once it is loaded
    assert {name: after[name] for name, _ in before} == dict(before)


async def test_a_serializable_read_only_session_can_install(empty_db: str) -> None:
    options = "-c default_transaction_isolation=serializable -c default_transaction_read_only=on"
    async with await psycopg.AsyncConnection.connect(empty_db, options=options) as conn:
        report = await install.install(conn)
    assert report.migrations


async def test_nothing_of_batchq_is_left_in_the_database(empty_db: str) -> None:
    async with await psycopg.AsyncConnection.connect(empty_db, autocommit=True) as conn:
        await install.install(conn)
        await install.uninstall(conn)
        left = await conn.execute("select 1 from pg_namespace where nspname = 'batchq'")
        assert await left.fetchone() is None
        report = await install.install(conn)
    assert report.migrations
