"""Many sessions on one limited queue, and a ledger of when each job began and ended.

What a limit means is decided by the ledger alone: a start is written down after the lease that
gave it was answered, an end before the call that gives the job up is sent. So jobs that run at one
time by the ledger did at that time hold what the limit counts.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import psycopg

Connection = psycopg.AsyncConnection[tuple[Any, ...]]

WORKERS = 6
PRODUCERS = 2
GROUPS = 30
DRAIN_S = 60.0
LEASE_S = 0.7
OVER = ("completed", "failed", "cancelled")
UPKEEP = (
    "update batchq.upkeep set next_at = '-infinity' where task in ('limits', 'groups', 'floors')"
)


@dataclass(slots=True)
class Entry:
    """An attempt: asked for at `sent`, known to the worker at `began`, given up at `ended` or, if
    never, when its lease ran out.
    """

    job_id: int
    group: str | None
    sent: float
    began: float
    ended: float


@dataclass(slots=True)
class Made:
    """A job that was committed: between these two moments."""

    group: str | None
    sent: float
    done: float


@dataclass(slots=True)
class Books:
    """What the tables say when all is over."""

    finished: set[int]
    left: tuple[int, ...]
    permits: dict[str, int]
    owed: int
    seats: list[tuple[Any, ...]]
    mended: dict[str, int]
    breaches: int


@dataclass(slots=True)
class Ledger:
    """`caps`: the cap goes through these while the queue runs. `big`: so many jobs of group g0 are
    there before everything else.
    """

    dsn: str
    settings: str
    groups: bool = False
    caps: tuple[int, ...] = ()
    big: int = 0
    backlog: int = 300
    random: random.Random = field(default_factory=lambda: random.Random(5))
    entries: list[Entry] = field(default_factory=list)
    accepted: dict[int, Made] = field(default_factory=dict)
    over: dict[int, float] = field(default_factory=dict)
    cap_changes: list[tuple[float, float, int]] = field(default_factory=list)
    _group_of: dict[int, str | None] = field(default_factory=dict)
    _producing: bool = True
    _all_made: bool = False
    _drained: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, seconds: float) -> Books:
        async with self._session() as conn:
            await conn.execute(
                "select batchq.set_queue('q', backoff => 'fixed', backoff_base => '20 ms',"
                f" {self.settings})".encode()
            )
            while len(self.accepted) < self.big:
                await self._produce(conn, "g0", 100)
            async with asyncio.timeout(seconds + DRAIN_S), asyncio.TaskGroup() as group:
                producers = [group.create_task(self._producer()) for _ in range(PRODUCERS)]
                for _ in range(WORKERS):
                    group.create_task(self._worker())
                group.create_task(self._canceller())
                group.create_task(self._changer())
                holder = group.create_task(self._holder())
                group.create_task(self._upkeep())
                await asyncio.sleep(seconds)
                self._producing = False
                await asyncio.wait([*producers, holder])
                self._all_made = True
                await self._drained.wait()
            return await self._books(conn)

    @contextlib.asynccontextmanager
    async def _session(self) -> AsyncIterator[Connection]:
        conn = await psycopg.AsyncConnection.connect(self.dsn, autocommit=True)
        try:
            yield conn
        finally:
            await conn.close()

    async def _pause(self, longest_s: float) -> None:
        await asyncio.sleep(self.random.uniform(0, longest_s))

    async def _producer(self) -> None:
        async with self._session() as conn:
            while self._producing:
                if len(self.accepted) - len(self.over) > self.backlog + self.big:
                    await self._pause(0.02)
                    continue
                key = f"g{self.random.randrange(GROUPS)}" if self.groups else None
                await self._produce(conn, key, self.random.randint(1, 5))

    async def _produce(self, conn: Connection, key: str | None, n: int) -> None:
        """A transaction, in which some time may pass, and which may come to nothing."""
        sent = time.monotonic()
        await conn.execute("begin")
        made = []
        for _ in range(n):
            row = await one(
                conn,
                "select batchq.enqueue('k', queue => 'q', group_key => %s, max_attempts => 30000)",
                key,
            )
            made.append(row[0])
        self._group_of.update(dict.fromkeys(made, key))
        if self.random.random() < 0.15:
            await self._pause(0.2)
        if self.random.random() < 0.15:
            await conn.execute("rollback")
            return
        await conn.execute("commit")
        done = time.monotonic()
        self.accepted.update({job_id: Made(key, sent, done) for job_id in made})

    async def _lease(self, conn: Connection, n: int) -> list[tuple[Entry, int]]:
        sent = time.monotonic()
        cursor = await conn.execute(
            "select job_id, lease_id from batchq.lease('q', %s, lease_for =>"
            " make_interval(secs => %s))",
            (n, LEASE_S),
        )
        rows = await cursor.fetchall()
        began = time.monotonic()
        held = []
        for job_id, lease_id in rows:
            entry = Entry(job_id, self._group_of[job_id], sent, began, sent + LEASE_S)
            self.entries.append(entry)
            held.append((entry, lease_id))
        return held

    async def _worker(self) -> None:
        async with self._session() as conn:
            while not self._drained.is_set():
                held = await self._lease(conn, self.random.choice((1, 1, 2, 5, 20)))
                for entry, lease_id in held:
                    if self._producing and self.random.random() < 0.3:
                        await self._pause(0.004)
                    await self._settle(conn, entry, lease_id)
                if not held:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(0.01):
                            await self._drained.wait()

    async def _settle(self, conn: Connection, entry: Entry, lease_id: int) -> None:
        chance = 0.0 if not self._producing else self.random.random()
        call = "complete(%s, %s)"
        if chance > 0.95:
            call = "fail(%s, %s, 'e', permanent => true)"
        elif chance > 0.85:
            call = f"fail(%s, %s, 'e', retry_in => '{self.random.choice((0, 20))} ms')"
        elif chance > 0.8:
            call = "release(%s, %s)"
        elif chance > 0.75:
            call = "snooze(%s, %s, '10 ms')"
        now = time.monotonic()
        entry.ended = min(entry.ended, now)
        try:
            row = await one(conn, f"select batchq.{call}", entry.job_id, lease_id)
        except psycopg.Error as error:
            if error.sqlstate != "JQ004":
                raise
            return
        if row[0] in OVER:
            self.over.setdefault(entry.job_id, now)

    async def _holder(self) -> None:
        """Leases and is gone, again and again."""
        while self._producing:
            async with self._session() as conn:
                await self._lease(conn, 2)
            await self._pause(0.5)

    async def _canceller(self) -> None:
        """Of jobs it is rather the late ones, which mostly wait yet."""
        async with self._session() as conn:
            while self._producing:
                await self._pause(0.03)
                job_id = next(reversed(self.accepted), None)
                if job_id is None or job_id in self.over:
                    continue
                now = time.monotonic()
                try:
                    (state,) = await one(conn, "select batchq.cancel(%s)", job_id)
                except psycopg.Error as error:
                    if error.sqlstate != "JQ005":
                        raise
                    continue
                if state == "cancelled":
                    self.over.setdefault(job_id, now)

    async def _changer(self) -> None:
        async with self._session() as conn:
            while self._producing and self.caps:
                await self._pause(0.3)
                cap = self.random.choice(self.caps)
                sent = time.monotonic()
                await conn.execute("select batchq.set_queue('q', max_running => %s)", (cap,))
                self.cap_changes.append((sent, time.monotonic(), cap))

    async def _upkeep(self) -> None:
        """Checks of limits and groups all the time, and a look whether anything is left."""
        async with self._session() as conn:
            while not self._drained.is_set():
                await conn.execute(UPKEEP)
                await conn.execute("select batchq.maintain(), batchq.reap()")
                if self._all_made and not any(await left(conn)):
                    self._drained.set()
                await self._pause(0.05)

    async def _books(self, conn: Connection) -> Books:
        await conn.execute(UPKEEP)
        await conn.execute("select batchq.maintain()")
        finished = "select job_id from batchq.outcome union all select job_id from batchq.dead"
        rows = await every(conn, finished)
        assert len(rows) == len({row[0] for row in rows})
        permits = "select line, sum(n)::integer from batchq.permit where queue = 'q' group by line"
        tasks = "select task, done::integer from batchq.upkeep where task in ('limits', 'groups')"
        return Books(
            finished={row[0] for row in rows},
            left=await left(conn),
            permits=dict(await every(conn, permits)),
            owed=(await one(conn, "select slots_owed from batchq.queue where queue = 'q'"))[0],
            seats=[
                row for row in await every(conn, "select * from batchq._seats('q')") if any(row[1:])
            ],
            mended=dict(await every(conn, tasks)),
            breaches=(await one(conn, "select sum(breaches)::integer from batchq.upkeep"))[0],
        )


async def one(conn: Connection, query: str, *parameters: object) -> tuple[Any, ...]:
    row = await (await conn.execute(query.encode(), parameters)).fetchone()
    assert row is not None
    return row


async def every(conn: Connection, query: str) -> list[tuple[Any, ...]]:
    return await (await conn.execute(query.encode())).fetchall()


async def left(conn: Connection) -> tuple[int, ...]:
    return await one(
        conn,
        "select (select count(*) from batchq.ready), (select count(*) from batchq.scheduled),"
        " (select count(*) from batchq.blocked), (select count(*) from batchq.leased)",
    )
