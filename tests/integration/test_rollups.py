"""What rollups say against what was committed, by minute, and percentiles against exact ones."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from datetime import timedelta
from time import perf_counter
from typing import Any

import psycopg
import pytest

from tests.conftest import Connect, Connection
from tests.support.plans import NO_AUTOVACUUM
from tests.support.servers import Databases
from tests.support.upheaval import QUEUES, SMALL, Upheaval

# minutes and hours so short that there are many of them
SHORT = """
    create or replace function batchq._minute(at timestamptz) returns timestamptz
    language sql immutable return date_bin('0.5 s', at, '2000-01-01 00:00:00+00'::timestamptz);
    create or replace function batchq._hour(at timestamptz) returns timestamptz
    language sql immutable return date_bin('3 s', at, '2000-01-01 00:00:00+00'::timestamptz)
"""
# a table of what happened that lives and dies with the transactions
WITNESS = """
    create table public.saw (
        event text not null, queue text not null, kind text not null, at timestamptz not null,
        wait interval, run interval);
    create function public.see() returns trigger language plpgsql as $$
    declare
        v_job batchq.job;
    begin
        select j.* into v_job from batchq.job j
        where j.id = case when tg_argv[0] = 'job' then to_jsonb(new) ->> 'id'
                          else to_jsonb(new) ->> 'job_id' end::bigint;
        case when tg_argv[0] = 'job' then
            insert into public.saw values ('enqueued', v_job.queue, v_job.kind, new.created_at);
        when tg_argv[0] = 'dead' then
            insert into public.saw values ('dead_letters', v_job.queue, v_job.kind, new.failed_at);
        when tg_argv[0] = 'error' then
            insert into public.saw values (
                case when new.expired then 'reaped' else 'failed' end, v_job.queue, v_job.kind,
                new.failed_at);
        else
            insert into public.saw values (
                new.state, v_job.queue, v_job.kind, new.finished_at,
                case when new.state = 'completed' and new.attempt = 1
                     then greatest(new.leased_at - v_job.run_at, '0') end,
                case when new.state = 'completed' then new.finished_at - new.leased_at end);
            insert into public.saw
            select 'stopped', v_job.queue, v_job.kind, new.finished_at
            from batchq.error e where e.job_id = new.job_id and e.lease_id = new.lease_id;
        end case;
        return null;
    end $$;
    create trigger seen after insert on batchq.job for each row
        execute function public.see('job');
    create trigger seen after insert on batchq.dead for each row
        execute function public.see('dead');
    create trigger seen after insert on batchq.error for each row
        execute function public.see('error');
    create trigger seen after insert on batchq.outcome for each row
        execute function public.see('outcome')
"""
EXPECTED = """
    select s.span, s.at, coalesce(s.queue, '') as queue, coalesce(s.kind, '') as kind,
           count(*) filter (where s.event = 'enqueued') as enqueued,
           count(*) filter (where s.event = 'completed') as completed,
           count(*) filter (where s.event = 'cancelled') as cancelled,
           count(*) filter (where s.event = 'failed') as failed,
           count(*) filter (where s.event = 'reaped') as reaped,
           count(*) filter (where s.event in ('failed', 'reaped'))
               - count(*) filter (where s.event in ('dead_letters', 'stopped')) as retried,
           count(*) filter (where s.event = 'dead_letters') as dead_letters,
           count(s.wait) as waited,
           round(coalesce(sum(extract(epoch from s.wait)), 0), 5) as wait_s,
           round(coalesce(sum(extract(epoch from s.run)), 0), 5) as run_s,
           case when bool_or(s.event = 'completed') then array[{waits}] end as waits,
           case when bool_or(s.event = 'completed') then array[{runs}] end as runs
    from (select 1 as span, batchq._minute(w.at) as at, w.queue, w.kind, w.event, w.wait, w.run
          from public.saw w
          union all
          select 60, batchq._hour(w.at), w.queue, w.kind, w.event, w.wait, w.run
          from public.saw w) s
    group by s.span, s.at, grouping sets ((), (s.queue), (s.queue, s.kind))
""".format(
    **{
        name: ", ".join(
            f"count(*) filter (where s.{column} <= interval '1 ms' * {2**i})" for i in range(28)
        )
        for name, column in (("waits", "wait"), ("runs", "run"))
    }
)
TOLD = """
    select r.span, r.at, r.queue, r.kind, r.enqueued, r.completed, r.cancelled, r.failed, r.reaped,
           r.retried, r.dead_letters, r.waited, round(r.wait_s::numeric, 5),
           round(r.run_s::numeric, 5), r.waits, r.runs
    from batchq.rollup r
"""
WRONG = f"""
    (select 'missing', x.* from ({EXPECTED} except {TOLD}) x)
    union all (select 'told', x.* from ({TOLD} except {EXPECTED}) x)
