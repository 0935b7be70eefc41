"""A storm of transactions of every length over a few queues, and a witness of what came out.

Enqueuers commit early or late, roll back, use savepoints, old snapshots and two-phase commit;
workers lease, complete, fail, release, snooze, forget and roll back; leases expire; lines are
swept as often as a sweep's own cost allows.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import random
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import errors

Connection = psycopg.AsyncConnection[tuple[Any, ...]]

QUEUES = ("default", "a", "b", "c")
PRIORITIES = (0, 0, 0, 5, -3)
DELAYS = (None, None, None, "0.03 s", "0.15 s")
ENQUEUERS = 8
WORKERS = 4
LONGEST_S = 0.4
DRAIN_S = 30.0


@dataclass(slots=True)
class Found:
    """What the witness saw. `left` counts rows of ready, scheduled, leased."""

    accepted: int
    missing: set[int]
    completed_more_than_once: set[int]
    never_committed: set[int]
    left: tuple[int, int, int]
    breaches: int
    raised_floors: int


@dataclass(slots=True)
class Stress:
    dsn: str
    random: random.Random = field(default_factory=random.Random)
    accepted: set[int] = field(default_factory=set)
    completed: collections.Counter[int] = field(default_factory=collections.Counter)
    enqueuing: bool = True
    draining: bool = False
    drained: bool = False

    async def run(self, seconds: float) -> Found:
        async with self._session() as conn:
            await sweep_all_the_time(conn)
            async with asyncio.TaskGroup() as group:
                enqueuers = [group.create_task(self._enqueuer()) for _ in range(ENQUEUERS)]
                for _ in range(WORKERS):
                    group.create_task(self._worker())
                group.create_task(self._reaper())
                group.create_task(self._old_snapshots())
                await asyncio.sleep(seconds)
                self.enqueuing = False
                await asyncio.wait(enqueuers)
                self.draining = True
                await self._await_drained()
                self.drained = True
            return await self._found(conn)

    @contextlib.asynccontextmanager
    async def _session(self) -> AsyncIterator[Connection]:
        conn = await psycopg.AsyncConnection.connect(self.dsn, autocommit=True)
        try:
            yield conn
        finally:
            await conn.close()

    async def _pause(self, longest_s: float = LONGEST_S) -> None:
        await asyncio.sleep(self.random.uniform(0, longest_s) ** 2 / longest_s)

    async def _enqueue(self, conn: Connection) -> list[int]:
        """One call that makes a job or some, in the transaction that is open."""
        queue, priority = self.random.choice(QUEUES), self.random.choice(PRIORITIES)
        if self.random.random() < 0.02:
            priority = self.random.randint(-100, 100)
        fields = (queue, priority, self.random.choice(DELAYS))
        if self.random.random() < 0.5:
            query = (
                "select batchq.enqueue('a', queue => %s, priority => %s, delay => %s::interval,"
                " max_attempts => 32767)"
            )
            rows = await (await conn.execute(query, fields)).fetchall()
        else:
            query = """
                select m.job_id from batchq.enqueue_many((
                    select jsonb_agg(jsonb_build_object(
                        'kind', 'a', 'queue', %s::text, 'priority', %s::integer,
                        'delay', %s::text, 'max_attempts', 32767))
                    from generate_series(1, %s))) m"""
            parameters = (*fields, self.random.randint(1, 40))
            rows = await (await conn.execute(query, parameters)).fetchall()
        return [row[0] for row in rows]

    async def _enqueuer(self) -> None:
        styles: list[Callable[[Connection], Awaitable[list[int]]]] = [
            self._enqueue,
            self._plain_transaction,
            self._savepoints,
            self._two_phase,
            self._repeatable_read,
        ]
        async with self._session() as conn:
            while self.enqueuing:
                self.accepted.update(await self.random.choice(styles)(conn))
                await self._pause(0.005)

    async def _end(self, conn: Connection, ids: list[int]) -> list[int]:
        """Commit, or now and then roll back; the ids that exist by that."""
        await self._pause()
        if self.random.random() < 0.2:
            await conn.execute("rollback")
            return []
        await conn.execute("commit")
        return ids

    async def _plain_transaction(self, conn: Connection) -> list[int]:
        ids: list[int] = []
        await conn.execute("begin")
        for _ in range(self.random.randint(1, 4)):
            ids += await self._enqueue(conn)
            await self._pause(0.05)
        return await self._end(conn, ids)

    async def _savepoints(self, conn: Connection) -> list[int]:
        ids: list[int] = []
        await conn.execute("begin")
        for _ in range(self.random.randint(1, 4)):
            await conn.execute("savepoint s")
            added = await self._enqueue(conn)
            await self._pause(0.05)
            if self.random.random() < 0.5:
                await conn.execute("rollback to s")
            else:
                await conn.execute("release s")
                ids += added
        return await self._end(conn, ids)

    async def _two_phase(self, conn: Connection) -> list[int]:
        name = f"stress-{uuid.uuid4()}"
        await conn.execute("begin")
        ids = await self._enqueue(conn)
        await self._pause()
        try:
            await conn.execute(f"prepare transaction '{name}'".encode())
        except errors.FeatureNotSupported:  # a transaction that rang cannot be prepared
            return []
        await self._pause()
        if self.random.random() < 0.2:
            await conn.execute(f"rollback prepared '{name}'".encode())
            return []
        await conn.execute(f"commit prepared '{name}'".encode())
        return ids

    async def _repeatable_read(self, conn: Connection) -> list[int]:
        await conn.execute("begin isolation level repeatable read")
        await conn.execute("select count(*) from batchq.queue")
        await self._pause()
        return await self._end(conn, await self._enqueue(conn))

    async def _worker(self) -> None:
        async with self._session() as conn:
            while not self.drained:
                held = await self._lease(conn)
                for job_id, lease_id in held:
                    await self._settle(conn, job_id, lease_id)
                if not held:
                    await asyncio.sleep(0.01)

    async def _lease(self, conn: Connection) -> list[tuple[int, int]]:
        """What this worker holds after it; a lease that is rolled back holds nothing."""
        rollback = not self.draining and self.random.random() < 0.1
        if rollback:
            await conn.execute("begin")
        queues = self.random.sample(QUEUES, len(QUEUES))
        cursor = await conn.execute(
            "select job_id, lease_id from batchq.lease_from(%s, %s, lease_for => %s::interval)",
            (queues, self.random.randint(1, 60), self.random.choice(("0.3 s", "1 s", "60 s"))),
        )
        held = await cursor.fetchall()
        if rollback:
            await self._pause()
            await conn.execute("rollback")
            return []
        return [(job_id, lease_id) for job_id, lease_id in held]

    async def _settle(self, conn: Connection, job_id: int, lease_id: int) -> None:
        chance = 1.0 if self.draining else self.random.random()
        lease = (job_id, lease_id)
        try:
            if chance < 0.02:
                # forgotten: made to run out soon, then it is the reaper's
                await conn.execute("select batchq.extend(array[%s], array[%s], '0.1 s')", lease)
            elif chance < 0.1:
                query = "select batchq.fail(%s, %s, 'e', retry_in => make_interval(secs => %s))"
                await conn.execute(query, (*lease, self.random.choice((0, 0.02, 0.1))))
            elif chance < 0.15:
                await conn.execute("select batchq.release(%s, %s)", lease)
            elif chance < 0.2:
                await conn.execute("select batchq.snooze(%s, %s, '0.02 s')", lease)
            else:
                await conn.execute("select batchq.complete(%s, %s)", lease)
                self.completed[job_id] += 1
        except psycopg.Error as error:
            if error.sqlstate != "JQ004":
                raise

    async def _reaper(self) -> None:
        """Reaps, promotes and looks for what stands below a hard floor."""
        # what a worker forgets is retried at once
        async with self._session() as conn:
            for queue in QUEUES:
                query = "select batchq.set_queue(%s, backoff => 'fixed', backoff_base => '0.05 s')"
                await conn.execute(query, (queue,))
            while not self.drained:
                await conn.execute(
                    "select batchq.reap(), batchq.maintain(), batchq._check_floors()"
                )
                await asyncio.sleep(0.1)

    async def _old_snapshots(self) -> None:
        async with self._session() as conn:
            while self.enqueuing:
                await conn.execute("begin isolation level repeatable read")
                await conn.execute("select count(*) from batchq.ready")
                await asyncio.sleep(0.7)
                await conn.execute("rollback")

    async def _await_drained(self) -> None:
        """Until the workers have completed all there is, or find nothing more to complete."""
        deadline = time.monotonic() + DRAIN_S
        before = -1
        while len(self.completed) != before and time.monotonic() < deadline:
            before = len(self.completed)
            for _ in range(30):
                await asyncio.sleep(0.1)
                if self.accepted <= self.completed.keys():
                    return

    async def _found(self, conn: Connection) -> Found:
        async def rows(query: str) -> list[tuple[Any, ...]]:
            return await (await conn.execute(query.encode())).fetchall()

        outcomes = {row[0] for row in await rows("select job_id from batchq.outcome")}
        ((ready, scheduled, leased),) = await rows(
            "select (select count(*) from batchq.ready), (select count(*) from batchq.scheduled),"
            " (select count(*) from batchq.leased)"
        )
        await conn.execute("select batchq._check_floors()")
        ((breaches,),) = await rows("select sum(breaches) from batchq.upkeep")
        ((raised,),) = await rows(
            "select count(distinct (queue, line, priority)) from batchq.floor where hard_floor > 0"
        )
        return Found(
            accepted=len(self.accepted),
            missing=self.accepted - (outcomes & self.completed.keys()),
            completed_more_than_once={i for i, times in self.completed.items() if times > 1},
            never_committed=(outcomes | self.completed.keys()) - self.accepted,
            left=(ready, scheduled, leased),
            breaches=breaches,
            raised_floors=raised,
        )


async def sweep_all_the_time(conn: Connection) -> None:
    """Take the least step and the least pause out of _sweep, so that a storm of seconds sees as
    many floors rise as hours do. The rule itself stays as it is.
    """
    cursor = await conn.execute("select pg_get_functiondef('batchq._sweep'::regproc)")
    (source,) = await cursor.fetchone() or ("",)
    for text, instead in (
        ("500::bigint else 500000", "0::bigint else 0"),
        ("'0.1 s' else '2 s'", "'0 s' else '0 s'"),
        ("'0.5 s'", "'0 s'"),
    ):
        assert text in source, f"_sweep has changed: no {text} in it"
        source = source.replace(text, instead)
    await conn.execute(source.encode())
