"""Limits hold whatever goes on: by a ledger of starts and ends that knows nothing of batchq.

Six workers, two producers, a canceller, one that dies with its leases, upkeep, and, for the cap,
somebody who changes it all the time. F007, F018, F019, F020, F080.
"""

from __future__ import annotations

import collections
import os
from collections.abc import Iterable

import pytest

from tests.support.ledger import Books, Connection, Entry, Ledger, Made, every, one

LIMITS_S = float(os.environ.get("BATCHQ_LIMITS_SECONDS", "5"))
pytestmark = pytest.mark.timeout(LIMITS_S + 90)


def most_at_once(entries: Iterable[Entry]) -> int:
    """How many of these attempts ran at one time."""
    events = [(entry.began, 1) for entry in entries if entry.began < entry.ended]
    events += [(entry.ended, -1) for entry in entries if entry.began < entry.ended]
    running = most = 0
    for _, step in sorted(events):
        running += step
        most = max(most, running)
    return most


def by_group(entries: Iterable[Entry]) -> dict[str | None, list[Entry]]:
    found = collections.defaultdict(list)
    for entry in entries:
        found[entry.group].append(entry)
    return found


def shortest_window(entries: Iterable[Entry], n: int) -> float:
    """The longest time that any n of these starts can have been apart, where that is shortest."""
    ordered = sorted(entries, key=lambda entry: entry.began)
    windows = [ordered[at : at + n] for at in range(len(ordered) - n + 1)]
    return min(
        (window[-1].began - min(entry.sent for entry in window) for window in windows),
        default=float("inf"),
    )


def check_books(ledger: Ledger, books: Books) -> None:
    """Every job that was committed is over, and nothing is left behind or was put right."""
    assert books.finished == set(ledger.accepted)
    assert len(ledger.accepted) > 100
    assert books.left == (0, 0, 0, 0)
    assert books.seats == []
    assert books.mended == {"limits": 0, "groups": 0}
    assert books.breaches == 0


async def test_f018_f020_a_cap_is_never_exceeded(db: str) -> None:
    ledger = Ledger(db, "max_running => 7")
    books = await ledger.run(LIMITS_S)
    check_books(ledger, books)
    assert most_at_once(ledger.entries) == 7
    assert (books.permits, books.owed) == ({"cap": 7}, 0)


async def test_f018_nothing_starts_above_a_cap_that_is_changed_all_the_time(db: str) -> None:
    ledger = Ledger(db, "max_running => 9", caps=(1, 3, 5, 9))
    books = await ledger.run(LIMITS_S)
    check_books(ledger, books)
    changes = [(0.0, 0.0, 9), *ledger.cap_changes]
    ends = [done for _, done, _ in changes[1:]] + [float("inf")]
    for entry in ledger.entries:
        # what was in force at some time of this lease
        caps = [
            cap
            for (sent, _, cap), end in zip(changes, ends, strict=True)
            if sent <= entry.began and end >= entry.sent
        ]
        held = [
            other
            for other in ledger.entries
            if (other.began <= entry.sent and other.ended >= entry.began)
            or (other.sent, other.began) == (entry.sent, entry.began)
        ]
        assert len(held) <= max(caps)
    assert len(ledger.cap_changes) > 5
    assert books.permits["cap"] - books.owed == changes[-1][2]


async def test_no_window_holds_more_starts_than_the_rate(db: str) -> None:
    ledger = Ledger(db, "rate => 50, rate_period => '0.5 s'", backlog=150)
    books = await ledger.run(LIMITS_S)
    check_books(ledger, books)
    assert shortest_window(ledger.entries, 51) >= 0.5
    assert books.permits == {"rate": 50}


async def test_f018_one_of_a_group_at_a_time_in_order(db: str) -> None:
    ledger = Ledger(db, "group_limit => 1", groups=True)
    books = await ledger.run(LIMITS_S)
    check_books(ledger, books)
    assert {most_at_once(group) for group in by_group(ledger.entries).values()} == {1}
    assert out_of_order(ledger) == []