"""


async def rows(conn: Connection, query: str, *parameters: object) -> list[tuple[Any, ...]]:
    return await (await conn.execute(query.encode(), parameters)).fetchall()


async def value(conn: Connection, query: str, *parameters: object) -> Any:
    return (await rows(conn, query, *parameters))[0][0]


async def tally(conn: Connection, *others: Connection) -> None:
    for session in (*others, conn):
        await session.execute("select pg_stat_force_next_flush()")
    for _ in range(3):
        while await value(conn, "select batchq._tally()"):
            pass


@pytest.mark.timeout(180)
async def test_b35_rollups_equal_what_was_committed_at_each_time(db: str) -> None:
    upheaval = Upheaval(db, random.Random(11))
    async with upheaval.session() as conn:
        await conn.execute(WITNESS)
        await conn.execute(SMALL)
        await conn.execute(SHORT)
        for queue in QUEUES:
            await conn.execute(
                "select batchq.set_queue(%s, backoff => 'fixed', backoff_base => '0.05 s')",
                (queue,),
            )
        await upheaval.run(8)
        wrong: list[tuple[Any, ...]] = []
        async with asyncio.timeout(90):
            while wrong := await rows(conn, WRONG):
                await tally(conn)
                await asyncio.sleep(0.1)
        assert not wrong
        spans = "select count(distinct at) from batchq.rollup where span = %s"
        assert await value(conn, spans, 1) > 10
        assert await value(conn, spans, 60) > 2
        parts = "select count(distinct (queue, kind)) from batchq.rollup"
        assert await value(conn, parts) == 10, "6 pairs, 3 queues, all"
        # what counters have since ever is what the minutes have
        assert await rows(
            conn,
            """
            select k.queue, k.kind from batchq.kind_counters() k
            cross join lateral (
                select sum(r.completed) as completed, sum(r.waited) as waited,
                       sum(r.wait_s) as wait_s, sum(r.run_s) as run_s,
                       sum(r.waits[9]) as waits, sum(r.runs[9]) as runs
                from batchq.rollup r
                where r.queue = k.queue and r.kind = k.kind and r.span = 1) s
            where k.queue <> '' and (
                row(k.completed, k.waited, k.waits[9], k.runs[9])
                    is distinct from row(s.completed, s.waited, s.waits, s.runs)
                or abs(k.wait_s - s.wait_s) > 1e-5 or abs(k.run_s - s.run_s) > 1e-5)
            """,
        ) == []  # fmt: skip


async def test_what_is_committed_late_is_told_at_its_minute(
    connect: Connect, conn: Connection
) -> None:
    late = await connect()
    await conn.execute(SHORT)
    await late.execute("begin")
    await late.execute("select batchq.enqueue('late')")
    at = await value(late, "select batchq._minute(created_at) from batchq.job")
    await conn.execute("select batchq.enqueue('soon')")
    await tally(conn)
    await conn.execute("select pg_sleep(0.6)")
    await conn.execute("select batchq.enqueue('soon')")
    await tally(conn)
    told = "select at, enqueued from batchq.rollup where kind = 'late' and span = 1"
    assert await rows(conn, told) == []
    await late.execute("commit")
    await tally(conn, late)
    assert await rows(conn, told) == [(at, 1)]


@pytest.mark.parametrize("unit_ms", [0.2, 7, 2000, 3_600_000])
async def test_percentiles_are_within_the_stated_error(conn: Connection, unit_ms: float) -> None:
    chance = random.Random(unit_ms)
    waits = [unit_ms * chance.lognormvariate(1, 1.5) for _ in range(700)]
    runs = [unit_ms * chance.expovariate(0.1) for _ in range(700)]
    await conn.execute("select batchq.enqueue('k') from generate_series(1, 700)")
    await conn.execute("select batchq.lease(n => 700)")
    await conn.execute(
        """
        with p as (select date_trunc('minute', clock_timestamp()) - interval '90 s' as at),
        i as (select i.*, row_number() over () as n from unnest(%s::float8[], %s::float8[])
              as i(wait_ms, run_ms)),
        l as (delete from batchq.leased returning *),
        m as (select l.*, row_number() over () as n from l)
        , j as (update batchq.job j set run_at = p.at - i.run_ms * interval '1 ms'
                                               - i.wait_ms * interval '1 ms'
                from m, i, p where i.n = m.n and j.id = m.job_id)
        insert into batchq.outcome (job_id, lease_id, leased_at, finished_at, segment, attempt,
                                    state)
        select m.job_id, m.lease_id, p.at - i.run_ms * interval '1 ms', p.at, m.segment, 1,
               'completed'
        from m, i, p where i.n = m.n
        """,
        (waits, runs),
    )
    await tally(conn)
    await conn.execute("update batchq.tally set tallied_at = clock_timestamp()")
    found = await rows(
        conn,
        "select wait_p50, wait_p95, wait_p99, run_p50, run_p95, run_p99"
        " from batchq.throughput('default', 'k') where completed = 700",
    )
    assert len(found) == 1
    shares = (0.5, 0.95, 0.99)
    exact = [sorted(times)[int(700 * share) - 1] for times in (waits, runs) for share in shares]
    for told, true_ms in zip(found[0], exact, strict=True):
        told_ms = told / timedelta(milliseconds=1)
        if true_ms > 2**27:
            assert told_ms == 2**27
        elif true_ms <= 1:
            assert abs(told_ms - true_ms) <= 1.001
        else:
            assert true_ms / 2 < told_ms < true_ms * 2


async def test_pairs_beyond_a_thousand_are_in_the_sum_of_all_only(conn: Connection) -> None:
    await conn.execute(
        """
        select from batchq.enqueue_many((
            select jsonb_agg(jsonb_build_object('kind', 'k' || g)) from generate_series(1, 1200) g))
        """
    )
    await tally(conn)
    told = await rows(
        conn,
        "select kind = '', queue = '', sum(enqueued), count(*) from batchq.rollup where span = 60"
        " group by 1, 2 order by 1, 2",
    )
    # jobs of one call have one created_at
    assert told == [(False, False, 1000, 1000), (True, False, 1000, 1), (True, True, 1200, 1)]


async def test_old_rollups_are_forgotten_by_maintain_and_not_made_again(conn: Connection) -> None:
    await conn.execute("select batchq.enqueue('k')")
    await tally(conn)
    await conn.execute("update batchq.rollup set at = at - interval '169 hours'")
    await conn.execute("update batchq.upkeep set next_at = '-infinity' where task = 'rollups'")
    done = await rows(conn, "select done from batchq.maintain() where task = 'rollups'")
    assert done == [(6,)]
    await conn.execute("select batchq.enqueue('k')")
    await conn.execute("update batchq.job set created_at = created_at - interval '168 hours'")
    await tally(conn)
    assert await value(conn, "select count(*) from batchq.rollup") == 0


WEEK = """
    insert into batchq.queue (queue) select 'q' || g from generate_series(0, 9) g;
    insert into batchq.tally_total (queue, kind)
    select 'q' || g / 10, 'k' || g % 10 from generate_series(0, 99) g;
    insert into batchq.rollup (at, wait_s, run_s, enqueued, completed, cancelled, failed, reaped,
                               retried, dead_letters, waited, span, queue, kind, waits, runs)
    select batchq._minute(t.tallied_at) - s.m * interval '1 minute', 1, 1, 5, 5, 0, 0, 0, 0, 0, 5,
           s.span, p.queue, p.kind, h.waits, h.runs
    from (select 1 as span, m from generate_series(1, 10080) m
          union all select 60, m from generate_series(60, 10080, 60) m) s,
         (select k.queue, k.kind from batchq.tally_total k
          union select k.queue, '' from batchq.tally_total k) p, batchq.tally t,
         (select array(select least(5, i) from generate_series(1, 28) i) as waits,
                 array(select least(5, greatest(0, i - 6)) from generate_series(1, 28) i) as runs) h
