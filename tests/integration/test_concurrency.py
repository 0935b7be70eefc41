"""Many sessions at once: who gets which job, who waits for whom, and when the doorbell rings."""

from __future__ import annotations

import asyncio
import collections
import itertools
import random
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.conftest import Connect, Connection

JOBS = 10_000
SESSIONS = 16
BELLS = 1024


async def value(conn: Connection, query: str, *parameters: object) -> Any:
    row = await (await conn.execute(query.encode(), parameters)).fetchone()
    assert row is not None
    return row[0]


async def column(conn: Connection, query: str, *parameters: object) -> list[Any]:
    return [row[0] for row in await (await conn.execute(query.encode(), parameters)).fetchall()]


async def fill(conn: Connection, n: int, queues: tuple[str, ...] = ("default",)) -> set[int]:
    """n jobs, spread over the queues."""
    query = """
        select m.job_id from batchq.enqueue_many((
            select jsonb_agg(jsonb_build_object('kind', 'a', 'queue', (%s::text[])[1 + g %% %s]))
            from generate_series(1, %s) g)) m"""
    return set(await column(conn, query, list(queues), len(queues), n))


async def open_all(connect: Connect, n: int) -> list[Connection]:
    return [await connect() for _ in range(n)]


# --- choosing, B-03, B-05, F015


LEASE = "select job_id, lease_id from batchq.lease('default', 7)"
LEASE_FROM = "select job_id, lease_id from batchq.lease_from('{a,b,default}', 7)"
SETTLE = """
    select job_id, lease_id from batchq.settle_and_lease(
        '{b,default,a}', 7, completed_ids => %s, completed_leases => %s)
    where event = 'leased'"""


@pytest.mark.parametrize("form", [LEASE, LEASE_FROM, SETTLE], ids=["lease", "lease_from", "settle"])
async def test_a07_f015_no_job_goes_to_two_sessions_and_none_is_left(
    connect: Connect, conn: Connection, form: str
) -> None:
    queues = ("default",) if form is LEASE else ("a", "b", "default")
    ids = await fill(conn, JOBS, queues)
    got: list[int] = []

    async def work(session: Connection) -> None:
        held: list[tuple[int, int]] = []
        while True:
            done = [[job for job, _ in held], [lease for _, lease in held]]
            cursor = await session.execute(form.encode(), done if form is SETTLE else None)
            held = await cursor.fetchall()
            if not held:
                return
            got.extend(job for job, _ in held)

    await asyncio.gather(*map(work, await open_all(connect, SESSIONS)))
    assert len(got) == len(set(got))
    assert set(got) == ids
    assert await value(conn, "select count(*) from batchq.ready") == 0
    if form is SETTLE:
        assert await value(conn, "select count(*) from batchq.outcome") == JOBS


def test_a07_lease_skips_locked_rows(db: str) -> None:
    with psycopg.connect(db) as conn:
        row = conn.execute("select pg_get_functiondef('batchq.lease'::regproc)").fetchone()
    assert row is not None
    assert "for update skip locked" in row[0]


async def test_b05_exactly_one_session_gets_a_job(connect: Connect, conn: Connection) -> None:
    sessions = await open_all(connect, SESSIONS)
    for _ in range(20):
        job_id = await value(conn, "select batchq.enqueue('a')")
        answers = await asyncio.gather(
            *(column(session, "select job_id from batchq.lease()") for session in sessions)
        )
        assert list(itertools.chain(*answers)) == [job_id]


async def test_a83_cancels_racing_leases(connect: Connect, conn: Connection) -> None:
    ids = sorted(await fill(conn, 600))
    leased: list[int] = []
    said: dict[int, str] = {}

    async def work(session: Connection) -> None:
        while got := await column(session, "select job_id from batchq.lease(n => 3)"):
            leased.extend(got)

    async def cancel(session: Connection, mine: list[int]) -> None:
        for job_id in mine:
            said[job_id] = await value(session, "select batchq.cancel(%s)", job_id)

    sessions = await open_all(connect, 8)
    await asyncio.gather(
        *(cancel(session, ids[i::4]) for i, session in enumerate(sessions[:4])),
        *map(work, sessions[4:]),
    )
    assert len(leased) == len(set(leased))
    assert {i for i, answer in said.items() if answer == "running"} == set(leased)
    assert {i for i, answer in said.items() if answer == "cancelled"} == set(ids) - set(leased)
    states = await column(conn, "select state from batchq.jobs where not id = any(%s)", leased)
    assert set(states) <= {"cancelled"}


