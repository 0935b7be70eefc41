"""What counters() says against what was committed: each thing once, whatever came between."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import time
from typing import Any

import psycopg
import pytest

from tests.conftest import Connect, Connection
from tests.support.servers import Databases
from tests.support.upheaval import QUEUES, SMALL, WITNESS, Upheaval, counted

ENQUEUE = """
    select from batchq.enqueue_many((
        select jsonb_agg('{"kind": "k", "max_attempts": 1}'::jsonb) from generate_series(1, %s)))"""
COMPLETE = "select count(batchq.complete(l.job_id, l.lease_id, %s)) from batchq.lease(n => %s) l"
FAIL = "select count(batchq.fail(l.job_id, l.lease_id, 'e')) from batchq.lease(n => %s) l"
OLD = """
    select from batchq.enqueue_many((
        select jsonb_agg('{"kind": "old"}'::jsonb) from generate_series(1, 20)))"""


async def told(*sessions: Connection) -> None:
    """The statistics know what these sessions have done. They hand it in when they are idle."""
    for session in sessions:
        await session.execute("select pg_stat_force_next_flush()")


async def value(conn: Connection, query: str, *parameters: object) -> Any:
    row = await (await conn.execute(query.encode(), parameters)).fetchone()
    assert row is not None
    return row[0]


async def tally(conn: Connection, *others: Connection, steps: int = 3) -> dict[str, int]:
    """The counters that are not 0, once a few steps of the tally were made and nothing is left."""
    await told(conn, *others)
    for _ in range(steps):
        while await value(conn, "select batchq._tally()"):
            pass
    return await counters(conn)


async def counters(conn: Connection) -> dict[str, int]:
    cursor = await conn.execute("select * from batchq.counters()")
    row = await cursor.fetchone()
    assert row is not None
    assert cursor.description is not None
    names = [column.name for column in cursor.description]
    return {n: v for n, v in zip(names, row, strict=True) if isinstance(v, int) and v}


@pytest.mark.timeout(180)
async def test_b35_counters_equal_what_was_committed_however_it_was(db: str) -> None:
    upheaval = Upheaval(db, random.Random(5))
    async with upheaval.session() as conn:
        await conn.execute(WITNESS)
        await conn.execute(SMALL)
        for queue in QUEUES:
            await conn.execute(
                "select batchq.set_queue(%s, backoff => 'fixed', backoff_base => '0.05 s')",
                (queue,),
            )
        running = asyncio.ensure_future(upheaval.run(10))
        before: dict[tuple[str, str, str], int] = {}
        while not running.done():
            now = await counted(conn)
            seen = await upheaval.seen(conn)
            assert all(now.get(key, 0) >= n for key, n in before.items()), "it went down"
            assert all(seen.get(key, 0) >= n for key, n in now.items()), "more than there were"
            before = now
            await asyncio.sleep(0.2)
        await running
        seen = await upheaval.seen(conn)
        async with asyncio.timeout(60):
            while await counted(conn) != seen:
                await tally(conn, steps=1)
                await asyncio.sleep(0.1)
        assert {key[2] for key in seen} >= {"retried", "dead_letters", "reaped", "cancelled"}
        assert await value(conn, "select count(*) from batchq.tally_gone") == 0


async def test_b35_each_kind_of_thing_is_counted_for_its_queue_and_kind(conn: Connection) -> None:
    await conn.execute("select batchq.set_queue('q', backoff => 'fixed', backoff_base => '0')")
    await conn.execute(
        "select batchq.enqueue('a', queue => 'q', max_attempts => 2),"
        " batchq.enqueue('b', queue => 'q', delay => '1 h'), batchq.enqueue('c')"
    )
    for _ in range(2):
        await conn.execute(
            "select batchq.fail(job_id, lease_id, 'e') from batchq.lease('q')"  # twice: dead
        )
    await conn.execute("select batchq.cancel_many(kind => 'b')")
    await conn.execute("select batchq.lease(lease_for => '0.1 s'), pg_sleep(0.15)")
    await conn.execute("select batchq.reap()")
    assert await tally(conn) == {
        "enqueued": 3, "started": 3, "failed": 2, "retried": 2, "reaped": 1, "dead_letters": 1,
        "cancelled": 1,
    }  # fmt: skip
    assert await counted(conn) == {
        ("q", "a", "enqueued"): 1, ("q", "a", "failed"): 2, ("q", "a", "retried"): 1,
        ("q", "a", "dead_letters"): 1, ("q", "b", "enqueued"): 1, ("q", "b", "cancelled"): 1,
        ("default", "c", "enqueued"): 1, ("default", "c", "reaped"): 1,
        ("default", "c", "retried"): 1,
    }  # fmt: skip


async def test_a_failed_attempt_that_ends_in_a_cancel_is_no_retry(conn: Connection) -> None:
    await conn.execute("select batchq.enqueue('k')")
    await conn.execute("select batchq.cancel(job_id) from batchq.lease()")
    await conn.execute("select batchq.fail(job_id, lease_id, 'e') from batchq.leased")
    assert await tally(conn) == {"enqueued": 1, "started": 1, "failed": 1, "cancelled": 1}


async def test_who_keeps_a_transaction_open_holds_up_nobody_but_himself(
    connect: Connect, conn: Connection
) -> None:
    open_one = await connect()
    await open_one.execute("begin; savepoint a")
    await open_one.execute(OLD.encode())
    await open_one.execute("release a; savepoint b")
    await conn.execute(ENQUEUE, (10_000,))
    for _ in range(3):
        await conn.execute(COMPLETE, (None, 1000))
        done = await tally(conn)
    assert done == {"enqueued": 10_000, "started": 3000, "completed": 3000}
    await open_one.execute(OLD.encode())
    await conn.execute(ENQUEUE, (10_000,))
    assert (await tally(conn))["enqueued"] == 20_000
    await open_one.execute("commit")
    assert (await tally(conn, open_one))["enqueued"] == 20_040


@pytest.mark.parametrize("end", ["rollback to a; release a; commit", "rollback"])
async def test_what_was_rolled_back_does_not_count(
    connect: Connect, conn: Connection, end: str
) -> None:
    other = await connect()
    await other.execute("begin; savepoint a")
    await other.execute(ENQUEUE, (5,))
    await tally(conn)
    await other.execute(end.encode())
    assert await tally(conn, other) == {}


async def test_a_prepared_transaction_counts_when_it_is_committed(
    connect: Connect, conn: Connection
) -> None:
    other = await connect()
    await other.execute("begin")
    await other.execute(ENQUEUE, (5,))
    await other.execute("prepare transaction 'a'")
    assert await tally(conn) == {}
    await conn.execute("commit prepared 'a'")
    assert await tally(conn, other) == {"enqueued": 5}


async def test_a_job_that_was_replaced_counts_once(conn: Connection) -> None:
    replace = "select batchq.enqueue('k', '{}', dedupe_key => 'd', on_duplicate => 'replace')"
    await conn.execute(replace)
    await conn.execute(replace)
    await tally(conn)
    for _ in range(2):
        await conn.execute(replace)
        assert await tally(conn) == {"enqueued": 1}


async def test_what_purge_and_redrive_take_away_at_once_is_counted(conn: Connection) -> None:
    await conn.execute(ENQUEUE, (9,))
    await conn.execute(COMPLETE, (None, 2))
    await conn.execute(FAIL, (4,))
    await conn.execute("select batchq.redrive(n => 1), batchq.purge(n => 1)")
    await conn.execute("select batchq.cancel_many(state => 'ready', n => 3)")
    await conn.execute("select batchq.purge(status => 'completed', n => 1)")
    await conn.execute("select batchq.purge(status => 'cancelled', n => 1)")
    assert await value(conn, "select count(*) > 0 from batchq.tally_gone")
    expected = {"enqueued": 9, "started": 6, "completed": 2, "failed": 4, "dead_letters": 4,
                "cancelled": 3}  # fmt: skip
    assert await tally(conn) == expected
    await conn.execute("select batchq.redrive(), batchq.purge(status => 'completed')")
    await conn.execute("select batchq.purge(status => 'cancelled')")
    assert await value(conn, "select count(*) from batchq.tally_gone") == 0
    assert await tally(conn) == expected


async def test_rows_that_vacuum_let_into_old_pages_are_found(conn: Connection) -> None:
    await conn.execute(SMALL)
    await tally(conn)
    await conn.execute(ENQUEUE, (4000,))
    await conn.execute(COMPLETE, ('"x"', 3000))
    assert (await tally(conn))["completed"] == 3000
    pages = "select pg_relation_size('batchq.outcome_0') / 8192"
    before = await value(conn, pages)
    await conn.execute("select batchq.purge(status => 'completed', n => 2000)")
    await conn.execute("vacuum batchq.outcome_0")
    await conn.execute(COMPLETE, ('"x"', 1000))
    assert await value(conn, pages) == before, "the test needs rows in old pages"
    async with asyncio.timeout(30):
        while (await tally(conn))["completed"] < 4000:
            pass
    assert (await tally(conn))["completed"] == 4000


@pytest.mark.parametrize(
    "change",
    ["vacuum full batchq.outcome_0", "cluster batchq.outcome_0 using outcome_0_pkey"],
)
async def test_a_partition_that_was_written_anew_is_not_counted_again(
    conn: Connection, change: str
) -> None:
    await conn.execute(SMALL)
    await tally(conn)
    await conn.execute(ENQUEUE, (3200,))
    for _ in range(6):
        await conn.execute(COMPLETE, (None, 500))
        await tally(conn)
    assert (await tally(conn))["completed"] == 3000
    # rows come to stand where others were looked at longer ago
    await conn.execute("select batchq.purge(status => 'completed', n => 1500)")
    await conn.execute(
        "update batchq.tally_chunk c set upto = p.upto from batchq.tally_part p"
        " where c.axis = 'outcome' and c.chunk < 5 and p.axis = c.axis and p.segment = c.segment"
    )
    await conn.execute(change.encode())
    await conn.execute(COMPLETE, (None, 100))
    async with asyncio.timeout(30):
        while (await tally(conn))["completed"] < 3100:
            pass
    assert (await tally(conn))["completed"] == 3100


async def test_a_segment_is_counted_before_it_is_emptied_and_counts_on(
    connect: Connect, conn: Connection
) -> None:
    await conn.execute(SMALL)
    await tally(conn)
    await conn.execute(ENQUEUE, (300,))
    await conn.execute(COMPLETE, (None, 10))
    assert (await tally(conn))["enqueued"] == 300
    await conn.execute(ENQUEUE, (3,))
    await conn.execute("select nextval('batchq.current_segment')")
    await conn.execute(ENQUEUE, (5,))
    await conn.execute(COMPLETE, (None, 10))
    await conn.execute(FAIL, (10,))
    await conn.execute("begin; lock batchq.job_0, batchq.outcome_0, batchq.error_0")
    assert await value(conn, "select batchq._tally_emptied(0::smallint)")
    other = await connect()
    assert await value(other, "select batchq._tally()") == 0, "a step waits for nobody"
    await conn.execute("delete from batchq.dead; delete from batchq.ready where segment = 0")
    await conn.execute("truncate batchq.job_0, batchq.outcome_0, batchq.error_0; commit")
    done = {"enqueued": 308, "started": 30, "completed": 20, "failed": 10, "dead_letters": 10}
    assert await tally(conn) == done
    await conn.execute(COMPLETE, (None, 5))
    assert await tally(conn) == {**done, "started": 35, "completed": 25}
    assert await value(conn, "select count(*) from batchq.tally_gone") == 0


async def test_f076_the_rows_of_replaced_jobs_in_a_restored_dump_are_not_new(
    server: Databases, conn: Connection, db: str, empty_db: str
) -> None:
    await tally(conn)
    replace = "select batchq.enqueue('k', '{}', dedupe_key => 'd', on_duplicate => 'replace')"
    await conn.execute(replace)
    await conn.execute(replace)
    assert await tally(conn) == {"enqueued": 1}
    await asyncio.to_thread(copy, server, db, empty_db)
    async with await psycopg.AsyncConnection.connect(empty_db, autocommit=True) as restored:
        # the other cluster was at xids that this one has still to come to
        await restored.execute(
            "update batchq.job set first_xid"
            " = (pg_current_xact_id()::text::bigint + 20)::text::xid where first_xid is not null"
        )
        for _ in range(30):
            await restored.execute("select batchq._tally(), pg_current_xact_id()")
        assert await tally(restored) == {"enqueued": 1}


async def test_steps_are_quick_though_their_plans_were_made_on_empty_tables(
    conn: Connection,
) -> None:
    await conn.execute("analyze")
    for _ in range(8):
        await conn.execute("select batchq._tally()")
    for _ in range(5):
        await conn.execute(ENQUEUE, (5000,))
    for _ in range(20):
        await conn.execute(COMPLETE, (None, 1000))
    for _ in range(5):
        await conn.execute(FAIL, (1000,))
    await told(conn)
    took_s: list[float] = []
    done: dict[str, int] = {}
    while done.get("completed") != 20_000 or done.get("failed") != 5000:
        started = time.perf_counter()
        await conn.execute("select batchq._tally()")
        took_s.append(time.perf_counter() - started)
        done = await counters(conn)
        assert len(took_s) < 60
    assert done == {"enqueued": 25_000, "started": 25_000, "completed": 20_000, "failed": 5000,
                    "dead_letters": 5000}  # fmt: skip
    assert max(took_s) < 0.5, took_s  # 0.02 by the right plans; minutes by others
    assert sum(took_s) < 2, took_s


def copy(server: Databases, one: str, other: str) -> None:
    """What a dump of one database holds, into another."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PG")}
    dump = subprocess.run(
        [server.bin_dir / "pg_dump", "--no-owner", one],
        env=environment, capture_output=True, check=True,
    )  # fmt: skip
    subprocess.run(
        [server.bin_dir / "psql", "-XAtqv", "ON_ERROR_STOP=1", other],
        input=dump.stdout, env=environment, capture_output=True, check=True,
    )  # fmt: skip


