"""What peek_lease shows is what lease gives next, in the same order, whatever a queue has set.

Random queues with limits, groups, breakers, due jobs and retries; nobody else works on them, and
nothing becomes due between the two looks.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest

from tests.support.servers import Databases

Connection = psycopg.Connection[tuple[Any, ...]]

SOON = """
    select exists (select from batchq.scheduled s where s.queue = %(queue)s
                   and s.run_at between clock_timestamp() and clock_timestamp() + interval '0.5 s')
        or exists (select from batchq.call c where c.queue = %(queue)s
                   and c.due_at between clock_timestamp() and clock_timestamp() + interval '0.5 s')
        or exists (select from batchq.permit p where p.queue = %(queue)s and p.line = 'rate'
                   and batchq._instant(p.place) between clock_timestamp()
                   and clock_timestamp() + interval '0.5 s')
        or exists (select from batchq.breaker b where b.queue = %(queue)s
                   and b.probe_at between clock_timestamp()
                   and clock_timestamp() + interval '0.5 s')
"""


@dataclass(slots=True)
class Session:
    """A queue of random settings, and what happens to it."""

    conn: Connection
    queue: str
    chance: random.Random
    # what a breaker puts off gives its turn in its group to others: that is not foreseen
    has_breakers: bool
    held: list[tuple[int, int]] = field(default_factory=list)

    def call(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        return self.conn.execute(query.encode(), values).fetchall()

    def settings(self) -> None:
        pick = self.chance.choice
        self.call(
            "select batchq.set_queue(%s, reset => true, max_running => %s, rate => %s, "
            "rate_period => %s::interval, group_limit => %s, group_rate => %s, "
            "group_period => %s::interval, group_retry => %s, fair => %s, "
            "breaker_share => %s, breaker_min => 2, breaker_pause => %s::interval)",
            self.queue,
            pick([None, None, 0, 1, 3, 8, 200]),
            pick([None, None, None, 2, 9, 100]),
            pick(["1 h", "100 ms"]),
            pick([None, None, 1, 1, 2, 5]),
            pick([None, None, None, 1, 4]),
            pick(["1 h", "100 ms"]),
            pick([None, "hold", "yield"]),
            pick([None, None, True]),
            pick([None, 0.5]) if self.has_breakers else None,
            pick(["1 h", "1 s"]),
        )

    def enqueue(self) -> None:
        pick = self.chance.choice
        for _ in range(self.chance.randint(1, 12)):
            self.call(
                "select batchq.enqueue(%s, queue => %s, priority => %s, group_key => %s, "
                "delay => %s::interval, max_attempts => 50)",
                pick("kkz"),
                self.queue,
                pick([0, 0, 0, 1, -3]),
                None if self.has_breakers else pick([None, None, "a", "b", "c"]),
                pick([None, None, None, "1 ms", "1 h"]),
            )

    def settle(self) -> None:
        self.chance.shuffle(self.held)
        for _ in range(self.chance.randint(0, len(self.held))):
            job = self.held.pop()
            self.call(
                self.chance.choice(
                    [
                        "select batchq.complete(%s, %s)",
                        "select batchq.release(%s, %s)",
                        "select batchq.fail(%s, %s, 'e', retry_in => '1 ms')",
                        "select batchq.fail(%s, %s, 'e', retry_in => '1 h')",
                        "select batchq.snooze(%s, %s, '1 ms')",
                    ]
                ),
                *job,
            )

    def group(self) -> None:
        pick = self.chance.choice
        self.call(
            "select batchq.set_group(%s, %s, %s, %s, reset => true)",
            self.queue,
            pick("abc"),
            pick([None, 0, 1, 3]),
            pick([None, 1, 2]),
        )

    def step(self) -> None:
        weights = {self.enqueue: 5, self.settle: 3, self.settings: 1, self.group: 1}
        self.chance.choices(list(weights), list(weights.values()))[0]()

    def wait_until_nothing_comes_up(self) -> None:
        query = SOON.encode()
        until = time.monotonic() + 30
        while time.monotonic() < until:
            if self.conn.execute(query, {"queue": self.queue}).fetchone() == (False,):
                return
        pytest.fail("something is always about to be due")

    def compare(self) -> int:
        n = self.chance.choice([1, 2, 5, 10, 50])
        self.wait_until_nothing_comes_up()
        seen = self.call(
            "select p.job_id, p.kind, p.priority, p.group_key, p.state, j.state "
            "from batchq.peek_lease(%s, %s) p left join batchq.jobs j on j.id = p.job_id",
            self.queue,
            n,
        )
        shown = self.call("select job_id, state from batchq.peek_lease(%s, %s)", self.queue, n)
        got = self.call(
            "select l.job_id, l.lease_id, l.kind, l.priority from batchq.lease(%s, %s) l",
            self.queue,
            n,
        )
        assert [job[0] for job in shown] == [job[0] for job in got]
        assert all(state == real for *_, state, real in seen)
        assert {(j, k, p) for j, k, p, *_ in seen} == {(j, k, p) for j, _, k, p in got}
        self.held += [(job, lease) for job, lease, *_ in got]
        return len(got)


@pytest.fixture(scope="module")
def peeking(server: Databases, template: str) -> Iterator[Connection]:
    with server.fresh(template) as dsn, psycopg.connect(dsn, autocommit=True) as conn:
        yield conn


@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", range(25))
def test_a_peek_is_what_the_next_lease_gives(peeking: Connection, seed: int) -> None:
    session = Session(peeking, f"q{seed}", random.Random(seed), has_breakers=seed % 4 == 3)
    session.settings()
    session.enqueue()
    for _ in range(15):
        for _ in range(session.chance.randint(0, 3)):
            session.step()
        session.compare()


def test_a_peek_changes_nothing(peeking: Connection) -> None:
    session = Session(peeking, "still", random.Random(1), has_breakers=False)
    session.call("select batchq.set_queue('still', max_running => 3, group_limit => 1)")
    session.enqueue()
    peeking.execute("set default_transaction_read_only = on")
    try:
        first = session.call("select * from batchq.peek_lease('still')")
        assert first == session.call("select * from batchq.peek_lease('still')")
        assert first
    finally:
        peeking.execute("set default_transaction_read_only = off")