async def test_f003_jobs_that_are_changed_while_others_lease_run_once_each(
    connect: Connect, conn: Connection
) -> None:
    ids = sorted(await fill(conn, 600))
    leased: list[int] = []
    are_set = asyncio.Event()

    async def work(session: Connection) -> None:
        while True:
            was_set = are_set.is_set()
            got = await column(session, "select job_id from batchq.lease(n => 3)")
            leased.extend(got)
            if was_set and not got:  # an empty answer is exact
                return

    async def change(session: Connection, mine: list[int]) -> None:
        query = b"select batchq.set_job(%s, %s, now() + make_interval(secs => %s::float8))"
        for job_id in mine:
            for priority, later in ((job_id % 5, None), (-3, 60), (job_id % 3, 0)):
                try:
                    await session.execute(query, (job_id, priority, later))
                except psycopg.DatabaseError as error:
                    assert error.sqlstate == "JQ005"  # noqa: PT017  # it runs by now

    sessions = await open_all(connect, 8)
    async with asyncio.TaskGroup() as workers:
        for session in sessions[4:]:
            workers.create_task(work(session))
        async with asyncio.TaskGroup() as changes:
            for i, session in enumerate(sessions[:4]):
                changes.create_task(change(session, ids[i::4]))
        are_set.set()
    assert sorted(leased) == ids


# --- identity and dedupe, F021, F027


async def test_a48_ids_are_unique_and_rise_within_a_session(connect: Connect) -> None:
    async def produce(session: Connection) -> list[int]:
        ids = [await value(session, "select batchq.enqueue('a')") for _ in range(60)]
        return ids + sorted(await fill(session, 10))

    produced = await asyncio.gather(*map(produce, await open_all(connect, 8)))
    assert all(ids == sorted(ids) for ids in produced)
    everything = list(itertools.chain(*produced))
    assert len(everything) == len(set(everything))


async def test_a43_f021_one_key_many_callers_one_live_job(
    connect: Connect, conn: Connection
) -> None:
    sessions = await open_all(connect, 32)
    one = """select job_id, is_new from batchq.enqueue_many('[{"kind": "a", "dedupe_key": "k"}]')"""
    for number in range(10):
        finish = number % 2 == 1  # the job that holds the key ends in this very moment

        async def call(session: Connection, number: int = number) -> tuple[Any, Any]:
            if number % 3 == 0:
                return (await value(session, "select batchq.enqueue('a', dedupe_key => 'k')"), None)
            row = await (await session.execute(one.encode())).fetchone()
            assert row is not None
            return (row[0], row[1])

        async def end(session: Connection) -> tuple[Any, Any]:
            await session.execute(
                "select batchq.complete(job_id, lease_id) from batchq.lease(n => 10)"
            )
            return (None, None)

        before = set(await column(conn, "select id from batchq.job"))
        calls = [call(session) for session in sessions[1:]]
        if finish:
            calls.append(end(sessions[0]))
        answers = [answer for answer in await asyncio.gather(*calls) if answer[0] is not None]
        made = set(await column(conn, "select id from batchq.job")) - before
        assert {job_id for job_id, _ in answers} <= before | made
        news = [job_id for job_id, is_new in answers if is_new]
        assert len(news) == len(set(news)), "each new job is new to one caller"
        if number % 3:
            assert set(news) == made
        live = "select count(*) from batchq.jobs where state in ('ready', 'leased')"
        assert await value(conn, live) <= 1
        if not finish:
            assert len({job_id for job_id, _ in answers}) == 1
    duplicates = await value(conn, "select count(*) - count(distinct job_id) from batchq.dedupe")
    assert duplicates == 0


async def test_a44_without_a_key_nothing_collides(connect: Connect, conn: Connection) -> None:
    sessions = await open_all(connect, 8)
    await asyncio.gather(*(fill(session, 50) for session in sessions))
    assert await value(conn, "select count(*) from batchq.ready") == 400


