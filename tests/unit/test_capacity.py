"""Slots: which leased job starts, waits or goes back, and how many are wanted, by our own clock."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from pybatchq import capacity
from pybatchq.attempts import Attempt
from pybatchq.capacity import (
    AWAY_LEAST_S,
    AWAY_MOST_S,
    HOLD_S,
    MAX_BATCH,
    UNKNOWN_KIND_CAP_S,
    Slots,
    UnknownKinds,
)
from pybatchq.handlers import Registry, RunsIn
from pybatchq.job import Job
from pybatchq.types import JobId, LeaseId, WorkItem


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def pass_(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    ours = Clock()
    monkeypatch.setattr(capacity, "monotonic", ours)
    monkeypatch.setattr("pybatchq.attempts.monotonic", ours)
    return ours


@pytest.fixture
def registry() -> Registry:
    made = Registry()

    @made.handler("free")
    async def free(_payload: Any) -> None: ...

    @made.handler("two", concurrency=2)
    async def two(_payload: Any) -> None: ...

    for kind in ("process", "other process"):
        made.handler(kind, runs_in="process")(process)
    made.handler("one process", runs_in="process", concurrency=1)(process)
    return made


def process(_payload: Any) -> None: ...


class Made:
    """Attempts whose leases rise, as a worker makes them."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._leases = 0

    def __call__(self, kind: str = "free") -> Attempt:
        self._leases += 1
        item = WorkItem(
            event="leased", job_id=JobId(self._leases), lease_id=LeaseId(self._leases),
            lease_s=60.0, queue="default", kind=kind, payload=b"{}", attempt=1, max_attempts=3,
            timeout_s=None, headers=None,
        )  # fmt: skip
        return Attempt(item, self._registry.by_kind[kind], Job(item, 0, lambda _i, _t: None))


@pytest.fixture
def made(clock: Clock, registry: Registry) -> Made:
    return Made(registry)


def slots(concurrency: int, *, processes: int = 2, prefetch_s: float = 0.0) -> Slots:
    return Slots(concurrency, processes=processes, prefetch_s=prefetch_s)


def test_b02_a_job_starts_while_there_is_a_slot_and_then_waits_its_turn(made: Made) -> None:
    some = slots(2)
    first, second, third, fourth = (made() for _ in range(4))
    places = [some.place(attempt) for attempt in (first, second, third, fourth)]
    assert places == ["start", "start", "wait", "wait"]
    assert (some.busy, list(some.waiting())) == (2, [third, fourth])
    assert some.ended(second) is third
    assert some.ended(first) is fourth
    assert some.ended(third) is None
    assert (some.busy, list(some.waiting())) == (1, [])


def put_backs(places: list[Any]) -> list[float]:
    return [place for place in places if isinstance(place, float)]


def run_one(some: Slots, made: Made, clock: Clock, seconds: float) -> None:
    """A job of the kind with two slots, from start to end, so that its time is known."""
    attempt = made("two")
    assert some.place(attempt) == "start"
    clock.pass_(seconds)
    some.ended(attempt)


def test_a_kind_with_a_limit_starts_no_more_and_leaves_the_rest_to_others(
    made: Made, clock: Clock
) -> None:
    some = slots(10)
    run_one(some, made, clock, 1.0)
    places = [some.place(made("two")) for _ in range(50)]
    assert places[:2] == ["start"] * 2
    assert "start" not in places[2:]
    assert 1 <= places.count("wait") <= 5
    assert len(put_backs(places)) == 48 - places.count("wait")
    assert some.busy == 2
    assert [some.place(made()) for _ in range(8)] == ["start"] * 8


def test_nothing_is_put_back_before_it_is_known_that_a_kind_takes_long(
    made: Made, clock: Clock
) -> None:
    """A process takes a while to start, and then it may be quick."""
    some = slots(10)
    places = [some.place(made("process")) for _ in range(100)]
    assert places == ["start"] * 2 + ["wait"] * 98
    clock.pass_(10.0)  # none of them has ended
    (away,) = put_backs([some.place(made("process"))])
    assert away > 1


