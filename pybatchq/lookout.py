"""When a worker looks for jobs again: at once while there are some, else when something happens.

Awake means not parked: while jobs come, producers must not pay for NOTIFY. A worker that found
nothing parks (see listen), and looks again when something rings, when a scheduled job is due, or
when its poll interval ends.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from pybatchq.listen import Listener

SAFETY_LOOK_S = 240.0
SHORT_LOOK_S = 0.005
REPARK_S = 0.05
BEHIND_EVERY_S = 0.1
BEHIND_MOVING_S = 0.5


class Lookout:
    """Decides when to look for jobs. Times are of the monotonic clock."""

    def __init__(self, listener: Listener | None, poll_s: float, wake: Callable[[], None]) -> None:
        self._listener = listener
        self._poll_s = poll_s
        self._wake = wake
        self.look_at = 0.0  # 0: now
        self._rung = False
        self._woken = False  # whether the present look answers a ring
        self._vain = 0  # rings in a row that led to nothing, and when the last one was
        self._vain_at = 0.0
        self._empty_looks = 0
        self._blocked = 0  # pauses since a look found a job that can run here
        self._behind_at = 0.0  # when the present one ends
        self._is_moving = False  # whether a full kind took more since that one began
        self._asked_at = 0.0  # when the doorbell last answered, or was found dead
        self._unsure = 0  # looks since parking that may have missed a job

    def ring(self) -> None:
        """Something became ready: look as soon as there is a free slot."""
        self._rung = True
        self.look_at = 0.0
        self._wake()

    def begin(self) -> None:
        """A look begins; what rings from now on is for the next one."""
        self._woken, self._rung = self._rung, False

    @property
    def behind(self) -> int:
        """How far to look now beyond jobs that cannot run here; 0: not at all."""
        return self._blocked if monotonic() >= self._behind_at else 0

    async def after(
        self, got: int, useful: int, due_s: float | None, *, is_blocked: bool = False
    ) -> None:
        """A look found so many jobs, of which some start or will have the next slot.

        is_blocked: others were put back, or the next would be. due_s: until the next scheduled job
        is due, if any is.
        """
        if got:
            self._empty_looks = 0
            self._after_jobs(useful, is_blocked=is_blocked)
            if self._listener is not None:
                await self._listener.unpark()
            return
        self._blocked = 0
        self._empty_looks += 1
        if self._woken and self._rung_in_vain() and self._listener is not None:
            await self._listener.unpark()
            wait_s = REPARK_S
        else:
            wait_s = await self._sleep_s()
        if due_s is not None:
            # a due job that cannot be had (others hold it) must not make this loop spin
            wait_s = min(wait_s, max(due_s, self._growing_s(self._empty_looks)))
        self.look_at = 0.0 if self._rung else monotonic() + wait_s

    def _after_jobs(self, useful: int, *, is_blocked: bool) -> None:
        """Look again: at once, unless there is only what cannot run here.

        That must not make this loop spin, and each job we put back costs two writes. The pauses
        grow until there is a job that can run; a kind that has room again now and then is looked
        after meanwhile, and does not end a pause. Where it does have, the line in front moves by
        itself, and looking behind it is less urgent.
        """
        self.look_at = 0.0
        if useful:
            self._blocked = 0
        elif not is_blocked:
            self._is_moving = True
        else:
            now = monotonic()
            if not self._blocked or now >= self._behind_at:
                self._blocked += 1
                most_s = BEHIND_MOVING_S if self._is_moving else BEHIND_EVERY_S
                self._behind_at = now + min(most_s, self._growing_s(self._blocked))
                self._is_moving = False
            self.look_at = self._behind_at

    def _rung_in_vain(self) -> bool:
        """Whether others are faster again and again: producers should not ring for us then."""
        now = monotonic()
        self._vain = self._vain + 1 if now - self._vain_at < REPARK_S else 1
        self._vain_at = now
        return self._vain >= 3

    async def _sleep_s(self) -> float:
        """How long to sleep if no scheduled job is due before. Parks when there is a doorbell."""
        if self._listener is None:
            return self._poll_s
        if not self._listener.parked:
            if not await self._listener.park():
                return self._poll_s
            self._unsure = 1
        elif not self._unsure and monotonic() < self._asked_at + SAFETY_LOOK_S / 2:
            return SAFETY_LOOK_S
        # asked before the look that decides: what is under way then may have missed the parking,
        # what comes later rings
        self._asked_at = monotonic()
        pending = await self._listener.bell_pending()
        self._unsure = self._unsure + 1 if pending else 0
        return self._growing_s(self._unsure) if pending else 0.0

    def _growing_s(self, times: int) -> float:
        return min(self._poll_s, SHORT_LOOK_S * 2.0 ** min(times, 16))
