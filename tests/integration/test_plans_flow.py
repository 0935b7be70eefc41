"""What limits and groups cost does not grow with what waits, nor with what an old snapshot keeps.

See test_plans.py. F048, F049.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.support.plans import NO_AUTOVACUUM, Explained, warm
from tests.support.servers import Databases

Connection = psycopg.Connection[tuple[Any, ...]]

SETTINGS = """
    select batchq.set_queue('capped', max_running => 51000);
    select batchq.set_queue('rated', rate => 1000, rate_period => '1 h');
    select batchq.set_queue('groups', group_limit => 3);
    select batchq.set_queue('one', group_limit => 1);
    select batchq.set_queue('full', max_depth => 100000)"""
GROUPED_BATCH = """
    select batchq.enqueue_many((
        select jsonb_agg(jsonb_build_object('kind', 'a', 'queue', 'groups', 'group_key', 'g' || g))
        from generate_series(1, 50) g))"""
HELD_JOBS = 16_000
SHIFTED_CLOCK = """
    create table public.shift (by interval);
    insert into public.shift values ('0');
    create or replace function batchq._now() returns timestamptz language sql volatile
    as 'select clock_timestamp() + by from public.shift'"""
# Each call, with an upper bound of the buffers it may touch: about twice what it took when this
# was written.
CALLS = {
    "lease of a capped queue": ("select batchq.lease('capped', 5)", 650),
    "lease of a rated queue": ("select batchq.lease('rated', 5)", 350),
    "take a few permits": ("select batchq._take_permits('capped', 'cap', 5, now())", 100),
    "take many permits": ("select batchq._take_permits('capped', 'cap', 500, now())", 4000),
    "admission of five groups": ("select batchq.lease('groups', 5)", 1500),
    "admission of one big group": ("select batchq.lease('one', 5)", 220),
    "enqueue into a group": (
        "select batchq.enqueue('a', queue => 'groups', group_key => 'g7')",
        50,
    ),
    "enqueue into a new group": (
        "select batchq.enqueue('a', queue => 'groups', group_key => 'new')",
        50,
    ),
    "enqueue_many into groups": (GROUPED_BATCH, 2300),
    "complete with a permit": ("select batchq.complete(%(capped)s, 1)", 80),
    "complete with a seat": ("select batchq.complete(%(seated)s, 50001)", 80),
    "complete_many with permits": (
        "select batchq.complete_many(%(capped_ids)s, '{1,2,3,4,5}')",
        120,
    ),
    "complete_many with seats": (
        "select batchq.complete_many(%(seated_ids)s, '{50001,50002,50003,50004,50005}')",
        200,
    ),
    "fail with a seat": ("select batchq.fail(%(seated)s, 50001, 'e')", 400),
    "release with a seat": ("select batchq.release(%(seated)s, 50001)", 120),
    "cancel of a blocked job": ("select batchq.cancel(%(blocked)s)", 150),
    "cancel_many of blocked jobs": ("select batchq.cancel_many(%(blocked_ids)s)", 350),
    "next_due of limited queues": ("select batchq.next_due('{capped,rated,groups,one}')", 200),
    "a look for a chance": ("select batchq._next_chance('rated')", 60),
}


def fill(conn: Connection) -> None:
    """400,000 blocked jobs in 10,000 groups, of which five are called now and the others later;
    200,000 of one group; 50,000 ready and as many running in a capped queue, 50,000 in a rated
    one, 1,000 permits each.
    """
    conn.execute(
        """
        insert into batchq.job (id, created_at, run_at, segment, priority, max_attempts, queue,
                                kind, payload, group_key)
        select g, now(), now(), 0, 0, 9,
               case when g <= 400000 then 'groups' when g <= 600000 then 'one'
                    when g <= 650000 then 'capped' when g <= 700000 then 'rated'
                    when g <= 750000 then 'capped' else 'groups' end, 'a', '{}',
               case when g <= 400000 or g > 750000 then 'g' || g % 10000
                    when g <= 600000 then 'big' end
        from generate_series(1, 800000) g;
        select setval('batchq.position', 800000), setval('batchq.lease_number', 100000);
        insert into batchq.blocked (pos, job_id, since, segment, priority, rank, attempt, ties,
                                    queue, group_key)
        select g, g, now(), 0, 0, 0, 0, 4, case when g <= 400000 then 'groups' else 'one' end,
               case when g <= 400000 then 'g' || g % 10000 else 'big' end
        from generate_series(1, 600000) g;
        insert into batchq.group_state (low_pos, low_rank, seated, started, written_at, queue,
                                        group_key)
        select 0, -32768, 5, 0, now(), 'groups', 'g' || g from generate_series(0, 9999) g;
        insert into batchq.call (due_at, queue, group_key, seats)
        select case when g < 5 then now() else now() + interval '1 day' end, 'groups', 'g' || g, 5
        from generate_series(0, 9999) g;
        insert into batchq.call (due_at, queue, group_key, rank, pos)
        values (now(), 'one', 'big', 0, 400001);
        insert into batchq.ready (pos, job_id, segment, priority, attempt, ties, queue)
        select g, g, 0, 0, 0, 0, case when g <= 650000 then 'capped' else 'rated' end
        from generate_series(600001, 700000) g;
        insert into batchq.leased (job_id, lease_id, lease_until, reap_at, leased_at, segment,
                                   priority, attempt, ties, queue)
        select 700000 + g, g, e.at, e.at, now(), 0, 0, 1, case when g <= 50000 then 2 else 12 end,
               case when g <= 50000 then 'capped' else 'groups' end
        from generate_series(1, 100000) g
        cross join lateral (select now() + interval '1 day' as at) e;
        delete from batchq.permit;
        insert into batchq.permit (place, n, queue, line)
        select g, 1, 'capped', 'cap' from generate_series(1, 1000) g
        union all
        select batchq._micros(now()) - g, 1, 'rated', 'rate' from generate_series(1, 1000) g
        """
    )


@pytest.fixture(scope="module")
def full(server: Databases, template: str) -> Iterator[Explained]:
    """A session whose plans were made when there was nothing, on tables that are full by now."""
    with server.fresh(template) as dsn, psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(NO_AUTOVACUUM)
        conn.execute(SETTINGS)
        nothing = {
            "capped": 0, "seated": 0, "blocked": 0, "capped_ids": [0] * 5, "seated_ids": [0] * 5,
            "blocked_ids": [],
        }  # fmt: skip
        warm(conn, CALLS, nothing)
        with psycopg.connect(dsn, autocommit=True) as other:
            fill(other)
        yield Explained(conn)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("call", CALLS)
def test_f048_a_limit_is_kept_by_index_and_at_little_cost(full: Explained, call: str) -> None:
    query, most = CALLS[call]
    filler = {
        "capped": 700_001, "seated": 750_001, "blocked": 300_000,
        "capped_ids": list(range(700_001, 700_006)), "seated_ids": list(range(750_001, 750_006)),
        "blocked_ids": [10, 100_000, 300_000, 500_000, 599_999],
    }  # fmt: skip
    for _ in range(2):  # the catalogue is read the first time
        with full.conn.transaction(force_rollback=True):
            profile = full.profile(query, filler)
    assert profile.seq_scans == set()
    assert profile.sorted_rows <= 500, "no more than what moves"
    assert profile.rows_filtered <= 100
    assert profile.buffers <= most


# --- a snapshot held elsewhere: F049


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    "limits", ["max_running => 200", "rate => 1000000", "group_limit => 1", "group_limit => 3"]
)
def test_f049_an_old_snapshot_does_not_slow_a_limited_queue_down(db: str, limits: str) -> None:
    """Index entries read are counted, dead ones too: other work on the machine slows the one half
    down or the other. The second half of the jobs takes at most 1 / 0.7 of the first.
    """
    with psycopg.connect(db, autocommit=True) as old, psycopg.connect(db, autocommit=True) as conn:
        conn.execute(SHIFTED_CLOCK)
        conn.execute(f"select batchq.set_queue('default', {limits})".encode())
        old.execute("begin isolation level repeatable read; select count(*) from batchq.jobs")
        conn.execute(
            """
            select from batchq.enqueue_many((
                select jsonb_agg(jsonb_build_object('kind', 'a', 'group_key', 'g' || g %% 400))
                from generate_series(1, %s) g))
            """,
            (HELD_JOBS,),
        )
        work(conn, 400)  # the first admission has all groups to look at
        costs = [work(conn, (HELD_JOBS - 400) // 2) for _ in range(2)]
        assert conn.execute("select count(*) from batchq.lease(n => 1)").fetchone() == (0,)
        old.execute("rollback")
    assert 0.7 * costs[1] <= costs[0]


def work(conn: Connection, jobs: int) -> int:
    """Lease and complete so many jobs, 100 every 3 s; how many index entries that read."""
    before = entries_read(conn)
    for _ in range(jobs // 100):
        conn.execute("update public.shift set by = by + interval '3 s'")
        row = conn.execute(
            "select count(batchq.complete(job_id, lease_id)) from batchq.lease(n => 100)"
        ).fetchone()
        assert row == (100,)
    return entries_read(conn) - before


def entries_read(conn: Connection) -> int:
    conn.execute("select pg_stat_force_next_flush()")
    row = conn.execute(
        "select sum(idx_tup_read)::bigint from pg_stat_user_indexes where schemaname = 'batchq'"
    ).fetchone()
    assert row is not None
    return int(row[0])
