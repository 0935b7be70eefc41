"""Producers in Python: one name on either kind of connection."""

from __future__ import annotations

import datetime as dt

import psycopg
import pytest

import pybatchq
from pybatchq import calls
from pybatchq.errors import InvalidArgumentError, QueueFullError
from pybatchq.testing import Ledger, drain, registry
from tests.conftest import Connection


async def test_b13_a_program_without_a_loop_enqueues_in_its_own_transaction(
    db: str, conn: Connection
) -> None:
    with psycopg.connect(db) as sync:
        pybatchq.enqueue(sync, "k", {"n": 1})
        sync.rollback()
        job_id = pybatchq.enqueue(
            sync, "k", {"n": 2}, queue="q", delay=dt.timedelta(minutes=5), headers={"a": 1}
        )
        first, second = pybatchq.enqueue_many(sync, jobs=[{"kind": "a"}, {"kind": "b"}])
        sync.commit()
    job = await calls.get_job(conn, job_id=job_id)
    assert (job.payload, job.queue, job.state, job.headers) == (
        b'{"n": 2}', "q", "scheduled", b'{"a": 1}',
    )  # fmt: skip
    listed = await calls.list_jobs(conn)
    assert {one.id for one in listed} == {job_id, first.job_id, second.job_id}


async def test_the_same_name_is_awaited_on_an_asynchronous_connection(conn: Connection) -> None:
    job_id = await pybatchq.enqueue(conn, "k", {"n": 1}, priority=3)
    assert (await calls.get_job(conn, job_id=job_id)).priority == 3
    (many,) = await pybatchq.enqueue_many(conn, jobs=[{"kind": "a"}])
    assert many.is_new


async def test_jobs_of_a_group_run_in_the_order_in_which_they_were_added_anyhow(
    db: str, conn: Connection
) -> None:
    await calls.set_queue(conn, queue="q", group_limit=1)
    job = {"kind": "ledger", "queue": "q", "group_key": "g"}
    with psycopg.connect(db, autocommit=True) as sync:
        ids = [pybatchq.enqueue(sync, "ledger", {}, queue="q", group_key="g")]
        ids += [one.job_id for one in pybatchq.enqueue_many(sync, jobs=[job] * 3)]
    ids.append(await pybatchq.enqueue(conn, "ledger", {}, queue="q", group_key="g"))
    ids += [one.job_id for one in await pybatchq.enqueue_many(conn, jobs=[job] * 3)]
    assert (await calls.get_job(conn, job_id=ids[3])).group_key == "g"
    async with Ledger(db) as ledger:
        await drain(db, registry(ledger), queues=["q"], concurrency=5)
        runs = await ledger.runs()
    assert [run.job_id for run in runs] == ids
    ended = [run.ended_at for run in runs]
    assert all(end and end < run.started_at for end, run in zip(ended, runs[1:], strict=False))


async def test_a_full_queue_refuses_a_producer_and_keeps_nothing(db: str, conn: Connection) -> None:
    await calls.set_queue(conn, queue="default", max_depth=2)
    with psycopg.connect(db, autocommit=True) as sync:
        with pytest.raises(QueueFullError, match="queue 'default' is full: 2 jobs wait"):
            pybatchq.enqueue_many(sync, jobs=[{"kind": "k"}] * 3)
        pybatchq.enqueue_many(sync, jobs=[{"kind": "k"}] * 2)
        with pytest.raises(QueueFullError) as caught:
            pybatchq.enqueue(sync, "k")
        pybatchq.enqueue(sync, "k", delay=dt.timedelta(hours=1))
    assert "max_depth" in str(caught.value.hint)
    (depth,) = await calls.stats(conn)
    assert (depth.ready, depth.scheduled) == (2, 1)


def test_a_newer_schema_with_more_columns_harms_no_older_client(db: str) -> None:
    newer = """
        drop function batchq.enqueue_many(jsonb);
        create function batchq.enqueue_many(jobs jsonb)
        returns table (later text, is_new boolean, job_id bigint, ordinal integer)
        language sql as $$ select 'new', true, 7::bigint, 1 $$
    """
    with psycopg.connect(db) as sync:
        sync.execute(newer)
        (made,) = pybatchq.enqueue_many(sync, jobs=[{"kind": "a"}])
        assert (made.ordinal, made.job_id, made.is_new) == (1, 7, True)
        sync.rollback()


def test_errors_are_the_same_without_a_loop(db: str) -> None:
    with psycopg.connect(db) as sync:
        with pytest.raises(InvalidArgumentError, match="invalid queue"):
            pybatchq.enqueue(sync, "k", queue="")
        sync.rollback()
        with pytest.raises(TypeError, match="enqueue has no argument quue"):
            pybatchq.enqueue(sync, "k", quue="q")
