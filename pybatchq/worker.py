"""The worker: leases jobs, runs their handlers, hands in their outcomes.

One loop, one round trip a turn: what finished since the last turn is settled and the free slots are
filled in the same call and commit, so the more there is to do, the larger the batches. Its parts:
exchange (that round trip), crew (the jobs in hand), capacity (which of them run), lookout (when to
look again), heartbeat (a thread that keeps the leases).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from time import monotonic
from types import TracebackType
from typing import Literal, Self

from pybatchq.capacity import Slots
from pybatchq.connections import Connector
from pybatchq.crew import Crew
from pybatchq.exchange import Exchange, Queues
from pybatchq.handlers import Registry, handlers
from pybatchq.heartbeat import Heartbeat, Orders
from pybatchq.listen import Listener
from pybatchq.lookout import Lookout
from pybatchq.metrics import WorkerMetrics
from pybatchq.monitoring import monitoring
from pybatchq.outcomes import Outcomes
from pybatchq.registration import described
from pybatchq.threads import in_thread

GIVE_UP_S = 5.0
TURN_EVERY_S = 0.005  # while there is enough to do: fewer turns of more jobs cost less

# How a worker's run ended: all its jobs had ended; the grace period or a second signal cut some
# short, which were handed back; some handlers did not stop, and their leases will run out; the
# same, while it ran: it asks to be replaced.
End = Literal["drained", "cut short", "left behind", "recycle"]

log = logging.getLogger("pybatchq")


class Worker:
    """Runs jobs of some queues until it is stopped.

        await worker.run()            # until stop(), which a signal handler may call
        async with worker: ...        # works while your own program runs
        with worker.in_thread(): ...  # the same for a program without an event loop

    queues: names in order of preference, or names with weights. lease_s: length of a lease, renewed
    every third of it; None: the queue's own, else 60 s. poll_s: longest sleep without a doorbell.
    grace_s: how long stop() lets running jobs finish. prefetch_s: lease ahead what will start
    within so long. process_slots: how many process handlers run at once; None: one a processor.
    prepare: use prepared statements; None: unless a pooler is noticed. listen_dsn: a direct address
    for LISTEN where dsn leads to a pooler. health_port: serve /health, /ready, /metrics there.
    recycle: stop and ask to be replaced once a thread ignores its cancellation.
    """

    def __init__(
        self,
        dsn: str,
        *,
        queues: Sequence[str] | Mapping[str, float] = ("default",),
        concurrency: int = 10,
        registry: Registry = handlers,
        name: str | None = None,
        lease_s: float | None = None,
        poll_s: float = 1.0,
        doorbell: bool = True,
        reap_every_s: float = 5.0,
        lease_timeout_s: float = 3.0,
        grace_s: float = 30.0,
        prefetch_s: float = 0.02,
        process_slots: int | None = None,
        jobs_per_process: int = 1000,
        prepare: bool | None = None,
        listen_dsn: str | None = None,
        health_port: int | None = None,
        health_host: str = "127.0.0.1",
        recycle: bool = False,
    ) -> None:
        if concurrency < 1:
            raise ValueError(f"concurrency is {concurrency}; give at least 1")
        if lease_s is not None and not 0.1 <= lease_s <= 86_400:
            raise ValueError(f"lease_s is {lease_s}; give 0.1 to 86,400")
        if min(poll_s, reap_every_s, lease_timeout_s) < 0.01 or min(grace_s, prefetch_s) < 0:
            raise ValueError("times must be at least 0.01 s; grace_s and prefetch_s may be 0")
        self.name = name or f"{socket.gethostname()}:{os.getpid()}"
        self.metrics = WorkerMetrics()
        self.end: End = "drained"
        self._kinds = registry.by_kind
        self._grace_s = grace_s
        self._recycle = recycle
        self._queues = Queues(queues)
        self._wake = asyncio.Event()
        self._outcomes = Outcomes()
        self._slots = Slots(
            concurrency, processes=process_slots or os.cpu_count() or 1, prefetch_s=prefetch_s
        )
        self._crew = Crew(
            registry, self._slots, self._outcomes, self.metrics, jobs_per_process=jobs_per_process,
            wake=self._wake.set, stuck=self._is_stuck,
        )  # fmt: skip
        connector = Connector(dsn, self.name, prepare=prepare)
        lease_for = None if lease_s is None else timedelta(seconds=lease_s)
        self._exchange = Exchange(
            connector, self._outcomes, self.metrics, queues=self._queues, worker=self.name,
            lease_for=lease_for, timeout_s=lease_timeout_s,
        )  # fmt: skip
        self._listener = None
        if doorbell:
            direct = Connector(listen_dsn, self.name) if listen_dsn else connector
            self._listener = Listener(
                direct, self._queues.names, self._ring, self._asked_to_stop, self._asked_to_drain
            )
        self._lookout = Lookout(self._listener, poll_s, self._wake.set)
        self._heartbeat = Heartbeat(
            Connector(dsn, self.name, prepare=prepare, beside=connector),
            self._crew.running,
            Orders(
                self._crew.stop, self._crew.give_up, self._heartbeat_died, self._ring, self._drain
            ),
            self.metrics,
            lease_for=lease_for,
            reap_every_s=reap_every_s,
            describe=partial(described, self, self._queues.names, self._kinds),
            service=monitoring(self, health_host, health_port),
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._turned_at = 0.0
        self._stopping = False
        self._stop_by = float("inf")
        self._limit: asyncio.Timeout | None = None
        self._fatal: BaseException | None = None
        self._started: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def running(self) -> int:
        """How many handlers run now, those that were given up included."""
        return self._crew.busy

    @property
    def concurrency(self) -> int:
        return self._slots.concurrency

    @property
    def unsettled(self) -> int:
        """How many outcomes wait to be handed in."""
        return len(self._outcomes)

    @property
    def is_connected(self) -> bool:
        """Whether the database answers, as far as its connections have noticed."""
        return self._exchange.is_connected and not self._heartbeat.is_failing

    @property
    def is_parked(self) -> bool:
        """Whether it sleeps until the doorbell rings."""
        return self._listener is not None and self._listener.parked

    @property
    def idle_processes(self) -> int:
        """How many processes of handlers wait for a job."""
        return self._crew.idle_processes

    @property
    def is_stopping(self) -> bool:
        return self._stopping

    def loop_blocked_s(self) -> float:
        """For how long a handler has kept the event loop from turning."""
        return self._heartbeat.loop_blocked_s()

    def stop(self, *, now: bool = False) -> None:
        """Lease no more and let running jobs finish; with `now` they are cancelled and released."""
        self._stopping = True
        self._stop_by = min(self._stop_by, monotonic() + (0.0 if now else self._grace_s))
        self._crew.leave()
        self._wake.set()
        if self._limit is not None:
            with contextlib.suppress(RuntimeError):  # stopped already
                self._limit.reschedule(self._last_moment())

    async def run(self) -> None:
        """Work until stop(). Cancelling it stops the worker at once, handing its jobs back.

        VersionMismatchError if the schema does not fit, InvalidArgumentError if a queue's name does
        not, TypeError if a handler cannot work; a database that is away is waited for.
        """
        main = asyncio.ensure_future(self._main())
        try:
            await asyncio.shield(main)
        except asyncio.CancelledError:
            self.stop(now=True)
            with contextlib.suppress(asyncio.CancelledError):
                await main
            raise

    async def __aenter__(self) -> Self:
        self._started = asyncio.get_running_loop().create_future()
        self._task = asyncio.ensure_future(self.run())
        try:
            await asyncio.wait([self._started, self._task], return_when=asyncio.FIRST_COMPLETED)
        except BaseException:
            self._task.cancel()
            await asyncio.wait([self._task])
            raise
        if self._task.done():
            await self._task  # says why
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        if self._task is not None:
            await self._task

    @contextlib.contextmanager
    def in_thread(self) -> Iterator[Self]:
        """Work in a thread with an event loop of its own. What run() raises comes out at the end.

        Entering waits until the worker works, or has failed.
        """
        with in_thread(self, self._until_over, self._stop_from_outside, "batchq-worker"):
            yield self

    async def _until_over(self) -> None:
        if self._task is not None:
            await asyncio.wait([self._task])

    def _stop_from_outside(self) -> None:
        """As stop(), from another thread than the worker's."""
        if self._loop is None:
            self.stop()
        else:
            with contextlib.suppress(RuntimeError):  # its loop is closed
                self._loop.call_soon_threadsafe(self.stop)

    def _last_moment(self) -> float:
        """When to stop though the database is away: at once if there is nothing to hand in."""
        if not self._exchange.is_connected and not self._crew.running and not self._outcomes:
            return monotonic()
        return self._stop_by + 2 * GIVE_UP_S

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._crew.check()
        try:
            async with asyncio.timeout(None) as self._limit:
                if self._stopping:
                    self._limit.reschedule(self._last_moment())
                uuids = await self._exchange.open()
                self._crew.begin(uuids, self._heartbeat.save_progress, self._heartbeat.expect)
                await self._work_with_helpers()
        except TimeoutError:
            self._without_database()
        finally:
            await self._crew.close()
            await self._heartbeat.close()
            await self._exchange.close()
        if self._fatal is not None:
            raise self._fatal
        log.info("worker stopped", extra={"worker": self.name, "end": self.end})

    def _without_database(self) -> None:
        unfinished = len(self._crew.running) + len(self._outcomes)
        if unfinished:
            self.end = "left behind"
            log.error(
                "stopped without the database: leases of unfinished jobs will run out",
                extra={"unfinished": unfinished},
            )
        else:
            log.warning("stopped without the database; there was nothing left to do")

    async def _work_with_helpers(self) -> None:
        await self._heartbeat.start()
        log.info(
            "worker started",
            extra={
                "worker": self.name, "queues": self._queues.shown(), "slots": self.concurrency,
                "kinds": len(self._kinds),
            },
        )  # fmt: skip
        if self._started is not None and not self._started.done():
            self._started.set_result(None)
        async with asyncio.TaskGroup() as helpers:
            listening = None
            if self._listener is not None:
                listening = helpers.create_task(self._listener.run())
            await self._pump()
            if listening is not None:
                listening.cancel()

    async def _pump(self) -> None:
        while True:
            await self._until_needed()
            self._crew.hand_back_overdue()
            if self._stopping and not self._crew.running and not self._outcomes:
                return
            if self._stopping and monotonic() > self._stop_by + GIVE_UP_S:
                self.end = "left behind"
                log.error(
                    "stopped with jobs still running: their leases will run out",
                    extra={"job_ids": [a.item.job_id for a in self._crew.running.values()]},
                )
                return
            n = self._wanted()
            if n or self._outcomes:
                await self._turn(n)

    def _wanted(self) -> int:
        """How many jobs to ask for now."""
        if self._stopping:
            return 0
        if monotonic() >= self._lookout.look_at:
            return self._slots.wanted(self._lookout.behind)
        return self._slots.wanted() if self._slots.is_hungry else 0

    async def _until_needed(self) -> None:
        """Wait until there is an outcome to hand in or a reason to look for jobs."""
        if self._slots.has_enough() and not self._stopping:
            await asyncio.sleep(self._turned_at + TURN_EVERY_S - monotonic())
        while not self._outcomes and not self._wanted():
            now = monotonic()
            if self._stopping:
                if not self._crew.running or now > self._stop_by + GIVE_UP_S:
                    return
                wait: float | None = self._stop_by - now
                if now >= self._stop_by:
                    self.end = "cut short" if self.end == "drained" else self.end
                    self._crew.cut_short()
                    wait = GIVE_UP_S
            else:
                wait = self._idle_s(now)
            self._wake.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._wake.wait()
            await asyncio.sleep(0)  # let jobs that end together end together
            self._crew.hand_back_overdue()

    def _idle_s(self, now: float) -> float | None:
        """How long nothing is due. None: until something happens."""
        overdue_s = self._slots.overdue_in_s()
        if now >= self._lookout.look_at:  # there is no room for what could be found
            return overdue_s
        look_s = self._lookout.look_at - now
        return look_s if overdue_s is None else min(look_s, overdue_s)

    async def _turn(self, n: int) -> None:
        self._slots.measure()
        if n:
            self._slots.is_hungry = False
            self._lookout.begin()
            self.metrics.leases += 1
        answer = await self._exchange.turn(n)
        self._turned_at = monotonic()
        if answer is None:
            self._lookout.look_at = 0.0
            return
        taken = self._crew.take(answer.leased)
        if n:
            self.metrics.leased += len(answer.leased)
            self.metrics.empty_leases += not answer.leased
            is_blocked = taken.put_back > 0 or self._slots.expects_full()
            await self._lookout.after(
                len(answer.leased), taken.useful, answer.due_s, is_blocked=is_blocked
            )

    def _is_stuck(self) -> None:
        """A handler was given up: its thread is lost to this process."""
        if self._recycle and not self._stopping:
            self.end = "recycle"
            log.error("stopping, to be replaced by a new process")
            self.stop()

    def _heartbeat_died(self, error: BaseException) -> None:
        log.error("the heartbeat thread died: stopping", exc_info=error)
        self._fatal = error
        self.stop(now=True)

    def _ring(self) -> None:
        self._lookout.ring()

    def _asked_to_stop(self) -> None:
        """Somewhere a running job was cancelled: it may be one of ours."""
        if self._crew.running:
            self._heartbeat.beat_now()

    def _asked_to_drain(self, worker_id: str) -> None:
        """A worker was asked to, maybe this one."""
        self._heartbeat.register_now(worker_id)

    def _drain(self) -> None:
        if not self._stopping:
            log.info("asked to drain: stopping", extra={"worker": self.name})
            self.stop()