async def test_f027_shuffled_keys_do_not_deadlock(connect: Connect, conn: Connection) -> None:
    keys = [f"k{i}" for i in range(500)]

    async def produce(session: Connection) -> list[bool]:
        news = []
        for _ in range(3):
            jobs = [{"kind": "a", "dedupe_key": k} for k in random.sample(keys, len(keys))]
            query = "select is_new from batchq.enqueue_many(%s)"
            news += await column(session, query, Jsonb(jobs))
        return news

    news = await asyncio.gather(*map(produce, await open_all(connect, 8)))
    assert sum(itertools.chain(*news)) == len(keys)
    assert await value(conn, "select count(*) from batchq.ready") == len(keys)


# --- recovery: F011


async def maintained(conn: Connection) -> dict[str, int]:
    """What a call of maintain did, by task."""
    rows = await (await conn.execute("select task, done from batchq.maintain()")).fetchall()
    return dict(rows)


async def test_f011_a_locked_lease_does_not_stop_reaping(
    connect: Connect, conn: Connection
) -> None:
    other = await connect()
    await fill(conn, 5)
    first, *rest = await column(conn, "select job_id from batchq.lease(n => 5)")
    await conn.execute(
        "update batchq.leased set (lease_until, reap_at) = (batchq._now(), batchq._now())"
    )
    await other.execute("begin")
    await other.execute("select from batchq.leased where job_id = %s for update", (first,))
    assert await value(conn, "select batchq.reap()") == 4
    await other.execute("rollback")
    assert await value(conn, "select batchq.reap()") == 1
    states = await column(conn, "select state from batchq.jobs where id = any(%s)", [first, *rest])
    assert set(states) == {"scheduled"}


@pytest.mark.parametrize("call", ["select batchq.reap()", "select batchq.maintain()"])
async def test_f011_whoever_dies_while_reaping_holds_up_nobody(
    connect: Connect, conn: Connection, call: str
) -> None:
    dying = await connect()
    await fill(conn, 5)
    await conn.execute("select batchq.lease(n => 5)")
    await conn.execute(
        "update batchq.leased set (lease_until, reap_at) = (batchq._now(), batchq._now())"
    )
    await conn.execute("update batchq.upkeep set next_at = batchq._now()")
    await dying.execute("begin")
    await dying.execute(call.encode())
    tasks = await column(conn, "select task from batchq.maintain()")
    if "maintain" in call:
        assert tasks == [], "what somebody is doing is skipped, not waited for"
    await value(conn, "select pg_terminate_backend(%s, 5000)", dying.info.backend_pid)
    await conn.execute("update batchq.upkeep set next_at = batchq._now()")
    done = await maintained(conn)
    assert done["reap"] == 5


async def test_f011_a_task_held_for_long_is_done_all_the_same(
    connect: Connect, conn: Connection
) -> None:
    stuck = await connect()
    await conn.execute("select batchq.enqueue('a'), batchq.lease()")
    await conn.execute("update batchq.upkeep set next_at = batchq._now() - interval '31 s'")
    await stuck.execute("begin; select from batchq.upkeep for update")
    await conn.execute(
        "update batchq.leased set (lease_until, reap_at) = (batchq._now(), batchq._now())"
    )
    done = await maintained(conn)
    assert done["reap"] == 1


# --- the caller's transaction: B-13, F030


async def test_b13_f030_a_job_lives_and_dies_with_its_transaction(
    connect: Connect, conn: Connection
) -> None:
    worker, listener = await connect(), await connect()
    await conn.execute("create table orders (id integer)")
    await listener.execute("listen batchq")
    assert await value(listener, "select batchq.park('{default}')")
    for end in ("commit", "rollback", "rollback to a; commit"):
        await conn.execute("delete from orders")
        await conn.execute("begin; savepoint a")
        await conn.execute("insert into orders values (1)")
        job_id = await value(conn, "select batchq.enqueue('a')")
        assert await rung(listener, worker) == []
        assert await column(worker, "select job_id from batchq.lease()") == []
        assert await value(worker, "select count(*) from orders") == 0
        assert await value(listener, "select batchq.bell_pending('{default}')")
        await conn.execute(end.encode())
        committed = end == "commit"
        bell = await value(conn, "select batchq._bell('default')")
        assert await rung(listener, worker) == [str(bell)] * committed
        found = await column(worker, "select job_id from batchq.lease()")
        assert found == [job_id] * committed
        assert await value(worker, "select count(*) from orders") == committed
        assert not await value(listener, "select batchq.bell_pending('{default}')")
    held = "select count(*) from pg_locks where locktype = 'advisory' and pid = %s"
    assert await value(conn, held, conn.info.backend_pid) == 0