"""
READS = {
    "an hour of all": "select batchq.throughput()",
    "an hour of a queue": "select batchq.throughput('q3')",
    "an hour of a kind": "select batchq.throughput(kind => 'k1')",
    "a day of a queue": "select batchq.throughput('q3', since => '24 h', step => '5 min')",
    "a day of a pair": "select batchq.throughput('q3', 'k1', since => '24 h', step => '5 min')",
    "a week of all": "select batchq.throughput(since => '7 days', step => '1 h')",
    "a week of a queue": "select batchq.throughput('q3', since => '7 days', step => '1 h')",
    "rates": "select batchq.queue_rates()",
    "rates of an hour": "select batchq.queue_rates('1 hour')",
}


@pytest.fixture(scope="module")
def week(server: Databases, template: str) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    """A session with cached plans, in a database that has become full since: a million rows."""
    with server.fresh(template) as dsn, psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(NO_AUTOVACUUM)
        conn.execute("analyze")
        conn.execute("insert into batchq.queue (queue) values ('q3'); select batchq._tally()")
        for _ in range(6):
            for read in READS.values():
                conn.execute(read.encode())
        conn.execute("delete from batchq.queue")
        conn.execute(WEEK)
        yield conn


@pytest.mark.parametrize("what", READS)
def test_reads_of_a_million_rows_take_milliseconds(
    week: psycopg.Connection[tuple[Any, ...]], what: str
) -> None:
    took_s: list[float] = []
    for _ in range(5):
        begun = perf_counter()
        week.execute(READS[what].encode()).fetchall()
        took_s.append(perf_counter() - begun)
    assert min(took_s) < 0.05, took_s
