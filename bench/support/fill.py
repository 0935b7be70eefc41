"""Databases for the workloads: empty schemas, and jobs in them."""

from __future__ import annotations

import asyncio

import psycopg

from bench.support.context import BENCH, run_sql
from bench.support.model import BenchError
from bench.support.query import scalar
from pybatchq import install

FILL_CHUNK = 10_000
LEFT = """
    select (select count(*) from batchq.ready) + (select count(*) from batchq.scheduled)
        + (select count(*) from batchq.leased)
"""


def install_batchq(dsn: str) -> None:
    """The product as its own installer leaves it."""
    asyncio.run(install.install_dsn(dsn))


def install_bare(dsn: str) -> None:
    run_sql(dsn, (BENCH / "peers" / "bare.sql").read_text())


def install_one_table(dsn: str) -> None:
    run_sql(dsn, (BENCH / "peers" / "one_table.sql").read_text())


def install_nothing(dsn: str) -> None:
    """Products bring their own schema."""


def payload_text(size: int) -> str:
    """SQL for the payload of job `n`: small, or about `size` bytes that do not compress."""
    if not size:
        return "jsonb_build_object('m', n)"
    digests = -(-size // 32)
    return (
        f"jsonb_build_object('m', left((select string_agg(md5(n::text || '.' || i), '')"
        f" from generate_series(1, {digests}) i), {size - 10}))"
    )


def fill_batchq(
    dsn: str, jobs: int, size: int = 0, fields: str = "", *, kind: str = "noop"
) -> None:
    """Ready jobs through `enqueue_many`. `fields` is SQL for more pairs of each job's object."""
    query = f"""
        select count(*) from batchq.enqueue_many((
            select jsonb_agg(jsonb_build_object('kind', '{kind}', 'payload', {payload_text(size)}
                {", " + fields if fields else ""}))
            from generate_series(%s::bigint, %s::bigint) n))
    """
    with psycopg.connect(dsn, autocommit=True) as conn:
        for first in range(1, jobs + 1, FILL_CHUNK):
            conn.execute(query.encode(), (first, min(first + FILL_CHUNK - 1, jobs)))


def fill_one_table(dsn: str, jobs: int, size: int = 0, *, analyse: bool = True) -> None:
    """Ready jobs, and fresh statistics for the planner unless told otherwise."""
    insert = f"""
        insert into one_table.job (payload)
        select {payload_text(size)} from generate_series(1, {jobs}) n
    """
    run_sql(dsn, insert)
    if analyse:
        run_sql(dsn, "vacuum analyze one_table.job")


def fill_bare(dsn: str, jobs: int) -> None:
    insert = f"""
        insert into bare.ready (queue, kind, priority, payload)
        select 'default', 'noop', 0, {payload_text(0)} from generate_series(1, {jobs}) n
    """
    run_sql(dsn, insert)
    run_sql(dsn, "vacuum analyze bare.ready")


def expect_completed(dsn: str, jobs: int) -> None:
    """A rate counts only when exactly that many jobs were finished."""
    found = scalar(dsn, "select count(*) from batchq.outcome where state = 'completed'")
    if found != jobs:
        raise BenchError(f"{found} jobs were completed, not {jobs}")