# --- the doorbell: F033, F035, F036


async def rung(listener: Connection, other: Connection) -> list[str]:
    """What has rung so far: notifications come in the order of commits, so up to one of ours."""
    await other.execute("notify batchq, 'end'")
    bells: list[str] = []
    async for notification in listener.notifies(timeout=10):
        if notification.payload == "end":
            return bells
        bells.append(notification.payload)
    pytest.fail("the listener hears nothing")


# every call that makes a job ready, or due sooner than a sleeper expects, once each
RINGING = {
    "enqueue": "select batchq.enqueue('a')",
    "enqueue with a priority": "select batchq.enqueue('a', priority => 5)",
    "enqueue for later": "select batchq.enqueue('a', delay => '1 h')",
    "enqueue_many": 'select batchq.enqueue_many((select jsonb_agg(\'{"kind": "a"}\'::jsonb) '
    "from generate_series(1, 10000)))",
    "replace": "select batchq.enqueue('a', dedupe_key => 'k', on_duplicate => 'replace')",
    "release": "select batchq.release(1, 1)",
    "release_many": "select batchq.release_many('{1,2,3}', '{1,2,3}')",
    "snooze": "select batchq.snooze(1, 1, '0.1 s')",
    "retry": "select batchq.fail(1, 1, 'e')",
    "retries": "select batchq.fail_many('{1,2,3}', '{1,2,3}', '{e,e,e}')",
    "settle": "select batchq.settle_and_lease(failed_ids => '{1,2}', failed_leases => '{1,2}', "
    "errors => '{e,e}')",
    "reap": "update batchq.leased set (lease_until, reap_at) = (batchq._now(), batchq._now()); "
    "select batchq.reap()",
    "redrive": "select batchq.redrive()",
    "resume": "select batchq.resume('default')",
    "set_job": "select batchq.set_job(5, run_at => now())",
    "promotion": "update batchq.scheduled set run_at = batchq._now(); "
    "update batchq.upkeep set next_at = '-infinity'; select batchq.maintain()",
}
SILENT = {
    "complete": "select batchq.complete(1, 1)",
    "complete_many": "select batchq.complete_many('{1,2,3}', '{1,2,3}')",
    "settle": "select batchq.settle_and_lease('{default}', 1, completed_ids => '{1}', "
    "completed_leases => '{1}')",
    "dead letter": "select batchq.fail(1, 1, 'e', permanent => true)",
    "extend": "select batchq.extend('{1,2,3}', '{1,2,3}')",
    "progress": "select batchq.progress(1, 1, '1')",
    "lease": "select batchq.lease(n => 10)",
    "purge": "select batchq.purge()",
    "cancel of a pending job": "select batchq.cancel(5)",
    "cancel_many of pending jobs": "select batchq.cancel_many(state => 'pending')",
    "beat": "select batchq.beat_worker(gen_random_uuid(), 'w', 'h', 1, '1', '{}', '{}', 1, 0)",
    "reap of nothing": "select batchq.reap()",
    "duplicate": "select batchq.enqueue('a', dedupe_key => 'k')",
    "other queue": "select batchq.enqueue('a', queue => 'other')",
}


async def stage(conn: Connection) -> None:
    """Nothing but leases 1, 2, 3 of jobs 1, 2, 3, dead letter 4, and 5, scheduled with key k."""
    await conn.execute(
        """
        truncate batchq.job, batchq.outcome, batchq.error, batchq.ready, batchq.scheduled,
                 batchq.leased, batchq.dead, batchq.dedupe;
        delete from batchq.floor where queue <> '';
        alter sequence batchq.position restart;
        alter sequence batchq.lease_number restart"""
    )
    for _ in range(4):
        await conn.execute("select batchq.enqueue('a', backoff_base => '1 h')")
    assert await column(conn, "select job_id from batchq.lease(n => 4)") == [1, 2, 3, 4]
    await conn.execute("select batchq.fail(4, 4, 'e', permanent => true)")
    await conn.execute("select batchq.enqueue('a', delay => '2 h', dedupe_key => 'k')")
    await conn.execute("select batchq.pause('default'); select batchq.resume('default')")


