"""The attempts a worker has in hand: from the lease to the outcome, wherever they run.

A leased job is started, or waits for a slot, or is handed back. At its end its outcome waits to be
settled and its slot goes to the next. A job can be told to stop at any time between; what does not
listen is given up.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Literal, NamedTuple

from pybatchq import attempts, endings, tracing
from pybatchq.attempts import Attempt
from pybatchq.capacity import Slots, UnknownKinds
from pybatchq.children import Children, check
from pybatchq.endings import Ending, Stop
from pybatchq.handlers import Registry
from pybatchq.job import Job, SaveProgress
from pybatchq.metrics import WorkerMetrics
from pybatchq.outcomes import Outcomes
from pybatchq.types import WorkItem

SPARE_THREADS = 32

log = logging.getLogger("pybatchq")


class Taken(NamedTuple):
    """What became of leased jobs.

    useful: how many start, or will have the next slot. put_back: how many cannot run here now. The
    rest wait for their kind.
    """

    useful: int
    put_back: int


class Crew:
    """Runs what was leased. All of it belongs to the worker's event loop.

    wake: called when an outcome waits to be settled. stuck: called when a handler was given up.
    """

    def __init__(
        self,
        registry: Registry,
        slots: Slots,
        outcomes: Outcomes,
        metrics: WorkerMetrics,
        *,
        jobs_per_process: int,
        wake: Callable[[], None],
        stuck: Callable[[], None],
    ) -> None:
        self.running: dict[int, Attempt] = {}  # by lease, those that wait for a slot included
        self.slots = slots
        self._registry = registry
        self._outcomes = outcomes
        self._metrics = metrics
        self._wake = wake
        self._stuck = stuck
        self._unknown = UnknownKinds()
        self._given_up: set[asyncio.Task[None]] = set()
        self._is_leaving = False
        self._is_traced = False
        self._tells_all = False
        self._uuids = 0
        self._expect: Callable[[Attempt], None] = _nobody
        self._jobs_per_process = jobs_per_process
        self._save: SaveProgress = _nowhere
        self._threads = ThreadPoolExecutor(
            2 * slots.concurrency + SPARE_THREADS, thread_name_prefix="batchq"
        )
        self._children: Children | None = None

    @property
    def busy(self) -> int:
        """How many handlers run now, those that were given up included."""
        return self.slots.busy + len(self._given_up)

    @property
    def idle_processes(self) -> int:
        """How many processes wait for a job."""
        return 0 if self._children is None else self._children.idle

    def check(self) -> None:
        """TypeError for the first handler that cannot work."""
        self._registry.resolve()
        for handler in self._registry.by_kind.values():
            check(handler)

    def begin(self, uuids: int, save: SaveProgress, expect: Callable[[Attempt], None]) -> None:
        """uuids: see Job. save, expect: the heartbeat's."""
        self._uuids, self._save, self._expect = uuids, save, expect
        self._children = Children(
            save, metrics=self._metrics, jobs_per_child=self._jobs_per_process
        )
        self._is_traced = tracing.is_on()
        self._tells_all = log.isEnabledFor(logging.DEBUG)

    async def close(self) -> None:
        """Leave what still runs: its leases will run out."""
        for attempt in self.running.values():
            if attempt.task is not None and attempt.handler.is_async:
                attempt.task.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)
        if self._children is not None:
            await self._children.close(now=True)

    def take(self, items: Iterable[WorkItem]) -> Taken:
        """Leased jobs: start them, keep them until there is a slot, or hand them back."""
        useful = put_back = 0
        for item in items:
            handler = self._registry.by_kind.get(item.kind)
            if self._is_leaving:  # told to while the call was under way
                self._outcomes.release(item)
            elif handler is None:
                put_back += 1
                self._refuse(item)
            else:
                place = self._place(Attempt(item, handler, Job(item, self._uuids, self._save)))
                if place == "start" or (place == "wait" and not self.slots.is_limited(handler)):
                    useful += 1
                elif place != "wait":
                    put_back += 1
        return Taken(useful, put_back)

    def leave(self) -> None:
        """Take nothing more; what waits for a slot goes back at once."""
        self._is_leaving = True
        for attempt in list(self.slots.waiting()):
            self.slots.forget(attempt)
            self._hand_back(attempt, None)

    def cut_short(self) -> None:
        """The grace period is over: what runs is to stop and goes back."""
        for attempt in list(self.running.values()):
            attempt.cancel("shutdown")

    def hand_back_overdue(self) -> None:
        """Jobs that have waited for a slot for too long: others may have one."""
        for attempt, delay_s in self.slots.overdue():
            self._hand_back(attempt, delay_s)

    def stop(self, attempt: Attempt, why: Stop) -> None:
        """The database says that a job is to stop, or is lost."""
        if why == "lost":
            self._metrics.lost += 1
            item = attempt.item
            log.warning(
                "handler told to stop: the lease was lost",
                extra={"job_id": item.job_id, "lease_id": item.lease_id, "kind": item.kind},
            )
        if attempt.started:
            attempt.cancel(why)
        elif self.running.pop(attempt.item.lease_id, None) is not None:
            self.slots.forget(attempt)
            stopped = endings.after_stop(endings.STOPPED, why, attempt.item.timeout_s, "loop")
            self._outcomes.add(attempt.item, stopped)
            self._wake()

    def give_up(self, attempt: Attempt) -> None:
        """A handler does not end when it is told to: others get its slot, its lease runs out."""
        item = attempt.item
        if attempt.handler.runs_in == "process" or item.lease_id not in self.running:
            return  # a process is killed
        log.error(
            "handler does not stop: its slot is given to others",
            extra={"kind": item.kind, "job_id": item.job_id, "reason": attempt.stop},
        )
        self._metrics.given_up += 1
        del self.running[item.lease_id]
        if attempt.task is not None:
            self._given_up.add(attempt.task)
            attempt.task.add_done_callback(self._given_up.discard)
        self._pass_on(attempt)
        self._stuck()

    def _place(self, attempt: Attempt) -> Literal["start", "wait"] | float:
        place = self.slots.place(attempt)
        if isinstance(place, float):
            self._outcomes.release(attempt.item, place)
            self._wake()
            return place
        self.running[attempt.item.lease_id] = attempt
        self._expect(attempt)
        if place == "start":
            self._start(attempt)
        return place

    def _refuse(self, item: WorkItem) -> None:
        """A kind without a handler here: for others, and not at once again for us."""
        self._metrics.unknown_kinds += 1
        delay_s, is_first = self._unknown.put_back_s(item.kind)
        if is_first:
            log.warning(
                "no handler for this kind: its jobs are put back",
                extra={"kind": item.kind, "queue": item.queue},
            )
        self._outcomes.release(item, delay_s)
        self._wake()

    def _start(self, attempt: Attempt) -> None:
        attempt.started = True
        attempt.since = monotonic()
        # one task a job, and no more; kept in the attempt
        attempt.task = asyncio.get_running_loop().create_task(self._run(attempt))

    async def _run(self, attempt: Attempt) -> None:
        item = attempt.item
        if self._is_traced:
            ending = await self._run_traced(attempt)
        else:
            ending = await attempts.run(attempt, self._elsewhere)
        if self.running.pop(item.lease_id, None) is None:
            self._came_late(attempt)
            return
        self._outcomes.add(item, ending)
        self._note(attempt, ending)
        self._pass_on(attempt)

    def _came_late(self, attempt: Attempt) -> None:
        """It was given up and has ended now: its result is dropped, its job need not wait more.

        The database refuses this if the job is another's by now.
        """
        ending = endings.after_stop(
            endings.STOPPED, attempt.stop, attempt.item.timeout_s, attempt.handler.runs_in
        )
        self._outcomes.add(attempt.item, ending)
        self._wake()

    def _pass_on(self, attempt: Attempt) -> None:
        """Its slot goes to the next."""
        following = self.slots.ended(attempt)
        if following is not None:
            self._start(following)
        self._wake()

    async def _run_traced(self, attempt: Attempt) -> Ending:
        item = attempt.item
        span = tracing.attempt_span(
            item.kind, item.queue, item.job_id, item.attempt, attempt.job.headers
        )
        with span or contextlib.nullcontext() as current:
            ending = await attempts.run(attempt, self._elsewhere)
            if current is not None and ending.event == "failed":
                tracing.failed(current, ending.what)
        return ending

    async def _elsewhere(self, attempt: Attempt) -> Ending:
        """Run a plain function's handler: in a thread or in a process."""
        if attempt.handler.runs_in == "process" and self._children is not None:
            return await self._children.run(attempt)
        call = functools.partial(
            attempts.run_here, attempt.handler, attempt.job, attempt.item.payload
        )
        if self._is_traced:
            call = functools.partial(contextvars.copy_context().run, call)
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    def _note(self, attempt: Attempt, ending: Ending) -> None:
        item = attempt.item
        seconds = monotonic() - attempt.since
        if ending.event != "stopped":  # it never is, once after_stop has seen it
            self._metrics.ended(item.kind, ending.event, seconds)
        if ending.event == "completed" and not self._tells_all:
            return
        fields = {
            "job_id": item.job_id, "kind": item.kind, "queue": item.queue,
            "attempt": f"{item.attempt}/{item.max_attempts}", "seconds": round(seconds, 3),
        }  # fmt: skip
        if ending is endings.CANCELLED:
            log.info("job cancelled", extra=fields)
        elif ending.event == "failed":
            # never the message: it may quote the payload
            fields["error"] = ending.what
            is_last = ending.permanent or item.attempt >= item.max_attempts
            log.warning("last attempt failed" if is_last else "attempt failed", extra=fields)
        else:
            log.debug("job %s", ending.event, extra=fields)

    def _hand_back(self, attempt: Attempt, delay_s: float | None) -> None:
        """A job that waited for a slot: untouched, for whoever has one."""
        del self.running[attempt.item.lease_id]
        self._outcomes.release(attempt.item, delay_s)
        self._wake()


def _nobody(_attempt: Attempt) -> None:
    """Before the worker has begun nobody keeps leases."""


def _nowhere(_item: WorkItem, _text: str) -> None:
    """Before the worker has begun there is no job that could tell its progress."""