async def test_f076_a_restored_dump_keeps_its_counters_and_goes_on_from_there(
    server: Databases, conn: Connection, db: str, empty_db: str
) -> None:
    await conn.execute(ENQUEUE, (3000,))
    await conn.execute(COMPLETE, (None, 1000))
    before = await tally(conn)
    await asyncio.to_thread(copy, server, db, empty_db)
    async with await psycopg.AsyncConnection.connect(empty_db, autocommit=True) as restored:
        assert await counters(restored) == before
        assert await tally(restored) == before
        await restored.execute(COMPLETE, (None, 500))
        await restored.execute(ENQUEUE, (10,))
        after = await tally(restored)
    assert after == {"enqueued": 3010, "started": 1500, "completed": 1500}


async def test_a_step_is_bounded_and_says_that_there_is_more(conn: Connection) -> None:
    await conn.execute(SMALL)
    await conn.execute(ENQUEUE, (10_000,))
    await value(conn, "select batchq._tally()")
    await conn.execute("update batchq.upkeep set next_at = '-infinity' where task = 'tally'")
    row = await (
        await conn.execute("select done, more from batchq.maintain() where task = 'tally'")
    ).fetchone()
    assert row == (1000, True)
    assert 0 < (await counters(conn))["enqueued"] < 10_000
    assert (await tally(conn))["enqueued"] == 10_000