async def test_f035_what_makes_work_rings_once_and_only_for_the_parked(
    connect: Connect, conn: Connection
) -> None:
    listener = await connect()
    await listener.execute("listen batchq")
    bell = str(await value(conn, "select batchq._bell('default')"))
    for name, call in RINGING.items():
        await stage(conn)
        assert await value(listener, "select batchq.park('{default}')")
        await conn.execute("begin")
        await conn.execute(call.encode())
        await conn.execute("rollback")
        assert await rung(listener, conn) == [], f"{name}, rolled back"
        await conn.execute("begin")
        await conn.execute(call.encode())
        await conn.execute("commit")
        assert await rung(listener, conn) == [bell], name
        await listener.execute("select batchq.unpark('{default}')")
        await stage(conn)
        await conn.execute(call.encode())
        assert await rung(listener, conn) == [], f"{name}, while nobody is parked"


async def test_f035_settling_heartbeats_and_purging_ring_for_nobody(
    connect: Connect, conn: Connection
) -> None:
    listener = await connect()
    await listener.execute("listen batchq")
    assert await value(listener, "select batchq.park('{default}')")
    for name, call in SILENT.items():
        await stage(conn)
        await rung(listener, conn)
        await conn.execute(call.encode())
        assert await rung(listener, conn) == [], name


async def test_f035_one_bell_a_queue_and_call(connect: Connect, conn: Connection) -> None:
    listener = await connect()
    await listener.execute("listen batchq")
    assert await value(listener, "select batchq.park('{a,b,c}')")
    await fill(conn, 3000, ("a", "b", "c", "d"))
    bells = await column(conn, "select batchq._bell(q)::text from unnest('{a,b,c}'::text[]) q")
    assert len(set(bells)) == 3, "or choose other names"
    assert collections.Counter(await rung(listener, conn)) == collections.Counter(bells)


async def test_f033_a_ring_is_a_short_word_whatever_the_job(
    connect: Connect, conn: Connection
) -> None:
    listener = await connect()
    await listener.execute("listen batchq")
    longest = "ü" * 255
    assert await value(listener, "select batchq.park(%s)", [longest])
    payload = Jsonb({"text": "x" * 1_000_000})
    await conn.execute("select batchq.enqueue('a', %s, queue => %s)", (payload, longest))
    (bell,) = await rung(listener, conn)
    assert 0 <= int(bell) < BELLS
    found = "select length(payload->>'text') from batchq.lease(%s)"
    assert await value(conn, found, longest) == 1_000_000


STEPS = ("start", "listen", "park", "bell_pending", "look", "sleep")


async def test_f036_no_wake_up_is_lost_in_any_gap(connect: Connect, conn: Connection) -> None:
    """After whichever steps an enqueue is called and commits, the sleeper finds the job, was told
    to look again, or hears the bell.
    """
    worker, listener = await connect(), await connect()
    for enqueued, committed in itertools.combinations_with_replacement(STEPS, 2):
        seen = pending = False
        for step in STEPS:
            if step == "listen":
                await listener.execute("listen batchq")
            elif step == "park":
                assert await value(listener, "select batchq.park('{default}')")
            elif step == "bell_pending":
                pending = await value(listener, "select batchq.bell_pending('{default}')")
            elif step == "look":
                seen = bool(await column(worker, "select job_id from batchq.lease()"))
            if step == enqueued:
                await conn.execute("begin; select batchq.enqueue('a')")
            if step == committed:
                await conn.execute("commit")
        heard = await rung(listener, conn) != []
        assert seen or pending or heard, (enqueued, committed)
        await listener.execute("select batchq.unpark('{default}')")
        await listener.execute("unlisten batchq")
        await worker.execute("select batchq.lease(n => 10)")


async def test_f036_bell_pending_tells_an_enqueue_under_way(
    connect: Connect, conn: Connection
) -> None:
    listener = await connect()
    await conn.execute("begin; select batchq.enqueue('a')")
    assert await value(listener, "select batchq.park('{default}')")
    assert await value(listener, "select batchq.bell_pending('{default}')")
    assert not await value(listener, "select batchq.bell_pending('{other}')")
    await conn.execute("commit")
    assert not await value(listener, "select batchq.bell_pending('{default}')")


