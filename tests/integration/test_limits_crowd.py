"""Limits under many sessions: never more than they say, never fewer than they let, nobody waits.

The witness is what the sessions themselves saw: a job runs from when its lease was answered until
before its end is sent, so it ran in the database for longer than is counted here.
"""

from __future__ import annotations

import asyncio
import collections
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from tests.conftest import Connect, Connection

SESSIONS = 8
Lease = tuple[int, int]


async def rows(conn: Connection, query: str, *parameters: object) -> list[tuple[Any, ...]]:
    return await (await conn.execute(query.encode(), parameters)).fetchall()


async def lease(conn: Connection, n: int = 1) -> list[Lease]:
    return [(job, lease) for job, lease in await rows(
        conn, "select job_id, lease_id from batchq.lease('q', %s, lease_for => '1 h')", n
    )]  # fmt: skip


async def fill(conn: Connection, n: int, groups: int = 0) -> None:
    """n jobs, in turn of so many groups."""
    query = """
        select from batchq.enqueue_many((
            select jsonb_agg(jsonb_build_object('kind', 'k', 'queue', 'q', 'max_attempts', 1,
                                                'group_key', 'g' || g %% nullif(%s, 0)))
            from generate_series(1, %s) g))"""
    await conn.execute(query.encode(), (groups, n))


@dataclass(slots=True)
class Witness:
    """How many jobs run, of each group, and the most there were at once."""

    groups: dict[int, str]
    running: collections.Counter[str] = field(default_factory=collections.Counter)
    most: collections.Counter[str] = field(default_factory=collections.Counter)

    def started(self, job: int) -> None:
        group = self.groups[job]
        self.running[group] += 1
        self.most[group] = max(self.most[group], self.running[group])

    def ending(self, job: int) -> None:
        self.running[self.groups[job]] -= 1


async def witness(conn: Connection) -> Witness:
    found = await rows(conn, "select id, coalesce(group_key, '') from batchq.jobs")
    return Witness(dict(found))


async def run_out(conn: Connection, seen: Witness, n: Callable[[], int]) -> None:
    """Lease and complete until every job is completed; an empty answer is asked again."""
    while True:
        held = await lease(conn, n())
        for job, _ in held:
            seen.started(job)
        if not held:
            left = "select from batchq.jobs where queue = 'q' and status = 'pending' limit 1"
            if not await rows(conn, left):
                return
        await asyncio.sleep(random.random() * 0.002)
        for job, lease_id in held:
            seen.ending(job)
            await conn.execute("select batchq.complete(%s, %s)", (job, lease_id))


async def assert_sound(conn: Connection) -> None:
    """No permit and no seat was lost or made, and nothing is left over."""
    await conn.execute("update batchq.upkeep set next_at = '-infinity'")
    done = dict(await rows(conn, "select task, done from batchq.maintain()"))
    assert (done["limits"], done["groups"]) == (0, 0)
    assert (
        await rows(conn, "select * from batchq.jobs where status in ('pending', 'running')") == []
    )


@pytest.mark.parametrize(
    ("settings", "groups", "most"),
    [
        ("max_running => 1", 0, 1),
        ("max_running => 3", 0, 3),
        ("max_running => 40", 0, 40),
        ("group_limit => 1", 1, 1),
        ("group_limit => 1", 7, 1),
        ("group_limit => 3", 1, 3),
        ("group_limit => 2, max_running => 5", 4, 2),
    ],
)
async def test_f018_f020_no_more_run_than_a_limit_says(
    connect: Connect, conn: Connection, settings: str, groups: int, most: int
) -> None:
    await rows(conn, f"select batchq.set_queue('q', {settings})")
    await fill(conn, 300, groups)
    seen = await witness(conn)
    sizes = random.Random(settings)
    sessions = [await connect() for _ in range(SESSIONS)]
    await asyncio.gather(
        *(run_out(session, seen, lambda: sizes.choice([1, 2, 7, 60])) for session in sessions)
    )
    assert max(seen.most.values()) <= most
    attempts = "select distinct attempts, state from batchq.jobs"
    assert await rows(conn, attempts) == [(1, "completed")]
    await assert_sound(conn)


async def test_f018_a_queue_never_starts_more_than_its_rate(
    connect: Connect, conn: Connection
) -> None:
    await rows(conn, "select batchq.set_queue('q', rate => 20, rate_period => '0.2 s')")
    await fill(conn, 120)
    seen = await witness(conn)
    sessions = [await connect() for _ in range(SESSIONS)]
    await asyncio.gather(*(run_out(session, seen, lambda: 9) for session in sessions))
    starts = [at for (at,) in await rows(
        conn, "select started_at from batchq.jobs order by started_at"
    )]  # fmt: skip
    closest = min(later - one for one, later in zip(starts, starts[20:], strict=False))
    assert closest.total_seconds() >= 0.2
    await assert_sound(conn)


async def end(conn: Connection, how: str, job: int, lease_id: int) -> None:
    """End a job in one of the ways that let its limits have their place back."""
    match how:
        case "complete":
            await rows(conn, "select batchq.complete(%s, %s)", job, lease_id)
        case "fail":
            await rows(conn, "select batchq.fail(%s, %s, 'e')", job, lease_id)
        case "cancel":
            await rows(conn, "select batchq.cancel(%s)", job)
            await rows(conn, "select batchq.fail(%s, %s, 'stopped')", job, lease_id)
        case "settle":
            query = "select batchq.complete_many(%s, %s)"
            await rows(conn, query, [job], [lease_id])
        case _:
            gone = "now() - interval '1 s'"
            await conn.execute(
                f"update batchq.leased set (lease_until, reap_at) = ({gone}, {gone})"
                f" where job_id = {job}".encode()
            )
            await rows(conn, "select batchq.reap()")