@pytest.mark.parametrize("seconds", [0.01, 0.5, 2.0])
def test_each_that_is_put_back_stays_away_until_it_is_its_turn(
    made: Made, clock: Clock, seconds: float
) -> None:
    """What is put back comes again at the pace of its kind, so that it is never without work."""
    some = slots(10)
    for _ in range(100):
        run_one(some, made, clock, seconds)
    places = [some.place(made("two")) for _ in range(500)]
    away = put_backs(places)
    assert away == sorted(away)
    # half of those that wait have left by then
    assert away[0] == pytest.approx((places.count("wait") / 2 + 1) * seconds / 2, rel=0.1)
    gaps = [b - a for a, b in itertools.pairwise(away) if b < AWAY_MOST_S]
    assert gaps == [pytest.approx(seconds / 2, rel=0.1)] * len(gaps)
    assert max(away) <= AWAY_MOST_S


def test_few_wait_here_of_a_kind_that_takes_long_and_many_of_one_that_is_quick(
    made: Made, clock: Clock
) -> None:
    waits = []
    for seconds in (0.001, 0.1, 5.0):
        some = slots(10)
        for _ in range(100):
            run_one(some, made, clock, seconds)
        waits.append([some.place(made("two")) for _ in range(1000)].count("wait"))
        # about what will start before others could do better
        assert waits[-1] * seconds / 2 < 0.5 or waits[-1] <= 3
    assert waits[0] > waits[1] > waits[2] >= 1


def test_those_that_come_again_and_start_are_away_no_more(made: Made, clock: Clock) -> None:
    some = slots(10)
    for _ in range(100):
        run_one(some, made, clock, 1.0)
    attempts = [made("two") for _ in range(20)]
    places = [some.place(attempt) for attempt in attempts]
    running = attempts[:2]
    while running:  # and then those that wait
        running[0].since = clock.now
        clock.pass_(1.0)
        following = some.ended(running.pop(0))
        running += [] if following is None else [following]
    for _ in put_backs(places):
        run_one(some, made, clock, 1.0)
    assert put_backs([some.place(made("two")) for _ in range(20)]) == pytest.approx(
        put_backs(places), rel=0.01
    )


def test_the_shortest_and_the_longest_time_away_are_bounded(made: Made, clock: Clock) -> None:
    some = slots(10)
    for _ in range(200):
        run_one(some, made, clock, 0.0)
    places = [some.place(made("two")) for _ in range(10_000)]
    assert places.count("wait") == MAX_BATCH
    assert AWAY_LEAST_S <= min(put_backs(places)) <= max(put_backs(places)) <= AWAY_MOST_S
    slow = slots(10)
    for _ in range(100):
        run_one(slow, made, clock, 3600.0)
    assert set(put_backs([slow.place(made("two")) for _ in range(20)])) == {AWAY_MOST_S}


def test_before_anything_is_known_of_a_kind_its_jobs_wait_and_then_stay_away_for_longer(
    made: Made, clock: Clock
) -> None:
    """A process needs a moment to start; a job that then goes on and on tells that it is slow."""
    some = slots(10)
    places = [some.place(made("two")) for _ in range(102)]
    assert places == ["start"] * 2 + ["wait"] * 100
    clock.pass_(3.0)
    assert [some.place(made("two")) for _ in range(2)] == pytest.approx([3.0, 3.0])
    clock.pass_(9.0)
    assert some.place(made("two")) == AWAY_MOST_S


def test_what_a_process_needs_to_start_is_not_taken_for_the_time_of_its_jobs(
    made: Made, clock: Clock
) -> None:
    some = slots(10)
    running = [made("process"), made("process")]
    assert [some.place(attempt) for attempt in running] == ["start"] * 2
    clock.pass_(0.4)
    for _ in range(3):  # the last has a process that is there
        some.ended(running.pop(0))
        running.append(made("process"))
        assert some.place(running[-1]) == "start"
        clock.pass_(0.001)
    assert [some.place(made("process")) for _ in range(200)] == ["wait"] * 200