def out_of_order(ledger: Ledger) -> list[tuple[int, int]]:
    """Pairs of one group where the later one began before the first one was over. Only jobs that
    were committed before the other was enqueued are first for sure.
    """
    began: dict[int, float] = {}
    for entry in ledger.entries:
        began[entry.job_id] = min(entry.began, began.get(entry.job_id, entry.began))
    groups: dict[str | None, list[tuple[int, Made]]] = collections.defaultdict(list)
    for job_id, made in sorted(ledger.accepted.items()):
        groups[made.group].append((job_id, made))
    return [
        (first, later)
        for jobs in groups.values()
        for at, (later, later_made) in enumerate(jobs)
        if later in began
        for first, first_made in jobs[:at]
        if first_made.done < later_made.sent
        # one that ended without the ledger's knowing was asked to stop, and reaped
        and ledger.over.get(first, began.get(first, 0.0)) > began[later]
    ]


async def test_f018_f019_three_of_a_group_at_a_time(db: str) -> None:
    ledger = Ledger(db, "group_limit => 3", groups=True)
    books = await ledger.run(LIMITS_S)
    check_books(ledger, books)
    assert max(most_at_once(group) for group in by_group(ledger.entries).values()) == 3


async def test_no_window_holds_more_starts_of_a_group_than_its_rate(db: str) -> None:
    ledger = Ledger(
        db, "group_rate => 3, group_period => '0.3 s', group_limit => 2", groups=True, backlog=150
    )
    books = await ledger.run(LIMITS_S)
    check_books(ledger, books)
    groups = by_group(ledger.entries)
    assert max(most_at_once(group) for group in groups.values()) == 2
    assert min(shortest_window(group, 4) for group in groups.values()) >= 0.3


async def test_a_big_tenant_does_not_hold_up_the_small_ones(db: str) -> None:
    """1,500 jobs of one group wait already: of them go before a job of another group no more than
    its turn and what the leases under way can have in their hands. A job is waited for until the
    lease that gives it is asked for: how long a session takes to answer, a new one above all, is
    no matter of turns.
    """
    ledger = Ledger(db, "fair => true", groups=True, big=1500)
    books = await ledger.run(LIMITS_S)
    check_books(ledger, books)
    first: dict[int, Entry] = {}
    for entry in ledger.entries:
        first.setdefault(entry.job_id, entry)
    big = sorted(entry.began for entry in first.values() if entry.group == "g0")
    assert len(big) >= 1000
    overtaken = [
        sum(made.done < at < first[job_id].sent for at in big)
        for job_id, made in ledger.accepted.items()
        if made.group != "g0" and job_id in first
    ]
    assert len(overtaken) > 50
    assert max(overtaken) <= 100


# --- a seat that is kept while its job waits


async def wait_with_seats(conn: Connection, n: int) -> None:
    """So many jobs of a paced group that wait for their next start and keep their seats."""
    await conn.execute(
        "select batchq.set_queue('q', group_limit => %s, group_retry => 'hold',"
        " group_rate => %s, group_period => '1 h')",
        (n, n),
    )
    for _ in range(n):
        await conn.execute("select batchq.enqueue('k', queue => 'q', group_key => 'g')")
    await conn.execute("select batchq.release(job_id, lease_id) from batchq.lease('q', 9)")
    assert await every(conn, "select * from batchq.lease('q', 9)") == []
    assert await one(conn, "select count(*) from batchq.blocked where ties & 8 <> 0") == (n,)


async def test_jobs_with_seats_start_once_starts_are_no_longer_limited(conn: Connection) -> None:
    await wait_with_seats(conn, 2)
    await conn.execute("select batchq.set_queue('q', clear => '{group_rate}')")
    assert len(await every(conn, "select * from batchq.lease('q', 9)")) == 2


async def test_jobs_with_seats_start_though_the_limit_was_lowered_below_them(
    conn: Connection,
) -> None:
    await wait_with_seats(conn, 2)
    await conn.execute("select batchq.set_queue('q', group_limit => 1, group_rate => 9)")
    held = await every(conn, "select job_id, lease_id from batchq.lease('q', 9)")
    assert len(held) == 1
    await conn.execute("select batchq.complete(%s, %s)", held[0])
    assert len(await every(conn, "select * from batchq.lease('q', 9)")) == 1
