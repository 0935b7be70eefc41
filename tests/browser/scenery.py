"""A little shop's jobs, made with the real functions: what the pages of the dashboard are to show.

Six queues: mail is busy, billing has dead letters of three bugs (one big) and retries, images runs
as many as it may, reports is paused, webhooks has groups, default has one job of every end.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from pybatchq import calls
from tests.conftest import Connection

NOW: Final = Path(__file__).parents[2] / "sql/functions/private/_now.sql"
BUG: Final = """KeyError: 'iban'
Traceback (most recent call last):
  File "shop/billing/charge.py", line 41, in charge_card
    account = customer["iban"]
              ~~~~~~~~^^^^^^^^
KeyError: 'iban'"""
BIG: Final = 64
REASON: Final = "the warehouse is moving until noon"
WORKERS: Final = (
    ("web-1:mail", UUID(int=1), ["mail", "default"], ["send_email", "send_digest", "echo"], 16, 3),
    ("web-1:money", UUID(int=2), ["billing", "webhooks"], ["charge_card", "call_hook"], 8, 1),
    ("gpu-2:images", UUID(int=3), ["images", "reports"], ["resize_image", "monthly_report"], 4, 2),
)
HISTORY: Final = """
    with part(queue, kind, a_minute) as (values
        ('mail', 'send_email', 90), ('mail', 'send_digest', 12), ('billing', 'charge_card', 31),
        ('images', 'resize_image', 17), ('webhooks', 'call_hook', 40),
        ('reports', 'monthly_report', 1)),
    spans as (
        select 1 as span, batchq._minute(clock_timestamp()) - make_interval(mins => m) as at, m
        from generate_series(-60, 1460) m
        union all
        select 60, batchq._hour(clock_timestamp()) - make_interval(hours => h), h * 60
        from generate_series(-1, 170) h),
    made as (
        select s.span, s.at, p.queue, p.kind,
               (s.span * p.a_minute
                * (1 + 0.5 * sin(extract(epoch from s.at) / 13751)
                   + 0.2 * sin(extract(epoch from s.at) / 631 + p.a_minute)))::integer as n,
               0.05 + 0.04 * sin(extract(epoch from s.at) / 9000 + p.a_minute) as wait,
               0.4 + 0.3 * sin(extract(epoch from s.at) / 7000 + p.a_minute) as run
        from spans s cross join part p),
    summed as (
        select m.span, m.at, coalesce(m.queue, '') as queue, coalesce(m.kind, '') as kind,
               sum(m.n) as n, avg(m.wait) as wait, avg(m.run) as run
        from made m
        group by m.span, m.at, grouping sets ((m.queue, m.kind), (m.queue), ()))
    insert into batchq.rollup (at, wait_s, run_s, enqueued, completed, cancelled, failed, reaped,
                               retried, dead_letters, waited, span, queue, kind, waits, runs)
    select s.at, s.n * s.wait, s.n * s.run, s.n * 1.02, s.n, 0, s.n / 25, 0, s.n / 30, s.n / 400,
           s.n, s.span, s.queue, s.kind,
           array(select (s.n / (1 + exp(-1.4 * (ln(2 ^ i) - ln(1000 * s.wait)))))::integer
                 from generate_series(0, 26) i) || s.n::integer,
           array(select (s.n / (1 + exp(-1.2 * (ln(2 ^ i) - ln(1000 * s.run)))))::integer
                 from generate_series(0, 26) i) || s.n::integer
    from summed s
    on conflict on constraint rollup_pkey do nothing
"""
TOTALS: Final = """
    insert into batchq.tally_total (queue, kind, enqueued, completed, failed, retried, dead_letters)
    select r.queue, r.kind, sum(r.enqueued), sum(r.completed), sum(r.failed), sum(r.retried),
           sum(r.dead_letters)
    from batchq.rollup r where r.span = 60 and r.queue <> '' and r.kind <> ''
    group by r.queue, r.kind
    on conflict on constraint tally_total_pkey do update set completed = excluded.completed
"""


@contextlib.asynccontextmanager
async def ago(conn: Connection, **wait: float) -> AsyncIterator[None]:
    """Inside, batchq's clock is so far behind, for everybody on this database."""
    micros = int(timedelta(**wait).total_seconds() * 1_000_000)
    await conn.execute(
        "create or replace function batchq._now() returns timestamptz language sql volatile"
        f" return clock_timestamp() - interval '{micros} microseconds'".encode()
    )
    try:
        yield
    finally:
        await conn.execute(NOW.read_bytes())