def full(some: Slots, made: Made, clock: Clock) -> list[Attempt]:
    """A kind of 0.01 s with two slots has all that may wait. Those that run."""
    for _ in range(100):
        run_one(some, made, clock, 0.01)
    running = [made("two"), made("two")]
    assert [some.place(attempt) for attempt in running] == ["start"] * 2
    while some.place(made("two")) == "wait":
        pass
    return running


def end_one(some: Slots, running: list[Attempt], clock: Clock) -> None:
    running[0].since = clock.now
    clock.pass_(0.01)
    following = some.ended(running.pop(0))
    running += [] if following is None else [following]


def test_a_kind_that_was_full_takes_none_until_half_of_those_that_waited_have_started(
    made: Made, clock: Clock
) -> None:
    """Each that is put back costs two writes: so many at once, not one by one."""
    some = slots(10)
    running = full(some, made, clock)
    waited = len(list(some.waiting()))
    while not some.is_hungry:
        assert isinstance(some.place(made("two")), float)
        end_one(some, running, clock)
    left = len(list(some.waiting()))
    assert left == pytest.approx(waited / 2, abs=2)
    places = [some.place(made("two")) for _ in range(waited)]
    assert places.count("wait") == pytest.approx(waited - left, abs=2)


def test_it_is_told_once_that_a_full_kind_has_room_again(made: Made, clock: Clock) -> None:
    some = slots(10)
    running = full(some, made, clock)
    while not some.is_hungry:
        end_one(some, running, clock)
    some.is_hungry = False  # somebody looked
    while running:
        end_one(some, running, clock)
    assert not some.is_hungry


def test_a_slow_kind_is_hungry_when_a_slot_becomes_free(made: Made, clock: Clock) -> None:
    some = slots(10)
    run_one(some, made, clock, 5.0)
    running = [made("two"), made("two")]
    places = [some.place(attempt) for attempt in [*running, *(made("two") for _ in range(5))]]
    assert places[:2] == ["start"] * 2
    clock.pass_(HOLD_S + 0.1)
    assert len(some.overdue()) == places.count("wait")
    assert not some.is_hungry  # nobody would run what it finds
    clock.pass_(4.0)
    assert some.ended(running[0]) is None
    assert some.is_hungry


def test_while_there_is_but_one_kind_no_more_is_wanted_than_may_wait_of_it(
    made: Made, clock: Clock
) -> None:
    some = slots(100)
    for _ in range(100):
        run_one(some, made, clock, 0.01)
    assert not some.expects_full()
    asked = 0
    while not some.expects_full():
        asked += (wanted := some.wanted())
        assert [some.place(made("two")) for _ in range(wanted)].count("wait") >= wanted - 2
    assert asked < 50  # the bound of this kind, though there are 98 slots
    assert some.wanted(useless=3) >= 100  # to look behind them is another matter
    some.place(made())
    assert not some.expects_full()
    assert some.wanted() == 50


def test_with_all_slots_busy_no_more_is_leased_than_is_wanted_ahead(
    made: Made, clock: Clock
) -> None:
    """What waits for its kind counts: it is the same slots that will run it."""
    some = slots(2, prefetch_s=0.1)
    some.measure()
    for _ in range(1000):
        run_one(some, made, clock, 0.001)
    some.measure()
    assert [some.place(made("two")) for _ in range(2)] == ["start"] * 2
    assert some.wanted() == 100
    for _ in range(40):
        assert some.place(made("two")) == "wait"
    assert not some.has_enough()
    assert some.wanted() == 60
    for _ in range(20):
        some.place(made("two"))
    assert some.has_enough()
    assert some.wanted() == 0  # not one by one


