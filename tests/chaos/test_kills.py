"""Workers killed at random under load: nothing is lost, nothing is finished twice.

The witness is the handlers' own ledger, on connections of its own. `BATCHQ_KILLS=100` makes it the
long run.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import os
import random
import signal
import time
from pathlib import Path

import pytest

from pybatchq import calls
from pybatchq.testing import Ledger
from tests.conftest import Connect, Connection
from tests.support.processes import KINDS, Process
from tests.support.working import statuses, until

KILLS = int(os.environ.get("BATCHQ_KILLS", "12"))
WORKERS = 3
SLOTS = 4
LEASE_S = 1
JOBS = 50 * KILLS
MAX_ATTEMPTS = 30


class Fleet:
    """Three workers, each replaced when it is killed; one is frozen past its lease for a while."""

    def __init__(self, dsn: str, folder: Path, chance: random.Random) -> None:
        self._dsn = dsn
        self._folder = folder
        self._chance = chance
        self._started = 0
        self.killed = 0
        self.workers = [self._start() for _ in range(WORKERS)]
        self.logs: list[str] = []

    def _start(self) -> Process:
        self._started += 1
        name = f"w{self._started}"
        return Process(
            self._dsn, self._folder / name, "--name", name, "--handlers", KINDS,
            "--concurrency", str(SLOTS), "--lease", f"{LEASE_S}s",
        )  # fmt: skip

    async def kill_one(self, conn: Connection) -> None:
        """SIGKILL to a worker that has jobs; another takes its place."""
        number = await self._busy(conn)
        self.workers[number].kill()
        self.killed += 1
        self.logs.append(self.workers[number].log)
        self.workers[number] = self._start()

    async def freeze_one(self, conn: Connection) -> None:
        """SIGSTOP to a worker that has jobs, until others have them; then it goes on."""
        while True:
            number = await self._busy(conn)
            frozen = self.workers[number]
            frozen.signal(signal.SIGSTOP)
            cursor = await conn.execute(
                "select array_agg(lease_id) from batchq.leased where worker = %s",
                (f"w{self._name(number)}",),
            )
            ((leases,),) = await cursor.fetchall()
            if leases:
                break
            frozen.signal(signal.SIGCONT)

        async def are_taken_back() -> bool:
            query = "select count(*) from batchq.leased where lease_id = any(%s)"
            cursor = await conn.execute(query, (leases,))
            return bool((await cursor.fetchall())[0][0] == 0)

        await until(are_taken_back)
        frozen.signal(signal.SIGCONT)
        await frozen.logged("the lease was lost")

    def _name(self, number: int) -> int:
        return int(self.workers[number]._log.name.removeprefix("w"))

    async def _busy(self, conn: Connection) -> int:
        """A worker that holds leases, chosen at random."""

        async def look() -> list[int]:
            cursor = await conn.execute("select distinct worker from batchq.leased")
            busy = {name for (name,) in await cursor.fetchall()}
            return [n for n in range(WORKERS) if f"w{self._name(n)}" in busy]

        busy: list[int] = await until(look)
        return self._chance.choice(busy)

    def close(self) -> None:
        for worker in self.workers:
            worker.kill()
            self.logs.append(worker.log)


class Producer:
    """Keeps the queue from running dry, and what it was promised.

    It goes on after `done` until it has made `JOBS`: how much a machine gets done between the kills
    must not decide how much is tested.
    """

    def __init__(self, conn: Connection, chance: random.Random) -> None:
        self._conn = conn
        self._chance = chance
        self.accepted: set[int] = set()
        self.done = False

    async def run(self) -> None:
        while not self.done or len(self.accepted) <= JOBS:
            if sum(depth.ready for depth in await calls.stats(self._conn)) < 200:
                jobs = [
                    {"kind": "ledger", "payload": {"ms": self._chance.randint(1, 20)},
                     "max_attempts": MAX_ATTEMPTS}
                    for _ in range(200)
                ]  # fmt: skip
                added = await calls.enqueue_many(self._conn, jobs=jobs)
                self.accepted.update(job.job_id for job in added)
            await asyncio.sleep(0.05)


@pytest.mark.timeout(60 + 5 * KILLS)
async def test_a11_a12_f013_b11_killed_and_frozen_workers_lose_nothing_and_finish_nothing_twice(
    db: str, connect: Connect, tmp_path: Path
) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    conn = await connect()
    await calls.set_queue(
        conn, queue="default", backoff="fixed", backoff_base=dt.timedelta(seconds=0.05)
    )
    producer = Producer(await connect(), chance)
    async with Ledger(db) as ledger:
        with contextlib.closing(Fleet(db, tmp_path, chance)) as fleet:
            producing = asyncio.create_task(producer.run())
            for number in range(KILLS):
                await asyncio.sleep(chance.uniform(0, 0.7))
                await fleet.kill_one(conn)
                if number == KILLS // 2:
                    await fleet.freeze_one(conn)
            producer.done = True
            await producing
            await drained(conn)
        runs = await ledger.runs()

    accepted = producer.accepted
    assert fleet.killed == KILLS
    assert len(accepted) > JOBS
    # zero lost: every job that was promised is completed, and its handler came to its end
    assert await statuses(conn) == {"completed": len(accepted)}
    cursor = await conn.execute("select id from batchq.jobs")
    assert {job_id for (job_id,) in await cursor.fetchall()} == accepted
    assert {run.job_id for run in runs if run.ended_at is not None} == accepted
    # none finished twice
    cursor = await conn.execute("select count(*), count(distinct job_id) from batchq.outcome")
    assert await cursor.fetchone() == (len(accepted), len(accepted))
    # only what was in flight ran again, and no attempt was run twice
    again = len(runs) - len(accepted)
    assert again <= (KILLS + 1) * SLOTS * 2
    assert len({(run.job_id, run.attempt) for run in runs}) == len(runs)
    assert max(run.attempt for run in runs) < MAX_ATTEMPTS
    # no worker but those that were killed has ended, and none has met what it did not know
    assert not any("Traceback" in log for log in fleet.logs)


async def drained(conn: Connection) -> None:
    async def look() -> bool:
        return set(await statuses(conn)) == {"completed"}

    at = time.monotonic()
    await until(look, within_s=30)
    print(f"drained in {time.monotonic() - at:.1f} s")
