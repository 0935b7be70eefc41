"""When a worker looks again, by our own clock and without a doorbell."""

from __future__ import annotations

import pytest

from pybatchq import lookout
from pybatchq.lookout import BEHIND_EVERY_S, BEHIND_MOVING_S, Lookout


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    ours = Clock()
    monkeypatch.setattr(lookout, "monotonic", ours)
    return ours


def made(poll_s: float = 10.0) -> Lookout:
    return Lookout(None, poll_s, lambda: None)


async def found(
    looks: Lookout, clock: Clock, useful: int = 0, *, is_blocked: bool = False
) -> float:
    """A look that found ten jobs; for how long none is due after it."""
    looks.begin()
    await looks.after(10, useful, None, is_blocked=is_blocked)
    return max(0.0, looks.look_at - clock.now)


async def test_pauses_grow_while_nothing_but_full_kinds_is_found(clock: Clock) -> None:
    looks = made()
    pauses = []
    for _ in range(12):
        pauses.append(await found(looks, clock, is_blocked=True))
        assert looks.behind == 0
        clock.now += pauses[-1]
        assert looks.behind == len(pauses)  # further each time
    assert pauses[0] == pytest.approx(0.01)
    assert pauses == sorted(pauses)
    assert pauses[-1] == pytest.approx(BEHIND_EVERY_S)


async def test_a_job_that_can_run_ends_a_pause_and_the_next_begins_short(clock: Clock) -> None:
    looks = made()
    for _ in range(5):
        clock.now += await found(looks, clock, is_blocked=True)
    assert await found(looks, clock, useful=1, is_blocked=True) == 0
    assert looks.behind == 0
    assert await found(looks, clock, is_blocked=True) == pytest.approx(0.01)


async def test_a_kind_that_takes_some_meanwhile_neither_ends_nor_prolongs_a_pause(
    clock: Clock,
) -> None:
    looks = made()
    for _ in range(12):
        clock.now += await found(looks, clock, is_blocked=True)
    await found(looks, clock)
    assert await found(looks, clock, is_blocked=True) == pytest.approx(BEHIND_MOVING_S)
    for _ in range(4):
        clock.now += 0.1
        assert await found(looks, clock) == 0  # at once: it may take more
        assert looks.behind == 0
        left = await found(looks, clock, is_blocked=True)
    assert left == pytest.approx(0.1)
    clock.now += left
    assert looks.behind == 13


async def test_a_pause_is_never_longer_than_a_poll(clock: Clock) -> None:
    looks = made(poll_s=0.03)
    for _ in range(8):
        pause_s = await found(looks, clock, is_blocked=True)
        clock.now += pause_s
    assert pause_s == pytest.approx(0.03)


async def test_nothing_at_all_ends_the_looks_behind(clock: Clock) -> None:
    looks = made()
    for _ in range(5):
        clock.now += await found(looks, clock, is_blocked=True)
    await looks.after(0, 0, None)
    assert looks.look_at == clock.now + 10.0
    assert looks.behind == 0
