"""The worker: leases jobs, runs their handlers, hands in their outcomes.

One loop, one round trip a turn: what finished since the last turn is settled and the free slots are
filled in the same call and commit, so the more there is to do, the larger the batches. A turn takes
at most half of the slots, so that handlers run while the next turn is under way. When there is
nothing to lease the worker parks (see listen) and looks again when something rings, when a
scheduled job is due, or when its poll interval ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import socket
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import psycopg

from pybatchq import attempts, calls
from pybatchq.attempts import Attempt, UnknownKinds
from pybatchq.connections import Connector, Pauses, check_version, is_connection_loss
from pybatchq.errors import BatchqError
from pybatchq.handlers import Job, Registry, handlers
from pybatchq.heartbeat import Heartbeat
from pybatchq.listen import Listener
from pybatchq.outcomes import Outcomes
from pybatchq.types import WorkItem

MAX_BATCH = 1000
SAFETY_LOOK_S = 240.0
SHORT_LOOK_S = 0.005
REPARK_S = 0.05
GIVE_UP_S = 5.0

log = logging.getLogger("pybatchq")


def _why(error: BaseException) -> str:
    """What the database said, without its context: that is full of SQL."""
    said = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    return said or str(error)


class Worker:
    """Runs jobs of some queues until it is stopped.

    `await run()` returns when the worker has stopped; `stop()` may be called from a signal handler.
    lease_s: length of a lease, renewed every third of it; None: the queue's own, else 60 s.
    poll_s: longest sleep without a doorbell. grace_s: how long stop() lets running jobs finish.
    """

    def __init__(
        self,
        dsn: str,
        *,
        queues: Sequence[str] = ("default",),
        concurrency: int = 10,
        registry: Registry = handlers,
        name: str | None = None,
        lease_s: float | None = None,
        poll_s: float = 1.0,
        doorbell: bool = True,
        reap_every_s: float = 5.0,
        lease_timeout_s: float = 3.0,
        grace_s: float = 30.0,
    ) -> None:
        if concurrency < 1:
            raise ValueError(f"concurrency is {concurrency}; give at least 1")
        if not queues or isinstance(queues, str):
            raise ValueError("queues is a list of at least one name")
        if lease_s is not None and not 0.1 <= lease_s <= 86_400:
            raise ValueError(f"lease_s is {lease_s}; give 0.1 to 86,400")
        if min(poll_s, reap_every_s, lease_timeout_s) < 0.01 or grace_s < 0:
            raise ValueError("times must be at least 0.01 s; grace_s may be 0")
        self.name = name or f"{socket.gethostname()}:{os.getpid()}"
        self._queues = list(queues)
        self._concurrency = concurrency
        self._registry = registry
        self._lease_for = None if lease_s is None else timedelta(seconds=lease_s)
        self._poll_s = poll_s
        self._reap_every_s = reap_every_s
        self._lease_timeout_s = lease_timeout_s
        self._grace_s = grace_s
        self._connector = Connector(dsn, self.name)
        self._pauses = Pauses()  # between calls that failed, whatever new connections promise
        self._work: calls.Connection | None = None
        self._doorbell = doorbell
        self._listener = Listener(self._connector, self._queues, self._ring)
        self._running: dict[int, Attempt] = {}
        self._outcomes = Outcomes()
        self._unknown = UnknownKinds()
        self._heartbeat = Heartbeat(self._connector, self._running, self._lease_for, self._give_up)
        self._given_up: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()
        self._look_at = 0.0  # when to look for jobs next; 0: now
        self._rung = False
        self._woken = False  # whether the present turn answers a ring
        self._vain = 0  # rings in a row that led to nothing, and when the last one was
        self._vain_at = 0.0
        self._empty_looks = 0
        self._asked_at = 0.0  # when the doorbell last answered, or was found dead
        self._unsure = 0  # looks since parking that may have missed a job
        self._stopping = False
        self._stop_by = float("inf")
        self._limit: asyncio.Timeout | None = None
        self._threads = ThreadPoolExecutor(concurrency, thread_name_prefix="batchq")

    @property
    def running(self) -> int:
        """How many handlers run now, those that were given up included."""
        return len(self._running) + len(self._given_up)

    def stop(self, *, now: bool = False) -> None:
        """Lease no more and let running jobs finish; with `now` they are cancelled and released."""
        self._stopping = True
        self._stop_by = min(self._stop_by, time.monotonic() + (0.0 if now else self._grace_s))
        self._wake.set()
        if self._limit is not None:
            with contextlib.suppress(RuntimeError):  # stopped already
                self._limit.reschedule(self._last_moment())

    def _last_moment(self) -> float:
        """When to stop though the database is away: at once if there is nothing to hand in."""
        if self._work is None and not self._running and not self._outcomes:
            return time.monotonic()
        return self._stop_by + 2 * GIVE_UP_S

    async def run(self) -> None:
        """Work until stop(). Cancelling it stops the worker at once, handing its jobs back.

        VersionMismatchError if the schema does not fit, InvalidArgumentError if a queue's name does
        not; a database that is away is waited for.
        """
        main = asyncio.ensure_future(self._main())
        try:
            await asyncio.shield(main)
        except asyncio.CancelledError:
            self.stop(now=True)
            with contextlib.suppress(asyncio.CancelledError):
                await main
            raise

    async def _main(self) -> None:
        try:
            async with asyncio.timeout(None) as self._limit:
                if self._stopping:
                    self._limit.reschedule(self._last_moment())
                await self._open()
                await self._work_with_helpers()
        except TimeoutError:
            log.error(  # noqa: TRY400  # no fault of this program
                "stopped without the database: leases of unfinished jobs will run out",
                extra={"worker": self.name, "jobs": len(self._running) + len(self._outcomes)},
            )
        finally:
            for attempt in self._running.values():
                if attempt.task is not None and attempt.handler.is_async:
                    attempt.task.cancel()  # given up: its lease will run out
            self._threads.shutdown(wait=False, cancel_futures=True)
            if self._work is not None:
                await self._work.close()
        log.info("worker stopped", extra={"worker": self.name})

    async def _work_with_helpers(self) -> None:
        log.info(
            "worker started",
            extra={"worker": self.name, "queues": self._queues, "slots": self._concurrency},
        )
        async with asyncio.TaskGroup() as helpers:
            running = [
                helpers.create_task(self._heartbeat.run()),
                helpers.create_task(self._upkeep()),
            ]
            if self._doorbell:
                running.append(helpers.create_task(self._listener.run()))
            await self._pump()
            for helper in running:
                helper.cancel()

    async def _open(self) -> None:
        """Connect and check schema and queues; a server that goes away is tried again."""
        while True:
            conn = await self._connector.connect("work")
            try:
                await check_version(conn)
                await calls.next_due(conn, queues=self._queues)  # refuses what is no name
            except psycopg.OperationalError:
                await conn.close()
                await asyncio.sleep(self._pauses.next_s())
            except BaseException:
                await conn.close()
                raise
            else:
                self._work = conn
                return

    async def _pump(self) -> None:
        while True:
            await self._until_needed()
            if self._stopping and not self._running and not self._outcomes:
                return
            if self._stopping and time.monotonic() > self._stop_by + GIVE_UP_S:
                log.error(
                    "stopped with jobs still running: their leases will run out",
                    extra={"jobs": [a.item.job_id for a in self._running.values()]},
                )
                return
            n = self._wanted()
            batch = self._outcomes.take()
            if n or batch:
                self._woken, self._rung = self._rung, False
                await self._turn(batch, n)

    def _wanted(self) -> int:
        """How many jobs to ask for now."""
        if self._stopping or time.monotonic() < self._look_at:
            return 0
        free = self._concurrency - len(self._running)
        return min(free, (self._concurrency + 1) // 2, MAX_BATCH)

    async def _until_needed(self) -> None:
        """Wait until there is an outcome to hand in or a reason to look for jobs."""
        while not self._outcomes and not self._wanted():
            now = time.monotonic()
            if self._stopping:
                if not self._running or now > self._stop_by + GIVE_UP_S:
                    return
                if now >= self._stop_by:
                    for attempt in list(self._running.values()):
                        attempt.cancel("shutdown")
                    wait: float | None = GIVE_UP_S
                else:
                    wait = self._stop_by - now
            elif len(self._running) < self._concurrency:
                wait = self._look_at - now
            else:
                wait = None
            self._wake.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._wake.wait()
            await asyncio.sleep(0)  # let jobs that end together end together

    async def _turn(self, batch: Outcomes, n: int) -> None:
        """One round trip. Whatever got no answer is handed in again."""
        try:
            items = await self._exchange(batch, n)
        except (psycopg.Error, BatchqError, TimeoutError) as error:
            self._outcomes.put_back(batch)
            if is_connection_loss(error):
                await self._reconnect(error)
            else:
                await self._settle_singly(error)
            return
        got, due_s = 0, None
        for item in items:
            if item.event == "leased":
                got += 1
                self._start(item)
            elif item.event == "sleep":
                due_s = item.timeout_s
            else:
                self._not_taken(item, batch)
        if n:
            await self._after_look(got, due_s)

    async def _exchange(self, batch: Outcomes, n: int) -> list[WorkItem]:
        if self._work is None:
            self._work = await self._connector.connect("work")
        async with asyncio.timeout(self._lease_timeout_s):
            items = await calls.settle_and_lease(
                self._work,
                queues=self._queues,
                n=n,
                worker=self.name,
                lease_for=self._lease_for,
                **batch.arguments(),
            )
        self._pauses.worked()
        return items

    def _start(self, item: WorkItem) -> None:
        if self._stopping:  # asked to while the call was under way
            self._outcomes.release(item)
            return
        handler = self._registry.by_kind.get(item.kind)
        if handler is None:
            self._unknown.put_back(item, self._outcomes)
            self._wake.set()
            return
        attempt = Attempt(item, handler, Job(item, self._heartbeat.save_progress))
        self._running[item.lease_id] = attempt
        attempt.task = asyncio.get_running_loop().create_task(self._attempt(attempt))
        self._heartbeat.expect(attempt)

    async def _attempt(self, attempt: Attempt) -> None:
        try:
            await attempts.run(attempt, self._outcomes, self._threads)
        finally:
            self._running.pop(attempt.item.lease_id, None)
            self._wake.set()

    def _give_up(self, attempt: Attempt) -> None:
        """A handler does not end when it is cancelled: others get its slot, its lease runs out."""
        item = attempt.item
        log.error(
            "handler does not stop: its slot is given to others",
            extra={"kind": item.kind, "job_id": item.job_id, "reason": attempt.stop},
        )
        del self._running[item.lease_id]
        if attempt.task is not None:
            self._given_up.add(attempt.task)
            attempt.task.add_done_callback(self._given_up.discard)
        self._wake.set()

    async def _after_look(self, got: int, due_s: float | None) -> None:
        """Decide when to look again: at once if there was a job, else when something happens.

        Awake means not parked: while jobs come, producers must not pay for NOTIFY.
        """
        if got:
            self._empty_looks = 0
            self._look_at = 0.0  # only an empty answer is exact
            await self._listener.unpark()
            return
        self._empty_looks += 1
        if self._woken and self._rung_in_vain():
            await self._listener.unpark()
            wait_s = REPARK_S
        else:
            wait_s = await self._sleep_s()
        if due_s is not None:
            # a due job that cannot be had (others hold it) must not make this loop spin
            wait_s = min(wait_s, max(due_s, self._growing_s(self._empty_looks)))
        self._look_at = 0.0 if self._rung else time.monotonic() + wait_s

    def _rung_in_vain(self) -> bool:
        """Whether others are faster again and again: producers should not ring for us then."""
        now = time.monotonic()
        self._vain = self._vain + 1 if now - self._vain_at < REPARK_S else 1
        self._vain_at = now
        return self._vain >= 3

    async def _sleep_s(self) -> float:
        """How long to sleep if no scheduled job is due before. Parks when there is a doorbell."""
        if not self._listener.parked:
            if not (self._doorbell and await self._listener.park()):
                return self._poll_s
            self._unsure = 1
        elif not self._unsure and time.monotonic() < self._asked_at + SAFETY_LOOK_S / 2:
            return SAFETY_LOOK_S
        # asked before the look that decides: what is under way then may have missed the parking,
        # what comes later rings
        self._asked_at = time.monotonic()
        pending = await self._listener.bell_pending()
        self._unsure = self._unsure + 1 if pending else 0
        return self._growing_s(self._unsure) if pending else 0.0

    def _growing_s(self, times: int) -> float:
        return min(self._poll_s, SHORT_LOOK_S * 2.0 ** min(times, 16))

    def _ring(self) -> None:
        """Something became ready: look as soon as there is a free slot."""
        self._rung = True
        self._look_at = 0.0
        self._wake.set()

    def _not_taken(self, item: WorkItem, batch: Outcomes) -> None:
        """A settlement that was refused. A deferred one goes again; a lost one is not ours."""
        if item.event == "deferred":
            self._outcomes.put_back(batch.only(item.job_id, item.lease_id))
            return
        log.warning(
            "outcome refused: the lease was lost",
            extra={"job_id": item.job_id, "lease_id": item.lease_id, "reason": item.event},
        )

    async def _settle_singly(self, error: BaseException) -> None:
        """The database refused a settlement: find the outcome it cannot take and fail that job."""
        log.error("settlement refused: trying its outcomes one by one", extra={"error": str(error)})
        for single in self._outcomes.take().singly():
            try:
                for item in await self._exchange(single, 0):
                    self._not_taken(item, single)
            except (psycopg.Error, BatchqError, TimeoutError) as refused:
                if is_connection_loss(refused):
                    self._outcomes.put_back(single)
                    await self._reconnect(refused)
                elif not single.is_failure():
                    self._outcomes.put_back(single.as_failure(f"outcome refused: {_why(refused)}"))
                else:
                    log.exception("outcome dropped: the database takes neither it nor its error")
        await asyncio.sleep(self._pauses.next_s())

    async def _reconnect(self, error: BaseException) -> None:
        """Leave a connection whose state is not known, and open another one."""
        log.warning(
            "database call failed: opening a new connection",
            extra={"error": " ".join(str(error).split()) or type(error).__name__},
        )
        if self._work is not None:
            await self._work.close()
            self._work = None
        await asyncio.sleep(self._pauses.next_s())
        self._work = await self._connector.connect("work")
        self._look_at = 0.0

    async def _upkeep(self) -> None:
        """Reap and promote every few seconds. The database sees to it that one worker does it."""
        pause_s = self._reap_every_s * random.random()
        while True:
            await asyncio.sleep(pause_s)
            done = await self._heartbeat.call(calls.maintain)
            more = any(task.more for task in done or ())
            pause_s = 0.0 if more else self._reap_every_s * random.uniform(1.0, 1.2)
