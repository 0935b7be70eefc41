"""Lists and bulk calls read little, whatever there is, whatever statistics say and an old snapshot
holds. What a call costs is counted in buffers. B-14, B-19, F048, F049, F093.
"""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.integration.test_plans import Connection, fill
from tests.support.plans import Explained
from tests.support.servers import Databases

RARE = [1_234, 90_001, 445_566, 910_000]
# Each call with about twice the buffers it took when this was written. A row is a buffer or two:
# where few match, 20,000 jobs are looked at, or 1,000 of a state.
READS = {
    "list_jobs()": 3_000,
    "list_jobs(before_id => 400000)": 3_000,
    "list_jobs(status => 'pending')": 4_000,
    "list_jobs(status => 'running')": 3_000,
    "list_jobs(status => 'completed')": 3_000,
    "list_jobs(status => 'failed')": 3_000,
    "list_jobs(status => 'cancelled')": 3_000,
    "list_jobs(state => 'scheduled')": 3_000,
    "list_jobs(state => 'ready')": 3_000,
    "list_jobs(state => 'leased', before_id => 801000)": 3_000,
    "list_jobs(queue => 'due')": 70_000,
    "list_jobs(queue => 'due', state => 'scheduled')": 2_000,
    "list_jobs(queue => 'due', state => 'failed')": 3_000,
    "list_jobs(kind => 'a')": 3_000,
    "list_jobs(kind => 'rare')": 70_000,
    "list_jobs(kind => 'rare', status => 'completed')": 70_000,
    "list_jobs(kind => 'rare', status => 'failed')": 25_000,
    "list_jobs(kind => 'rare', state => 'ready')": 25_000,
    "list_jobs(dedupe_key => 'k7')": 300,
    "list_jobs(dedupe_key => 'no such')": 100,
    "list_jobs(created_before => now() - interval '1 day')": 2_000,
    "list_jobs(created_after => now() + interval '1 day')": 2_000,
    "list_errors()": 80_000,
    "list_errors('due')": 200,
    "get_job(300000)": 60,
    "get_job(400000)": 60,
    "get_job(700000)": 60,
    "get_job(800001)": 60,
    "get_job(870000)": 60,
    "get_job(900001)": 60,
    "get_queue('due')": 80,
    "explain_job(300000)": 1_100,
    "explain_job(400000)": 400,
    "explain_job(700000)": 80,
    "explain_job(800001)": 60,
    "explain_job(870000)": 60,
    "explain_job(900001)": 60,
    "explain_queue('default')": 5_000,
    "explain_queue('due')": 1_500,
    "job_states('{300000,700000,870000}')": 200,
    "list_audit()": 20,
    "peek_lease()": 500,
    "peek_lease('due', 1000)": 1_300,
    "redrive(n => 100)": 25_000,
    "redrive(queue => 'due', n => 100)": 200,
    "redrive(error => 'none', n => 100, dry_run => true)": 200_000,
    "purge(n => 100)": 10_000,
    "purge(status => 'completed', n => 100)": 10_000,
    "purge(array[850001, 850002, 7], status => 'completed')": 1_000,
    "cancel_many(state => 'ready', n => 100)": 10_000,
}

# What is read of all queues, as READS; of running jobs all are read.
OF_ALL = {
    "stats()": 8_000,
    "list_alerts()": 8_000,
    "live('{300000,700000,870000}')": 10_000,
    "queue_trends('{default,due}')": 200,
}
BIG = {"job_0", "ready", "scheduled", "blocked", "dead", "outcome_0", "error_0"}

# tables of a few rows, whose size does not depend on jobs
SMALL = {"worker", "upkeep"}


def unanalysed(conn: Connection) -> None:
    """Statistics stay as they are: of empty tables."""
    tables = """
        select oid::regclass::text from pg_class
        where relnamespace = 'batchq'::regnamespace and relkind = 'r'
    """
    conn.execute("vacuum analyze")
    for (name,) in conn.execute(tables).fetchall():
        conn.execute(f"alter table {name} set (autovacuum_enabled = off)".encode())


@pytest.fixture(scope="module")
def full(server: Databases, template: str) -> Iterator[Explained]:
    """A session whose plans were made when there was nothing, on tables that are full by now."""
    with server.fresh(template) as dsn, psycopg.connect(dsn, autocommit=True) as conn:
        unanalysed(conn)
        for read in [*READS, *OF_ALL]:
            for _ in range(7):
                try:
                    conn.execute(f"select * from batchq.{read}".encode())
                except psycopg.Error as error:
                    if not (error.sqlstate or "").startswith("JQ"):
                        raise
        with psycopg.connect(dsn, autocommit=True) as other:
            fill(other)
            other.execute("update batchq.job set kind = 'rare' where id = any(%s)", (RARE,))
            other.execute("analyze batchq.upkeep")
        yield Explained(conn)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("read", READS)