async def build(conn: Connection) -> None:
    """Everything but what is alive, see wake(). conn: a superuser's, autocommit."""
    async with ago(conn, hours=5):
        await _fail(conn, "billing", 9, "TimeoutError: no answer from 10.0.3.7 within 30 s")
    async with ago(conn, hours=2):
        await _fail(conn, "billing", BIG, BUG)
        await _enqueue(conn, "mail", "send_digest", 3, {"week": 31})
    async with ago(conn, minutes=40):
        await _fail(conn, "webhooks", 4, "HTTPError: 502 Bad Gateway", kind="call_hook")
        await _enqueue(conn, "reports", "monthly_report", 12, {"month": "2030-04"})
        await calls.pause(conn, queue="reports", reason=REASON)
    async with ago(conn, minutes=6):
        await _busy(conn)
        await _groups(conn)
        await _ends(conn)
    await conn.execute(HISTORY.encode())
    await conn.execute(TOTALS.encode())
    await wake(conn)


async def wake(conn: Connection) -> None:
    """Workers that beat and leases that hold, as of now."""
    for worker, worker_id, queues, kinds, concurrency, running in WORKERS:
        await calls.beat_worker(
            conn, worker_id=worker_id, worker=worker, host=worker.partition(":")[0], pid=4211,
            version="0.1.0", queues=queues, kinds=kinds, concurrency=concurrency,
            running=running, memory_bytes=87_400_000,
        )  # fmt: skip
    await conn.execute(
        "update batchq.leased set (lease_until, reap_at) ="
        " (batchq._now() + interval '50 min', batchq._now() + interval '50 min')"
    )
    # nobody but a worker does upkeep, and none of these is one
    await conn.execute("update batchq.upkeep set next_at = batchq._now() + interval '30 s'")
    await conn.execute(
        "update batchq.tally set tallied_at = clock_timestamp(),"
        " since = clock_timestamp() - interval '30 days', written_by = pg_current_xact_id()::xid"
    )


async def _enqueue(
    conn: Connection, queue: str, kind: str, n: int, payload: Mapping[str, Any], **more: Any
) -> list[int]:
    jobs = [{"queue": queue, "kind": kind, "payload": {**payload, "n": i}, **more}
            for i in range(n)]  # fmt: skip
    return [job.job_id for job in await calls.enqueue_many(conn, jobs=jobs)]


async def _fail(
    conn: Connection, queue: str, n: int, error: str, *, kind: str = "charge_card"
) -> None:
    payload = {"customer": "C-20417", "amount_cents": 12900, "currency": "EUR"}
    await _enqueue(conn, queue, kind, n, payload)
    await _end(conn, await calls.lease(conn, queue=queue, n=n, worker="web-1:money"), error)


async def _end(conn: Connection, jobs: Sequence[Any], error: str, retry_s: float = 0) -> None:
    """Fail these for good, or once."""
    await calls.fail_many(
        conn,
        job_ids=[job.job_id for job in jobs],
        lease_ids=[job.lease_id for job in jobs],
        errors=[error] * len(jobs),
        permanents=[not retry_s] * len(jobs),
        retry_ins=[timedelta(seconds=retry_s) if retry_s else None] * len(jobs),
    )


async def _busy(conn: Connection) -> None:
    letter = {"to": "ada@example.com", "template": "welcome", "locale": "en"}
    await _enqueue(conn, "mail", "send_email", 130, letter)
    mail = await calls.lease(conn, queue="mail", n=3, worker="web-1:mail")
    await calls.progress(
        conn, job_id=mail[0].job_id, lease_id=mail[0].lease_id, progress={"sent": 1200, "of": 4000}
    )
    await _enqueue(conn, "billing", "charge_card", 9, {"customer": "C-11"})
    tried = await calls.lease(conn, queue="billing", n=8, worker="web-1:money")
    await _end(conn, tried, "ConnectionError: the bank said no", retry_s=1500)
    await calls.set_queue(conn, queue="images", max_running=2)
    await _enqueue(conn, "images", "resize_image", 24, {"file": "cat.png", "width": 640})
    images = await calls.lease(conn, queue="images", n=2, worker="gpu-2:images")
    for job, done in zip(images, (0.62, 0.18), strict=True):
        await calls.progress(conn, job_id=job.job_id, lease_id=job.lease_id, progress=done)
    await _enqueue(conn, "mail", "send_digest", 5, {"week": 32}, delay=7200, priority=5)


async def _groups(conn: Connection) -> None:
    await calls.set_queue(conn, queue="webhooks", group_limit=1)
    for group, n in (("acme", 14), ("globex", 6), ("initech", 2)):
        await _enqueue(conn, "webhooks", "call_hook", n, {"event": "paid"}, group_key=group)
    await calls.lease(conn, queue="webhooks", n=1, worker="web-1:money")


async def _ends(conn: Connection) -> None:
    ids = await _enqueue(conn, "default", "echo", 4, {"hello": "world"})
    jobs = await calls.lease(conn, queue="default", n=2)
    await calls.complete_many(
        conn, job_ids=[job.job_id for job in jobs], lease_ids=[job.lease_id for job in jobs],
        results=[{"hello": "world", "took": [1, 2, 3]}, None],
    )  # fmt: skip
    await calls.cancel(conn, job_id=ids[-1], reason="not needed any more")
