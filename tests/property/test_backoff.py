"""The wait before the next attempt: its bound as a function, and its spread over many jobs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.profiles import LONG, profile

Session = psycopg.Connection[tuple[Any, ...]]

BOUNDS = """
    select array_agg(batchq._backoff_bound(n, %(backoff)s, %(base)s * interval '1 microsecond',
                                           %(factor)s, %(cap)s * interval '1 microsecond')
                     order by n)
    from generate_series(0, 5000) n"""
YEAR = 365 * 86_400 * 1_000_000
# a Kolmogorov–Smirnov distance times sqrt(n) above this has a probability of 0.01
KS_AT_0_01 = 1.6276
FIXED_CLOCK = """
    create or replace function batchq._now() returns timestamptz language sql volatile
    return timestamptz '2030-01-01 00:00:00+00' + current_setting('test.later')::interval"""
WAITS = """
    select extract(epoch from s.run_at - batchq._now())::double precision
    from batchq.scheduled s where s.queue = %s"""


@pytest.fixture
def session(db: str) -> Iterator[Session]:
    """A session under a clock that stands still but for `later`."""
    with psycopg.connect(db) as conn:
        conn.autocommit = True
        conn.execute("set test.later to '0 s'")
        conn.execute(FIXED_CLOCK)
        yield conn


def later(session: Session, seconds: float) -> None:
    """Let so many seconds pass."""
    session.execute(
        "select set_config('test.later',"
        " (current_setting('test.later')::interval + %s * interval '1 s')::text, false)",
        [seconds],
    )


def waits(session: Session, queue: str) -> list[float]:
    return sorted(wait for (wait,) in session.execute(WAITS, [queue]))


def enqueue(session: Session, queue: str, n: int, options: str) -> None:
    session.execute(
        f"select count(batchq.enqueue('k', queue => %s, {options}))"
        " from generate_series(1, %s)".encode(),
        [queue, n],
    )


def fail_all(session: Session, queue: str, n: int) -> None:
    lost = session.execute(
        "select f.* from (select array_agg(l.job_id) as jobs, array_agg(l.lease_id) as leases,"
        " array_agg('e'::text) as errors from batchq.lease(%s, %s) l) l"
        " cross join lateral batchq.fail_many(l.jobs, l.leases, l.errors) f",
        [queue, n],
    ).fetchall()
    assert lost == []


def gaps(session: Session, queue: str, attempts: int) -> list[float]:
    """Each wait of one job that keeps failing, as seen beforehand in the view (A-18)."""
    seen = []
    for _ in range(attempts):
        fail_all(session, queue, 1)
        query = "select available_at - batchq._now() from batchq.jobs where queue = %s"
        (wait,) = session.execute(query, [queue]).fetchall()[0]
        seen.append(wait.total_seconds())
        later(session, wait.total_seconds())
    return seen


def is_uniform(sample: Sequence[float], top: float) -> bool:
    """The one-sample Kolmogorov–Smirnov test against the uniform distribution on [0, top]."""
    n = len(sample)
    distance = max(
        max((place + 1) / n - value / top, value / top - place / n)
        for place, value in enumerate(sorted(sample))
    )
    return distance * math.sqrt(n) < KS_AT_0_01


def test_the_uniformity_test_tells_uniform_from_other() -> None:
    even = [(place + 0.5) / 2000 for place in range(2000)]
    assert is_uniform(even, 1)
    assert not is_uniform([value**1.2 for value in even], 1)
    assert not is_uniform([value * 0.95 for value in even], 1)


@pytest.mark.timeout(0 if LONG else 60)
def test_f068_bound_never_falls_and_ends_at_the_cap(session: Session) -> None:
    @profile(short=40, long=3000)
    @given(
        backoff=st.sampled_from(["exponential", "fixed"]),
        base=st.one_of(st.sampled_from([0, 1, 10_000_000, YEAR]), st.integers(0, YEAR)),
        factor=st.one_of(
            st.sampled_from([1.0, math.nextafter(1, 2), 1.0001, 1.5, 2.0, 100.0]),
            st.floats(1, 100),
        ),
        cap=st.one_of(st.sampled_from([0, 1, 3600_000_000, YEAR]), st.integers(0, YEAR)),
    )
    def search(backoff: str, base: int, factor: float, cap: int) -> None:
        arguments = {"backoff": backoff, "base": base, "factor": factor, "cap": cap}
        row = session.execute(BOUNDS, arguments).fetchone()
        assert row is not None
        check_bounds(row[0], backoff, base / 1e6, factor, cap / 1e6)

    search()


def check_bounds(bounds: list[float], backoff: str, base: float, factor: float, cap: float) -> None:
    """`bounds` are those of attempts 0 … 5,000, in seconds; so are base and cap."""
    first = min(base, cap)
    assert all(math.isfinite(bound) and 0 <= bound <= cap for bound in bounds)
    assert bounds[0] == bounds[1] == pytest.approx(first)
    assert all(after >= before * (1 - 1e-12) for before, after in pairwise(bounds))
    if backoff == "fixed" or base == 0:
        assert set(bounds) == {bounds[0]}
    elif first > 0:
        assert all(bound > 0 for bound in bounds)
        for attempt in (2, 3, 10, 100, 1000, 5000):
            power = math.log(base) + (attempt - 1) * math.log(factor)
            expected = cap if power >= math.log(cap) else math.exp(power)
            assert bounds[attempt] == pytest.approx(expected, rel=1e-6)
        if factor > 1.01:
            assert bounds[-1] == pytest.approx(cap)


def test_b33_waits_of_2000_failures_are_uniform(session: Session) -> None:
    """Full jitter, one draw a job: within [0, b], mean b/2 ± 5 %, uniform at p > 0.01."""
    session.execute("select setseed(0.42)")
    enqueue(session, "q", 2000, "backoff_base => '8 s'")
    fail_all(session, "q", 2000)
    drawn = waits(session, "q")
    assert len(set(drawn)) > 1990
    assert drawn[0] >= 0
    assert drawn[-1] <= 8
    assert sum(drawn) / 2000 == pytest.approx(4, rel=0.05)
    assert is_uniform(drawn, 8)


def test_b33_bound_doubles_up_to_the_cap(session: Session) -> None:
    """Attempt n of many jobs waits at most min(cap, b·2^(n−1)), and some wait nearly so long."""
    session.execute("select setseed(0.42)")
    enqueue(session, "q", 500, "max_attempts => 9, backoff_base => '8 s', backoff_cap => '20 s'")
    for bound in (8, 16, 20, 20):
        fail_all(session, "q", 500)
        drawn = waits(session, "q")
        assert bound * 0.95 < drawn[-1] <= bound
        assert is_uniform(drawn, bound)
        later(session, 20)


@pytest.mark.parametrize("by", ["fail_many", "reap"])
def test_f069_no_second_holds_more_than_a_twentieth(session: Session, by: str) -> None:
    """1,000 jobs that fail, or are reaped, together do not come back together (F012, F069)."""
    session.execute("select setseed(0.42)")
    enqueue(session, "q", 1000, "backoff_base => '60 s', backoff_cap => '40 s'")
    if by == "reap":
        session.execute("select count(*) from batchq.lease('q', 1000, lease_for => '1 s')")
        later(session, 10)
        assert session.execute("select batchq.reap(1000)").fetchone() == (1000,)
    else:
        fail_all(session, "q", 1000)
    drawn = waits(session, "q")
    assert len(drawn) == 1000
    assert drawn[0] >= 0
    assert drawn[-1] <= 40
    assert max(Counter(int(wait) for wait in drawn).values()) <= 50
    assert is_uniform(drawn, 40)


def test_a18_exponential_without_jitter_is_exact(session: Session) -> None:
    options = (
        "backoff => 'exponential', backoff_base => '1 s', backoff_jitter => 'none',"
        " max_attempts => 4"
    )
    enqueue(session, "q", 1, options)
    assert gaps(session, "q", 3) == [1, 2, 4]
    fail_all(session, "q", 1)
    assert waits(session, "q") == []


@pytest.mark.parametrize("by", ["job", "queue"])
def test_a19_fixed_is_exact(session: Session, by: str) -> None:
    if by == "queue":
        session.execute("select batchq.set_queue('q', backoff => 'fixed', backoff_base => '10 s')")
        enqueue(session, "q", 1, "max_attempts => 4")
    else:
        enqueue(session, "q", 1, "max_attempts => 4, backoff => 'fixed', backoff_base => '10 s'")
    assert gaps(session, "q", 3) == [10, 10, 10]


def test_f070_a_retry_waits_the_backoff_and_not_the_first_delay(session: Session) -> None:
    enqueue(session, "q", 1, "delay => '10 s', backoff_base => '1 s', backoff_jitter => 'none'")
    later(session, 10)
    fail_all(session, "q", 1)
    assert waits(session, "q") == [1]


@pytest.mark.parametrize("asked", ["0.5 s", "7 s", "2 hours", "40 days"])
def test_f069_retry_in_is_never_cut_short(session: Session, asked: str) -> None:
    """A wait that was asked for stands instead of the backoff, also above its cap."""
    enqueue(session, "q", 50, "backoff_base => '1 s', backoff_cap => '2 s'")
    session.execute(
        "select f.state from batchq.lease('q', 50) l"
        " cross join lateral batchq.fail(l.job_id, l.lease_id, 'e', retry_in => %s::interval)"
        " as f(state)",
        [asked],
    )
    (least,) = session.execute("select extract(epoch from %s::interval)", [asked]).fetchall()[0]
    assert waits(session, "q") == [float(least)] * 50