async def test_a_parked_worker_that_dies_is_not_rung_for(
    connect: Connect, conn: Connection
) -> None:
    parked, listener = await connect(), await connect()
    await listener.execute("listen batchq")
    assert await value(parked, "select batchq.park('{default}')")
    await value(conn, "select pg_terminate_backend(%s, 5000)", parked.info.backend_pid)
    await conn.execute("select batchq.enqueue('a')")
    assert await rung(listener, conn) == []


async def test_many_may_park_at_one_bell(connect: Connect, conn: Connection) -> None:
    listeners = await open_all(connect, 3)
    for listener in listeners:
        await listener.execute("listen batchq")
        assert await value(listener, "select batchq.park('{default}')")
    await conn.execute("select batchq.enqueue('a')")
    assert [len(await rung(listener, conn)) for listener in listeners] == [1, 1, 1]


async def test_ten_thousand_queues_in_one_transaction(connect: Connect, conn: Connection) -> None:
    await conn.execute("begin")
    for first in range(0, 10_000, 2_500):
        jobs = [{"kind": "a", "queue": f"q{i}"} for i in range(first, first + 2_500)]
        await conn.execute("select from batchq.enqueue_many(%s)", (Jsonb(jobs),))
    locks = "select count(*) from pg_locks where locktype = 'advisory' and pid = %s"
    assert await value(conn, locks, conn.info.backend_pid) <= BELLS
    await conn.execute("commit")
    assert await column(conn, "select queue from batchq.lease('q9999')") == ["q9999"]


# --- sessions: F041, F077


EVERY_CALL = """
    select batchq.enqueue('a');
    select batchq.enqueue('a', priority => 3, dedupe_key => 'k');
    select batchq.enqueue('a', dedupe_key => 'k', on_duplicate => 'replace', delay => '1 h');
    select batchq.enqueue_many('[{"kind": "a"}, {"kind": "b"}, {"kind": "c", "delay": 9}]');
    select batchq.cancel(batchq.enqueue('a'), 'no');
    select batchq.set_job(batchq.enqueue('a', delay => '1 h'), 3, now());
    select batchq.lease(n => 2);
    select batchq.lease_from('{a,default}');
    select batchq.assert_lease(job_id, lease_id) from batchq.leased;
    select batchq.extend(array_agg(job_id), array_agg(lease_id)) from batchq.leased;
    select batchq.progress(job_id, lease_id, '1') from batchq.leased;
    select batchq.progress_many(array_agg(job_id), array_agg(lease_id), array_agg('1'::jsonb))
    from batchq.leased;
    select batchq.release(job_id, lease_id) from batchq.leased limit 1;
    select batchq.snooze(job_id, lease_id, '1 us') from batchq.leased limit 1;
    select batchq.lease();
    select batchq.fail(job_id, lease_id, 'e', retry_in => '0') from batchq.leased limit 1;
    select batchq.settle_and_lease('{default}', 10);
    select batchq.snooze_many(array[job_id], array[lease_id], '{0}') from batchq.leased limit 1;
    select batchq.release_many(array[job_id], array[lease_id]) from batchq.leased limit 1;
    select batchq.complete(job_id, lease_id) from batchq.leased limit 1;
    select batchq.settle_and_lease('{default}', 10);
    select batchq.complete_many(array[job_id], array[lease_id]) from batchq.leased limit 1;
    select batchq.fail_many(array[job_id], array[lease_id], '{e}', '{t}')
    from batchq.leased limit 1;
    select batchq.redrive();
    select batchq.settle_and_lease('{default}', 10);
    update batchq.leased set (lease_until, reap_at) = (batchq._now(), batchq._now());
    select batchq.reap();
    update batchq.upkeep set next_at = '-infinity';
    select batchq.maintain();
    select batchq.set_queue('default', max_attempts => 5);
    select batchq.set_queue('turns', max_running => 2, rate => 9, group_limit => 1, fair => true);
    select batchq.set_group('turns', 'g', weight => 3);
    select batchq.enqueue('a', queue => 'turns', group_key => 'g');
    select batchq.list_groups('turns');
    select batchq.lease('turns');
    select batchq.set_queue('turns', breaker_share => 0.1, breaker_min => 1);
    select batchq.list_breakers(), batchq.reset_breaker('turns', 'a');
    select batchq.pause('default');
    select batchq.resume('default');
    select batchq.park('{default}');
    select batchq.bell_pending('{default}');
    select batchq.unpark('{default}');
    select batchq.next_due('{default}');
    select batchq.get_job(1), batchq.job_uuid(1), batchq.job_id('1');
    select batchq.list_jobs(), batchq.list_jobs(dedupe_key => 'k', kind => 'a');
    select batchq.list_jobs(status => 'pending', kind => 'a', created_before => now());
    select batchq.list_jobs(status => 'completed', kind => 'b');
    select batchq.stats();
    select batchq.counters(), batchq.kind_counters();
    select batchq.queue_rates(), batchq.throughput('default'), batchq.queue_trends('{default}');
    select batchq.list_alerts(), batchq.live('{1}');
    select batchq.version(), batchq.errors();
    select batchq.cancel_many(created_before => 'infinity');
    select batchq.beat_worker(gen_random_uuid(), 'w', 'h', 1, '1', '{a}', '{k}', 1, 0);
    select batchq.list_workers();
    select batchq.drain_worker(worker_id) from batchq.worker;
    select batchq.drop_worker(worker_id) from batchq.worker;
    select batchq.create_token('t', sha256('s'), '{produce}');
    select batchq.find_token(sha256('s')), batchq.has_tokens(), batchq.list_tokens();
    select batchq.open_session(sha256('s'), sha256('x'));
    select batchq.find_session(sha256('x')), batchq.close_session(sha256('x'));
    select batchq.act_as('me'), batchq.pause('default'), batchq.resume('default');
    select batchq.list_audit(), batchq.list_audit(target => 'queue default');
    select batchq.revoke_token('t');
    select batchq.job_states('{1,2}'), batchq.list_errors();
    select batchq.list_queues(), batchq.get_queue('default');
    select batchq.explain_job(1), batchq.explain_queue('default'), batchq.peek_lease();
    update batchq.dead set failed_at = failed_at;
    select batchq.purge(), batchq.purge(status => 'completed'), batchq.purge(status => 'cancelled')
"""


