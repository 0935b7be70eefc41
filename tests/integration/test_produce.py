"""Producers in Python: one name on either kind of connection."""

from __future__ import annotations

import datetime as dt

import psycopg
import pytest

import pybatchq
from pybatchq import calls
from pybatchq.errors import InvalidArgumentError
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
