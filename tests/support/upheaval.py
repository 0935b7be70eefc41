"""Everything that can happen to jobs, at once, and a witness that counts what was committed.

Sessions enqueue, replace, complete, fail, cancel, redrive and purge in transactions of every kind:
short, long, rolled back, with savepoints, prepared. VACUUM makes room in the pages meanwhile. The
witness is a table that triggers write to, so it lives and dies with the transactions.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import errors

Connection = psycopg.AsyncConnection[tuple[Any, ...]]

QUEUES = ("default", "a", "b")
KINDS = ("k", "l")
COUNTERS = (
    "enqueued", "completed", "cancelled", "failed", "reaped", "retried", "dead_letters",
)  # fmt: skip

WITNESS = """
    create table public.witness (event text not null, queue text not null, kind text not null);
    create function public.saw(event text, job_id bigint) returns void language sql as
        'insert into public.witness select $1, j.queue, j.kind from batchq.job j where j.id = $2';
    create function public.see() returns trigger language plpgsql as $$
    begin
        case when tg_argv[0] = 'job' then
            perform public.saw('enqueued', new.id);
        when tg_argv[0] = 'dead' then
            perform public.saw('dead_letters', new.job_id);
        when tg_argv[0] = 'error' then
            perform public.saw(case when new.expired then 'reaped' else 'failed' end, new.job_id);
        else
            perform public.saw(new.state, new.job_id);
            perform public.saw('stopped', new.job_id)
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
# chunks so small that there are many of them
SMALL = """
    create or replace function batchq._chunk_size(axis text) returns bigint
    language sql immutable return case axis when 'job' then 64 else 1 end
"""
SEEN = "select queue, kind, event, count(*) from public.witness group by 1, 2, 3"
COUNTED = f"select queue, kind, {', '.join(COUNTERS)} from batchq.kind_counters()"

Counts = dict[tuple[str, str, str], int]

ENQUEUES = """
select batchq.enqueue('{kind}', queue => '{queue}', max_attempts => 2);
select batchq.enqueue('{kind}', queue => '{queue}', delay => '0.05 s');
select batchq.enqueue('{kind}', jsonb_build_object('n', random()), '{queue}',
    dedupe_key => 'key{n}', on_duplicate => 'replace', max_attempts => 2);
select count(*) from batchq.enqueue_many((
    select jsonb_agg(jsonb_build_object('kind', '{kind}', 'queue', '{queue}', 'max_attempts', 2,
                                        'payload', repeat('x', {n})))
    from generate_series(1, {n})))
"""
# what ends an attempt, of leases that were just taken
ENDS = """
select count(batchq.complete(l.job_id, l.lease_id, to_jsonb(repeat('x', ({n} * 37) % 900))))
    from batchq.lease('{queue}', {n}) l;
select count(batchq.fail(l.job_id, l.lease_id, repeat('e', {n})))
    from batchq.lease('{queue}', {n}) l;
select count(batchq.fail(l.job_id, l.lease_id, 'e', permanent => true))
    from batchq.lease('{queue}', 3) l;
select count(batchq.snooze(l.job_id, l.lease_id, '0.05 s')) from batchq.lease('{queue}', 3) l;
select count(*) from batchq.lease('{queue}', 3, lease_for => '0.1 s');
select count(batchq.fail(c.job_id, c.lease_id, 'e')) from (
    select l.job_id, l.lease_id, batchq.cancel(l.job_id) from batchq.lease('{queue}', 2) l) c
"""
CHANGES = """
select batchq.reap();
select batchq.cancel_many(queue => '{queue}', state => 'pending', n => {n});
select batchq.cancel_many(queue => '{queue}', state => 'running', n => 2);
select batchq.redrive(queue => '{queue}', n => {n});
select batchq.purge(n => {n});
select batchq.purge(status => 'completed', n => {n});
select batchq.purge(status => 'cancelled', n => {n})
"""
CANNOT_BE_PREPARED = "state => 'running'", "batchq.cancel("


