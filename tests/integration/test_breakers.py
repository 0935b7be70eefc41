"""Circuit breakers under many sessions: one probe at a time, nobody waits, no job is lost."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field

from tests.conftest import Connect, Connection
from tests.integration.test_concurrency import column, open_all, value

SESSIONS = 8
SETTLED = "select count(*) from batchq.outcome"
OPEN = "select kind from batchq.list_breakers('q')"
ADD = "select batchq.enqueue(%s, queue => 'q', max_attempts => 1000) from generate_series(1, %s)"
FAIL = "select batchq.fail(%s, %s, 'broken', retry_in => '0')"
COMPLETE = "select batchq.complete(%s, %s)"
BAD = "select job_id, lease_id from batchq.lease('q', %s) where kind = 'bad'"


@dataclass(slots=True)
class Witness:
    """What ran, as the sessions saw it: starts after the lease, ends before the settlement.

    The bad kind is mended when it failed three times and all good jobs are done.
    """

    good: set[int]
    broken: bool = True
    running: int = 0
    most: int = 0
    failures: int = 0
    starts: dict[int, int] = field(default_factory=dict)
    done: set[int] = field(default_factory=set)


async def set_breaker(conn: Connection, n: int = 10) -> None:
    await conn.execute(
        "select batchq.set_queue('q', breaker_share => 0.5, breaker_min => %s,"
        " breaker_pause => '1 s')",
        (n,),
    )


async def break_it(conn: Connection, n: int = 10) -> list[int]:
    """Add n bad jobs and let each fail once, so that the breaker opens."""
    await set_breaker(conn, n)
    ids = await column(conn, ADD, "bad", n)
    for job, lease in await (await conn.execute(BAD.encode(), (n,))).fetchall():
        await conn.execute(FAIL.encode(), (job, lease))
    assert await column(conn, OPEN) == ["bad"]
    return ids


async def work(session: Connection, witness: Witness, total: int) -> None:
    rnd = random.Random(session.info.backend_pid)
    while len(witness.done) < total:
        leased = "select job_id, lease_id, kind from batchq.lease('q', %s)"
        jobs = await (await session.execute(leased.encode(), (rnd.choice([1, 2, 20]),))).fetchall()
        if not jobs:
            await asyncio.sleep(0.01)
        for job, lease, kind in jobs:
            witness.starts[job] = witness.starts.get(job, 0) + 1
            is_probe = kind == "bad" and witness.broken
            witness.running += is_probe
            witness.most = max(witness.most, witness.running)
            await asyncio.sleep(rnd.random() * 0.02)
            witness.running -= is_probe
            if kind == "bad" and witness.broken:
                witness.failures += 1
                await session.execute(FAIL.encode(), (job, lease))
                if witness.failures >= 3 and witness.done >= witness.good:
                    assert witness.done == witness.good
                    assert await column(session, OPEN) == ["bad"]
                    witness.broken = False
            else:
                witness.done.add(job)
                await session.execute(COMPLETE.encode(), (job, lease))


async def test_a_broken_kind_is_held_back_with_one_probe_at_a_time_until_one_works(
    connect: Connect, conn: Connection
) -> None:
    ids = set(await break_it(conn))
    ids |= set(await column(conn, ADD, "bad", 20))
    good = set(await column(conn, ADD, "good", 200))
    ids |= good
    witness = Witness(good)
    sessions = await open_all(connect, SESSIONS)
    async with asyncio.timeout(40), asyncio.TaskGroup() as group:
        for session in sessions:
            group.create_task(work(session, witness, len(ids)))
    assert witness.most == 1
    assert witness.failures >= 3
    assert witness.done == ids
    assert await column(conn, OPEN) == []
    assert await value(conn, SETTLED) == len(ids)
    assert await value(conn, "select count(*) from batchq.scheduled") == 0
    attempts = "select count(*) from batchq.outcome where job_id = %s and attempt = %s"
    first = set(
        await column(conn, "select distinct job_id from batchq.error where error = 'broken'")
    )
    for job in ids - first:
        assert await value(conn, attempts, job, witness.starts[job]) == 1


async def test_a_probe_whose_holder_died_opens_it_again(conn: Connection) -> None:
    await break_it(conn)
    await asyncio.sleep(1.1)
    short = "select job_id from batchq.lease('q', 10, lease_for => '0.1 s')"
    (probe,) = await column(conn, short)
    assert await column(conn, "select probe_job_id from batchq.list_breakers()") == [probe]
    await asyncio.sleep(0.2)
    assert await value(conn, "select batchq.reap()") == 1
    assert await column(conn, "select probes from batchq.list_breakers()") == [1]
    assert await column(conn, short) == []
    await asyncio.sleep(1.1)
    assert len(await column(conn, short)) == 1


async def test_nobody_waits_for_a_breaker(connect: Connect, conn: Connection) -> None:
    await conn.execute("set lock_timeout = '2 s'")
    await set_breaker(conn, 1)
    await column(conn, ADD, "bad", 20)
    one, two = await connect(autocommit=False), await connect(autocommit=False)
    for session in (one, two):
        await session.execute("set lock_timeout = '2 s'")
    leases = await (await conn.execute(BAD.encode(), (3,))).fetchall()
    # three failures at once, each of which would open it
    await one.execute(FAIL.encode(), leases[0])
    await two.execute(FAIL.encode(), leases[1])
    await conn.execute(FAIL.encode(), leases[2])
    await two.commit()
    await one.commit()
    assert await column(conn, OPEN) == ["bad"]
    # a probe that is being started, one that is being settled, jobs that are being held back
    await conn.execute("select batchq.lease('q', 20)")
    await asyncio.sleep(1.1)
    (probe,) = await (await one.execute(BAD.encode(), (20,))).fetchall()
    assert await column(conn, BAD, 20) == []
    await one.commit()
    await column(conn, ADD, "bad", 5)
    assert await column(two, BAD, 20) == []
    await one.execute(COMPLETE.encode(), probe)
    assert await column(conn, BAD, 20) == []
    await one.commit()
    await two.commit()
    found: list[int] = []
    async with asyncio.timeout(30):
        while len(found) < 24:
            found += await column(conn, BAD, 100)
    assert len(found) == len(set(found)) == 24
    assert await value(conn, "select count(*) from batchq.breaker") == 0


async def test_a07_leases_beside_open_ones_find_jobs_as_long_as_there_are_some(
    connect: Connect, conn: Connection
) -> None:
    await break_it(conn)
    ids = await column(conn, ADD, "good", 200)
    found: list[int] = []
    for _ in range(10):
        session = await connect(autocommit=False)
        found += await column(session, "select job_id from batchq.lease('q', 20)")
    assert len(found) == len(set(found))
    assert set(found) == set(ids)


async def test_many_jobs_that_were_held_back_all_come_back(
    connect: Connect, conn: Connection
) -> None:
    await break_it(conn)
    ids = await column(conn, ADD, "bad", 5000)
    sessions = await open_all(connect, 4)
    ready = "select count(*) from batchq.ready"
    while await value(conn, ready):
        leased = await asyncio.gather(*(column(session, BAD, 10) for session in sessions))
        assert not any(leased)
    await conn.execute("select batchq.reset_breaker('q', 'bad')")
    found: list[int] = []

    async def drain(session: Connection) -> None:
        while len(found) < 5010:
            found.extend(await column(session, BAD, 500))

    async with asyncio.timeout(40):
        await asyncio.gather(*map(drain, sessions))
    assert len(found) == len(set(found)) == 5010
    assert set(found) >= set(ids)


async def test_a_queue_without_one_writes_nothing_for_it(conn: Connection) -> None:
    await column(conn, ADD, "bad", 20)
    for job, lease in await (await conn.execute(BAD.encode(), (20,))).fetchall():
        await conn.execute(FAIL.encode(), (job, lease))
    assert await value(conn, "select count(*) from batchq.leased where ties <> 0") == 0
    assert await value(conn, "select count(*) from batchq.attempt_end") == 0
    assert await value(conn, "select count(*) from batchq.breaker") == 0