def test_those_that_wait_for_a_slow_kind_are_no_reason_to_lease_less_of_others(
    made: Made, clock: Clock
) -> None:
    """Of 30 that wait, 4 start within the 0.02 s for which 20 jobs are leased ahead."""
    some = slots(4, prefetch_s=0.02)
    run_one(some, made, clock, 0.01)
    work(some, made, clock, 1000, 1.0)
    running = [made("two"), made("two"), made(), made()]
    assert [some.place(attempt) for attempt in running] == ["start"] * 4
    assert [some.place(made("two")) for _ in range(30)] == ["wait"] * 30
    some.place(made())
    assert some.wanted() == pytest.approx(20 - 4 - 1, abs=1)
    assert not some.has_enough()


def test_who_waits_for_a_full_kind_is_passed_by_others_until_that_kind_has_room(
    made: Made,
) -> None:
    some = slots(3)
    running = [made("two"), made("two"), made()]
    limited, plain = made("two"), made()
    assert [some.place(attempt) for attempt in running] == ["start"] * 3
    assert [some.place(limited), some.place(plain)] == ["wait", "wait"]
    assert some.ended(running[2]) is plain
    assert some.ended(running[0]) is limited


def test_a13_of_those_that_may_run_the_one_that_was_leased_first_is_next(made: Made) -> None:
    some = slots(2)
    running = [made("two"), made("one process")]
    waiting = [made("one process"), made("two"), made()]
    assert [some.place(attempt) for attempt in running] == ["start"] * 2
    assert [some.place(attempt) for attempt in waiting] == ["wait"] * 3
    assert some.ended(running[0]) is waiting[1]
    assert some.ended(waiting[1]) is waiting[2]
    assert some.ended(running[1]) is waiting[0]


@pytest.mark.parametrize(
    ("kinds", "started"),
    [
        (["process", "other process", "process", "other process"], 2),
        (["one process"] * 3, 1),
        (["one process", "process", "process", "process"], 3),
    ],
    ids=["shared", "of its own", "apart"],
)
def test_process_handlers_share_the_processors_unless_they_have_a_limit(
    made: Made, kinds: list[str], started: int
) -> None:
    some = slots(10, processes=2)
    assert [some.place(made(kind)) for kind in kinds].count("start") == started


def test_half_of_the_slots_are_asked_for_at_once(made: Made) -> None:
    for concurrency, wanted in ((1, [1, 0]), (2, [1, 1, 0]), (5, [3, 2, 0]), (10, [5, 5, 0])):
        some = slots(concurrency)
        asked: list[int] = []
        while not asked or asked[-1]:
            asked.append(some.wanted())
            for _ in range(asked[-1]):
                some.place(made())
        assert asked == wanted


def test_no_more_is_asked_for_than_a_call_may_lease() -> None:
    assert slots(10_000).wanted() == MAX_BATCH
    assert slots(10_000).wanted(useless=100) == MAX_BATCH


def test_looks_that_find_only_what_cannot_run_look_further_each_time(made: Made) -> None:
    some = slots(4)
    looks = [some.wanted(useless) for useless in range(12)]
    assert looks == sorted(looks)
    assert looks[0] == 2
    assert looks[1] > 2
    assert 100 <= looks[-1] <= MAX_BATCH
    for _ in range(4):
        some.place(made())
    assert some.wanted(useless=12) == 0  # there is no slot for what it may find


def work(some: Slots, made: Made, clock: Clock, jobs: int, seconds: float) -> None:
    """So many jobs, one after another, in so many seconds."""
    some.measure()
    for _ in range(jobs):
        attempt = made()
        assert some.place(attempt) == "start"
        some.ended(attempt)
    clock.pass_(seconds)
    some.measure()


def test_what_will_start_soon_is_leased_ahead(made: Made, clock: Clock) -> None:
    some = slots(4, prefetch_s=0.1)
    assert some.wanted() == 2  # at first nothing is known
    work(some, made, clock, 1000, 1.0)
    assert some.wanted() == 100
    for _ in range(30):
        some.place(made())
    assert some.wanted() == 74  # 26 wait already
    work_of_before = list(some.waiting())
    assert len(work_of_before) == 26