@dataclass(slots=True)
class Upheaval:
    dsn: str
    random: random.Random = field(default_factory=random.Random)
    going: bool = True

    async def run(self, seconds: float, sessions: int = 6) -> None:
        """All of it for so long; what is open then is ended one way or another."""
        async with asyncio.TaskGroup() as group:
            for _ in range(sessions):
                group.create_task(self._change())
            group.create_task(self._stay_open())
            group.create_task(self._vacuum())
            for _ in range(2):
                group.create_task(self._tally())
            await asyncio.sleep(seconds)
            self.going = False

    @contextlib.asynccontextmanager
    async def session(self) -> AsyncIterator[Connection]:
        conn = await psycopg.AsyncConnection.connect(self.dsn, autocommit=True)
        try:
            yield conn
        finally:
            await conn.close()

    async def _change(self) -> None:
        styles = (self._autocommit, self._autocommit, self._transaction, self._savepoints,
                  self._prepared)  # fmt: skip
        async with self.session() as conn:
            while self.going:
                with contextlib.suppress(errors.LockNotAvailable, errors.DeadlockDetected):
                    await self.random.choice(styles)(conn)
                if conn.info.transaction_status:
                    await conn.execute("rollback")

    def _statement(self) -> str:
        kind = self.random.choices((ENQUEUES, ENDS, CHANGES), (5, 8, 2))[0]
        return self.random.choice(kind.split(";")).format(
            kind=self.random.choice(KINDS), queue=self.random.choice(QUEUES),
            n=self.random.randint(1, 30),
        )  # fmt: skip

    async def _some(self, conn: Connection, most: int) -> str:
        """Some statements; returns their text."""
        statements = [self._statement() for _ in range(self.random.randint(1, most))]
        for statement in statements:
            await conn.execute(statement.encode())
        return " ".join(statements)

    async def _autocommit(self, conn: Connection) -> None:
        await self._some(conn, 5)

    async def _begin(self, conn: Connection) -> None:
        # who waits for somebody's open transaction gives up
        await conn.execute("begin; set local lock_timeout = '0.2 s'")

    async def _pause(self, longest_s: float) -> None:
        await asyncio.sleep(longest_s * self.random.random() ** 4)

    async def _end(self, conn: Connection) -> None:
        await self._pause(1.5)
        await conn.execute(self.random.choice((b"commit", b"commit", b"rollback")))

    async def _transaction(self, conn: Connection) -> None:
        await self._begin(conn)
        await self._some(conn, 4)
        await self._end(conn)

    async def _savepoints(self, conn: Connection) -> None:
        await self._begin(conn)
        for _ in range(self.random.randint(1, 4)):
            await conn.execute("savepoint s")
            await self._some(conn, 2)
            await self._pause(0.2)
            await conn.execute(self.random.choice((b"release s", b"rollback to s")))
        await self._end(conn)

    async def _prepared(self, conn: Connection) -> None:
        await self._begin(conn)
        done = await self._some(conn, 2)
        if any(text in done for text in CANNOT_BE_PREPARED):
            await conn.execute("commit")
            return
        name = f"'{uuid.uuid4()}'"
        await conn.execute(f"prepare transaction {name}".encode())
        await self._pause(1)
        end = self.random.choice(("commit", "rollback"))
        await conn.execute(f"{end} prepared {name}".encode())

    async def _stay_open(self) -> None:
        """One transaction that writes now and then and ends last."""
        async with self.session() as conn:
            await self._begin(conn)
            while self.going:
                await conn.execute("savepoint s")
                with contextlib.suppress(errors.LockNotAvailable, errors.DeadlockDetected):
                    await self._some(conn, 1)
                    await conn.execute("release s")
                if conn.info.transaction_status == psycopg.pq.TransactionStatus.INERROR:
                    await conn.execute("rollback to s")
                await asyncio.sleep(0.2)
            await conn.execute("commit")

    async def _vacuum(self) -> None:
        async with self.session() as conn:
            while self.going:
                segment = self.random.randrange(8)
                for table in ("outcome", "error", "job"):
                    for number in (0, segment):
                        await conn.execute(f"vacuum batchq.{table}_{number}".encode())
                if self.random.random() < 0.5:
                    await conn.execute("select nextval('batchq.current_segment')")
                await asyncio.sleep(0.3)

    async def _tally(self) -> None:
        styles = (
            (b"select batchq._tally()",),
            (b"begin", b"savepoint s", b"select batchq._tally()", b"release s", b"commit"),
            (b"begin", b"select batchq._tally()", b"rollback"),
            (b"begin", b"select batchq.enqueue('k')", b"select batchq._tally()", b"commit"),
            (b"begin isolation level repeatable read", b"select batchq._tally()", b"commit"),
        )
        async with self.session() as conn:
            while self.going:
                for statement in self.random.choice(styles):
                    await conn.execute(statement)
                    await self._pause(0.2)

    async def seen(self, conn: Connection) -> Counts:
        """By queue, kind and counter, what the witness saw."""
        cursor = await conn.execute(SEEN.encode())
        counts: Counter[tuple[str, str, str]] = Counter()
        for queue, kind, event, n in await cursor.fetchall():
            if event in COUNTERS:
                counts[queue, kind, event] += n
            if event in {"failed", "reaped"}:
                counts[queue, kind, "retried"] += n
            if event in {"dead_letters", "stopped"}:
                counts[queue, kind, "retried"] -= n
        return +counts


async def counted(conn: Connection) -> Counts:
    """By queue, kind and counter, what batchq has counted."""
    cursor = await conn.execute(COUNTED.encode())
    return {
        (queue, kind, name): n
        for queue, kind, *numbers in await cursor.fetchall()
        for name, n in zip(COUNTERS, numbers, strict=True)
        if n
    }
