"""Why a job is not running costs the same however many jobs wait: buffers, not time.

Plans were made on empty tables that are full by now, as in test_reads. Beside a lane of 200,000
jobs there are 2,000 groups with 200,000 waiting jobs, 20,000 permits and 10,000 leases of others.
"""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.integration.test_reads import SMALL, unanalysed
from tests.support.plans import Explained
from tests.support.servers import Databases

FULL = """
    insert into batchq.job (id, created_at, run_at, segment, priority, max_attempts, queue, kind,
                            group_key, payload)
    select g, now(), now(), 0, (g % 2) * 5, 9, case when g <= 200000 then 'big' else 'group' end,
           'a', case when g > 200000 then 'g' || g % 2000 end, '{}'
    from generate_series(101, 410000) g;
    select setval('batchq.position', 410000);
    insert into batchq.ready (pos, job_id, segment, priority, attempt, ties, queue)
    select g, g, 0, (g % 2) * 5, 0, 0, 'big' from generate_series(101, 200000) g;
    insert into batchq.blocked (pos, job_id, since, segment, priority, rank, attempt, ties, queue,
                                group_key)
    select g, g, now(), 0, (g % 2) * 5, 0, 0, 4, 'group', 'g' || g % 2000
    from generate_series(200001, 400000) g;
    insert into batchq.call (due_at, queue, group_key, rank, pos)
    select now(), 'group', b.group_key, 0, min(b.pos) from batchq.blocked b group by 3;
    insert into batchq.leased (job_id, lease_id, lease_until, reap_at, leased_at, segment, priority,
                               attempt, ties, queue)
    select g, g, now() + interval '1 h', now() + interval '1 h', now(), 0, 0, 1, 2, 'others'
    from generate_series(400001, 410000) g;
    insert into batchq.permit (place, n, queue, line)
    select g, 1, 'big', 'cap' from generate_series(1, 20000) g;
    insert into batchq.floor (queue, line, priority)
    values ('big', 'ready', 0), ('big', 'ready', 5), ('group', 'round', 0)
"""
LOOKS = {
    "explain_job(101)": 1_000,
    "explain_job(200000)": 500,
    "explain_job(200001)": 400,
    "explain_job(400000)": 400,
    "explain_queue('big')": 6_000,
    "explain_queue('group')": 30_000,
    "peek_lease('big')": 300,
    "peek_lease('big', 1000)": 5_000,
    "peek_lease('group')": 12_000,
}


@pytest.fixture(scope="module")
def full(server: Databases, template: str) -> Iterator[Explained]:
    with server.fresh(template) as dsn, psycopg.connect(dsn, autocommit=True) as conn:
        unanalysed(conn)
        conn.execute("select batchq.set_queue('big', max_running => 1000000, rate => 1000)")
        conn.execute("select batchq.set_queue('group', group_limit => 2)")
        conn.execute("delete from batchq.permit where line = 'cap'")
        conn.execute("select batchq.enqueue('a', queue => q) from unnest('{big,group}'::text[]) q")
        for look in LOOKS:
            for _ in range(7):
                try:
                    conn.execute(f"select * from batchq.{look}".encode())
                except psycopg.Error as error:
                    if error.sqlstate != "JQ003":
                        raise
        with psycopg.connect(dsn, autocommit=True) as other:
            other.execute(FULL)
        yield Explained(conn)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("look", LOOKS)
def test_b14_f048_an_answer_costs_the_same_whatever_waits(full: Explained, look: str) -> None:
    profile = full.profile(f"select * from batchq.{look}")
    assert profile.buffers <= LOOKS[look]
    assert profile.seq_scans <= SMALL