def test_what_will_not_start_soon_is_not_leased_ahead(made: Made, clock: Clock) -> None:
    some = slots(4, prefetch_s=0.1)
    work(some, made, clock, 1000, 1.0)
    work(some, made, clock, 4, 1.0)  # the pace has dropped to 4 a second
    for _ in range(4):
        some.place(made())
    assert some.wanted() == 0


def test_without_prefetch_there_is_no_more_than_what_starts(made: Made, clock: Clock) -> None:
    some = slots(4, prefetch_s=0.0)
    work(some, made, clock, 100_000, 1.0)
    assert some.wanted() == 2
    for _ in range(4):
        assert some.place(made()) == "start"
    assert some.wanted() == 0


def test_the_pace_is_not_measured_over_moments(made: Made, clock: Clock) -> None:
    some = slots(4, prefetch_s=0.1)
    work(some, made, clock, 50, 0.0001)  # as if it were 500,000 a second
    assert some.wanted() == 2


def test_who_waits_for_too_long_is_overdue_once(made: Made, clock: Clock) -> None:
    some = slots(1)
    assert some.overdue_in_s() is None
    some.place(made("two"))
    assert some.overdue_in_s() is None
    early, limited = made(), made("two")
    some.place(early)
    some.place(limited)
    clock.pass_(0.4)
    late = made()
    some.place(late)
    assert some.overdue_in_s() == pytest.approx(HOLD_S - 0.4)
    assert some.overdue() == []
    clock.pass_(HOLD_S - 0.4 + 0.01)
    assert some.overdue_in_s() == 0
    (first, at_once), (second, later) = some.overdue()
    assert (first, at_once, second) == (early, None, limited)
    assert later is not None  # its kind is full here, and others may have it first
    assert later > 0
    assert list(some.waiting()) == [late]
    assert some.overdue() == []
    assert some.ended(early) is late


def test_of_a_full_kind_those_that_came_soon_after_go_along(made: Made, clock: Clock) -> None:
    some = slots(4)
    attempts = [made("two") for _ in range(4)]
    assert [some.place(one) for one in attempts[:3]] == ["start", "start", "wait"]
    clock.pass_(HOLD_S / 2 - 0.01)
    assert some.place(attempts[3]) == "wait"
    clock.pass_(HOLD_S / 2 + 0.02)
    assert [attempt for attempt, _ in some.overdue()] == attempts[2:]


def test_who_is_forgotten_does_not_start(made: Made) -> None:
    some = slots(1)
    running, cancelled, limited, last = made(), made(), made("two"), made()
    for attempt in (running, cancelled, limited, last):
        some.place(attempt)
    some.forget(cancelled)
    some.forget(limited)
    with pytest.raises(ValueError, match="not in deque"):
        some.forget(limited)
    assert some.ended(running) is last


def test_f079_a_kind_nobody_knows_stays_away_for_longer_each_time() -> None:
    unknown = UnknownKinds()
    waits = [unknown.put_back_s("new") for _ in range(20)]
    assert waits[0] == (1.0, True)
    assert not any(is_first for _, is_first in waits[1:])
    seconds = [wait for wait, _ in waits]
    assert seconds[:4] == [1, 2, 4, 8]
    assert seconds == sorted(seconds)
    assert seconds[-1] == UNKNOWN_KIND_CAP_S
    assert unknown.put_back_s("another") == (1.0, True)


@pytest.mark.parametrize("runs_in", ["loop", "thread"])
def test_a_kind_without_a_limit_has_all_slots(clock: Clock, runs_in: RunsIn) -> None:
    registry = Registry()
    if runs_in == "loop":

        @registry.handler("free")
        async def free(_payload: Any) -> None: ...
    else:

        @registry.handler("free")
        def free_in_thread(_payload: Any) -> None: ...

    some, new = slots(3, processes=1), Made(registry)
    assert [some.place(new()) for _ in range(4)] == ["start"] * 3 + ["wait"]