def test_f048_b14_a_look_reads_by_index_and_little(full: Explained, read: str) -> None:
    full.conn.execute("begin")
    try:
        profile = full.profile(f"select * from batchq.{read}")
    finally:
        full.conn.execute("rollback")
    assert profile.buffers <= READS[read]
    assert profile.seq_scans <= SMALL


@pytest.mark.timeout(180)
@pytest.mark.parametrize("read", OF_ALL)
def test_f093_f048_watching_reads_by_index_and_little(full: Explained, read: str) -> None:
    full.conn.execute(f"select * from batchq.{read}".encode())  # the first one reads the catalogue
    profile = full.profile(f"select * from batchq.{read}")
    assert profile.buffers <= OF_ALL[read]
    assert profile.seq_scans.isdisjoint(BIG)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("job_id", [400_050, 400_500, 900_001])
@pytest.mark.parametrize("call", ["job_states(array[{}])", "get_job({})", "_state_of({})"])
def test_f048_a_job_is_looked_for_by_its_id(full: Explained, call: str, job_id: int) -> None:
    """Other indexes have the id in them as well, and cost the same as long as tables seem empty."""
    full.conn.execute("begin")
    try:
        indexes = full.profile(f"select batchq.{call.format(job_id)}").indexes
    finally:
        full.conn.execute("rollback")
    assert indexes.isdisjoint({"scheduled_due", "dead_queue"})


@pytest.mark.timeout(180)
def test_b14_a_page_far_down_costs_what_the_first_does(full: Explained) -> None:
    first = full.profile("select * from batchq.list_jobs(state => 'ready')").buffers
    query = "select * from batchq.list_jobs(state => 'ready', before_id => 350000)"
    assert full.profile(query).buffers <= first * 1.2


@pytest.mark.timeout(180)
@pytest.mark.parametrize("more", ["", ", status => 'completed'"])
def test_b19_few_among_many_are_all_found_and_each_once(full: Explained, more: str) -> None:
    full.conn.execute("set auto_explain.log_min_duration = -1")
    found: list[int] = []
    before: int | None = None
    for _ in range(100):
        query = f"select id, state from batchq.list_jobs(kind => 'rare', before_id => %s{more})"
        rows = full.conn.execute(query.encode(), (before,)).fetchall()
        found += [job_id for job_id, state in rows if state is not None]
        if not rows or rows[-1][1] is not None:
            break
        before = rows[-1][0]
    full.conn.execute("set auto_explain.log_min_duration = 0")
    wanted = [] if more else RARE
    assert found == sorted(wanted, reverse=True)


STEPS = {
    "purge": "select p.purged, p.last_id from batchq.purge(n => 500, after_id => {}) p",
    "redrive": "select r.redriven, r.last_id from batchq.redrive(n => 500, after_id => {}) r",
    "cancel_many": (
        "select c.cancelled, c.last_id from batchq.cancel_many("
        "state => 'ready', n => 500, after_id => {}) c"
    ),
}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("call", STEPS)
def test_f049_the_last_step_of_many_costs_what_the_first_did(db: str, call: str) -> None:
    with psycopg.connect(db, autocommit=True) as conn, psycopg.connect(db) as old:
        conn.execute(
            "insert into batchq.job (id, created_at, run_at, segment, priority, max_attempts,"
            " queue, kind, payload) select g, now(), now(), 0, 0, 9, 'q', 'a', '{}'"
            " from generate_series(1, 20000) g"
        )
        conn.execute("select setval('batchq.position', 20000)")
        if call == "cancel_many":
            conn.execute(
                "insert into batchq.ready (pos, job_id, segment, priority, attempt, ties, queue)"
                " select id, id, 0, 0, 0, 0, queue from batchq.job"
            )
        else:
            conn.execute(
                "insert into batchq.dead (job_id, failed_at, segment, priority, attempt, queue)"
                " select id, now(), 0, 0, 9, queue from batchq.job"
            )
        old.execute("set transaction isolation level repeatable read")
        old.execute("select count(*) from batchq.jobs")
        explained = Explained(conn)
        costs = []
        last: int | None = None
        for _ in range(39):
            query = STEPS[call].format(last or "null")
            costs.append(explained.profile(query).buffers)
            last = (last or 0) + 500
    assert costs[-1] <= costs[2] * 1.5 + 500