async def test_two_at_once_and_another_isolation_level_count_nothing_twice(
    connect: Connect, conn: Connection
) -> None:
    other = await connect()
    await conn.execute(ENQUEUE, (100,))
    await tally(conn, steps=1)
    await conn.execute("begin; select batchq._tally()")
    assert await value(other, "select batchq._tally()") == 0, "it goes away, and waits for nobody"
    await other.execute("begin isolation level repeatable read; select batchq._tally(); commit")
    await conn.execute("rollback")
    assert await tally(conn) == {"enqueued": 100}


async def test_pairs_beyond_a_thousand_share_a_row(conn: Connection) -> None:
    await conn.execute(
        """
        select from batchq.enqueue_many((
            select jsonb_agg(jsonb_build_object('kind', 'k' || g)) from generate_series(1, 1200) g))
        """
    )
    await conn.execute("select batchq.enqueue('k1')")
    assert (await tally(conn))["enqueued"] == 1201
    rows = "select count(*) from batchq.tally_total"
    assert await value(conn, rows) == 1001
    others = "select enqueued from batchq.kind_counters('')"
    assert await value(conn, others) in {200, 201}


async def test_f028_no_job_waits_for_the_tally(connect: Connect, conn: Connection) -> None:
    stuck = await connect()
    await conn.execute(ENQUEUE, (10,))
    await stuck.execute("begin; select batchq._tally()")
    await conn.execute("set lock_timeout = '100 ms'")
    await conn.execute(ENQUEUE, (10,))
    await conn.execute(COMPLETE, (None, 5))
    await conn.execute(FAIL, (5,))
    await conn.execute("select batchq.redrive(), batchq.purge(status => 'completed')")
    await conn.execute("select batchq.maintain(), batchq.counters(), batchq.kind_counters()")