@pytest.mark.parametrize("how", ["complete", "fail", "cancel", "settle", "reap"])
@pytest.mark.parametrize("settings", ["max_running => 5", "group_limit => 5"])
async def test_f019_a_place_that_came_back_is_taken_by_the_next_lease(
    connect: Connect, conn: Connection, settings: str, how: str
) -> None:
    """Five end at once while three lease: in the end five run, however they crossed."""
    await rows(conn, f"select batchq.set_queue('q', {settings})")
    await fill(conn, 110, 1)
    enders = [await connect() for _ in range(5)]
    lessees = [await connect() for _ in range(3)]
    held = await lease(conn, 9)
    for _ in range(20):
        assert len(held) == 5
        ending = asyncio.gather(*(end(c, how, *job) for c, job in zip(enders, held, strict=True)))
        leases = await asyncio.gather(*(lease(c, 2) for c in lessees))
        await ending
        held = [job for took in leases for job in took]
        held += await lease(conn, 9)
    for job in held:
        await end(conn, "complete", *job)
    while held := await lease(conn, 9):
        for job in held:
            await end(conn, "complete", *job)
    await assert_sound(conn)


async def test_f018_a_group_of_one_keeps_its_order(connect: Connect, conn: Connection) -> None:
    """Jobs of a group start one after the other, as they were added, retries too."""
    await rows(conn, "select batchq.set_queue('q', group_limit => 1)")
    query = """
        select from batchq.enqueue_many((
            select jsonb_agg(jsonb_build_object('kind', 'k', 'queue', 'q', 'priority', g % 3,
                                                'group_key', 'g' || g % 5))
            from generate_series(1, 200) g))"""
    await conn.execute(query.encode())
    seen = await witness(conn)
    order: dict[str, list[int]] = collections.defaultdict(list)
    chance = random.Random(5)

    async def work(session: Connection) -> None:
        while True:
            held = await lease(session, 3)
            for job, lease_id in held:
                order[seen.groups[job]].append(job)
                if chance.random() < 0.2:
                    retry = "select batchq.fail(%s, %s, 'e', retry_in => '1 ms')"
                    await rows(session, retry, job, lease_id)
                else:
                    await rows(session, "select batchq.complete(%s, %s)", job, lease_id)
            if not held and not await rows(
                session, "select from batchq.jobs where status = 'pending' limit 1"
            ):
                return

    sessions = [await connect() for _ in range(SESSIONS)]
    await asyncio.gather(*map(work, sessions))
    for jobs in order.values():
        assert jobs == sorted(jobs)  # a retry stands beside its first attempt
    assert sum(len(set(jobs)) for jobs in order.values()) == 200
    await assert_sound(conn)


async def test_f019_a_lost_call_is_repaired_by_maintain(conn: Connection) -> None:
    await rows(conn, "select batchq.set_queue('q', group_limit => 1)")
    await fill(conn, 2, 1)
    ((job, lease_id),) = await lease(conn, 9)
    await rows(conn, "select batchq.complete(%s, %s)", job, lease_id)
    await conn.execute("delete from batchq.call")
    assert await lease(conn) == []
    await conn.execute("update batchq.upkeep set next_at = '-infinity'")
    await rows(conn, "select * from batchq.maintain()")
    assert len(await lease(conn)) == 1


async def test_f007_a_dead_holder_frees_its_place_by_upkeep_alone(conn: Connection) -> None:
    await rows(conn, "select batchq.set_queue('q', group_limit => 1, max_running => 1)")
    await fill(conn, 2, 1)
    took = await rows(conn, "select job_id from batchq.lease('q', 9, lease_for => '0.1 s')")
    assert len(took) == 1
    async with asyncio.timeout(20):
        while not (held := await lease(conn)):
            await rows(conn, "select * from batchq.maintain()")
            await asyncio.sleep(0.05)
    assert held[0][0] != took[0][0]


async def test_f027_shuffled_keys_of_common_groups_do_not_deadlock(
    connect: Connect, conn: Connection
) -> None:
    """Batches with the same keys and groups, while jobs of them are leased and completed."""
    await rows(conn, "select batchq.set_queue('q', group_limit => 2, max_running => 9)")
    jobs = [
        {"kind": "k", "queue": "q", "dedupe_key": f"k{i}", "group_key": f"g{i % 7}"}
        for i in range(200)
    ]
    adding = SESSIONS

    async def add(session: Connection, seed: int) -> None:
        nonlocal adding
        for round_ in range(5):
            mine = random.Random(seed * 100 + round_).sample(jobs, len(jobs))
            await rows(session, "select * from batchq.enqueue_many(%s)", Jsonb(mine))
        adding -= 1

    async def work(session: Connection) -> None:
        while adding or await rows(session, "select from batchq.jobs where status = 'pending'"):
            held = await lease(session, 4)
            random.shuffle(held)
            query = "select * from batchq.complete_many(%s, %s)"
            await rows(session, query, [job for job, _ in held], [lid for _, lid in held])

    sessions = [await connect() for _ in range(SESSIONS + 3)]
    await asyncio.gather(
        *(add(session, seed) for seed, session in enumerate(sessions[:SESSIONS])),
        *(work(session) for session in sessions[SESSIONS:]),
    )
    await assert_sound(conn)
    assert await rows(conn, "select * from batchq.dedupe") == []