async def test_every_public_function_is_among_the_calls(conn: Connection) -> None:
    names = await column(
        conn,
        "select proname from pg_proc where pronamespace = 'batchq'::regnamespace and prosecdef",
    )
    assert [name for name in names if f"batchq.{name}(" not in EVERY_CALL] == []


async def test_f041_no_call_leaves_a_lock_or_a_setting_behind(
    connect: Connect, conn: Connection
) -> None:
    watcher = await connect()
    settings = "select name, setting from pg_settings where name not like 'plpgsql%' order by name"
    await conn.execute("select batchq.version()")
    before = await (await conn.execute(settings)).fetchall()
    held = "select count(*) from pg_locks where locktype = 'advisory' and pid = %s"
    for call in EVERY_CALL.split(";"):
        await conn.execute(call.encode())
        expected = 1 if "park('{default}')" in call or "bell_pending" in call else 0
        expected = 0 if "unpark" in call else expected
        assert await value(watcher, held, conn.info.backend_pid) == expected, call
    assert await (await conn.execute(settings)).fetchall() == before


async def test_f041_a_cancelled_enqueue_leaves_no_lock(connect: Connect, conn: Connection) -> None:
    watcher = await connect()
    await conn.execute("set statement_timeout = '1 ms'")
    cancelled = 0
    for _ in range(200):
        try:
            await fill(conn, 40)
        except psycopg.errors.QueryCanceled:
            cancelled += 1
    assert cancelled > 0
    held = "select count(*) from pg_locks where locktype = 'advisory' and pid = %s"
    assert await value(watcher, held, conn.info.backend_pid) == 0


async def test_f077_everything_works_under_a_publication_for_all_tables(conn: Connection) -> None:
    await conn.execute("create table without_key (a integer)")
    await conn.execute("insert into without_key values (1)")
    conn.add_notice_handler(lambda _: None)
    await conn.execute("create publication everything for all tables")
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
        await conn.execute("update without_key set a = 2")
    for call in EVERY_CALL.split(";"):
        await conn.execute(call.encode())
