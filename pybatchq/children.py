"""Processes that run the handlers registered with `runs_in="process"`, one job at a time each.

They are started on demand, used again (the last used first), and ended when they are too many or
have done their share. What they run is in `child`; this side lives in the worker's event loop. A
process that crashes, or is killed because its job does not stop, costs its own job's attempt only.
None outlives the worker.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from time import monotonic

from pybatchq import child, endings
from pybatchq.attempts import Attempt
from pybatchq.child_process import DiedError, Process, parent_main
from pybatchq.connections import Pauses
from pybatchq.endings import Ending
from pybatchq.handlers import Handler, HandlerError
from pybatchq.job import SaveProgress
from pybatchq.metrics import WorkerMetrics

LOOK_EVERY_S = 1.0
LINGER_S = 5.0

log = logging.getLogger("pybatchq")


def check(handler: Handler) -> None:
    """TypeError if this handler is for a process and cannot be sent to one.

    RuntimeError if a process is just importing the program that its worker was started from.
    """
    child.refuse_while_importing()
    if handler.runs_in == "process":
        _reference(handler)


def _reference(handler: Handler) -> bytes:
    trouble = f"kind {handler.kind!r}: runs_in='process' needs functions at the top of a module"
    try:
        reference = child.pickled(handler)
    except Exception as error:
        raise HandlerError(f"{trouble}: {error}") from error
    if b"__main__" in reference and parent_main() is None:
        raise HandlerError(f"{trouble}: this program is no file that a process could import")
    return reference


class Children:
    """Processes that run CPU-bound handlers, one job at a time each."""

    def __init__(
        self,
        save: SaveProgress,
        *,
        metrics: WorkerMetrics | None = None,
        jobs_per_child: int = 1000,
        keep_idle: int | None = None,
    ) -> None:
        """save: takes the progress of jobs, in the event loop.

        metrics: counts the killed. jobs_per_child: a process is replaced after so many. keep_idle:
        at most so many wait for work for more than some seconds; None: one a processor.
        """
        self.metrics = metrics or WorkerMetrics()
        self._save = save
        self._jobs_per_child = jobs_per_child
        self._keep_idle = (os.cpu_count() or 1) if keep_idle is None else keep_idle
        self._all: set[Process] = set()
        self._idle: list[Process] = []  # the last used is the last
        self._references: dict[str, tuple[Handler, bytes]] = {}
        self._running = 0
        self._looking: asyncio.TimerHandle | None = None
        self._is_closing = False
        self._is_killing = False
        # while processes die before they run anything, they are started one by one, with pauses
        self._pauses = Pauses()
        self._is_failing = False
        self._pause_s = 0.0
        self._start_at = 0.0
        self._changed = asyncio.Event()

    @property
    def running(self) -> int:
        """How many jobs run, those that wait for their process included."""
        return self._running

    @property
    def idle(self) -> int:
        """How many processes wait for a job. From any thread."""
        return len(self._idle)

    async def run(self, attempt: Attempt) -> Ending:
        """Run the attempt's handler in a process. Raises nothing but CancelledError.

        Cancelled, it kills the process. After close() the job is given back.
        """
        early = self._refusal(attempt)
        if early is not None:
            return early
        self._running += 1
        try:
            reference = self._known(attempt.handler)
            process = self._take() or await self._start_for(attempt)
            early = self._refusal(attempt)
            ending = early or await process.run(attempt, reference)
        except TypeError as error:
            reason = endings.clean(str(error), endings.MAX_ERROR)
            return Ending("failed", reason, what=child.UNLOADABLE)
        except DiedError as death:
            return self._without_process(attempt, death)
        finally:
            self._running -= 1
            attempt.on_stop = None
        if self._is_failing and early is None:
            self._starts_work()
        self._put_back(process)
        return ending

    async def close(self, *, now: bool = False) -> None:
        """End all processes; the busy ones after their job, with `now` at once.

        Cancelled, it kills them.
        """
        self._is_closing = True
        self._is_killing |= now
        self._notify()
        for process in self._idle:
            process.end()
        self._idle.clear()
        try:
            if now:
                for process in self._all:
                    process.kill(unless_leaving=True)
                async with asyncio.timeout(2 * child.END_WITHIN_S):
                    await self._until_gone()
            else:
                await self._until_gone()
        except TimeoutError:
            pids = [process.pid for process in self._all]
            log.error("processes of handlers cannot be killed", extra={"pids": pids})  # noqa: TRY400
        except asyncio.CancelledError:
            self._is_killing = True
            for process in self._all:
                process.kill()
            raise

    async def _until_gone(self) -> None:
        while self._all or self._running:
            if self._all:
                await asyncio.wait([process.gone for process in self._all])
            await asyncio.sleep(0)

    def _refusal(self, attempt: Attempt) -> Ending | None:
        """The ending of an attempt that needs no process any more."""
        if attempt.stop is not None:
            return endings.STOPPED
        return endings.RELEASED if self._is_closing else None

    def _known(self, handler: Handler) -> bytes:
        known = self._references.get(handler.kind)
        if known is None or known[0] is not handler:
            known = self._references[handler.kind] = (handler, _reference(handler))
        return known[1]

    def _take(self) -> Process | None:
        while self._idle:
            process = self._idle.pop()
            if process.is_alive():
                return process
        return None

    def _put_back(self, process: Process) -> None:
        if self._is_closing or process.jobs >= self._jobs_per_child or not process.is_alive():
            process.end()
        else:
            process.idle_since = monotonic()
            self._idle.append(process)

    async def _start_for(self, attempt: Attempt) -> Process:
        """Start a process; an attempt that is stopped meanwhile stops that."""
        starting = asyncio.get_running_loop().create_task(self._start())

        def stop() -> None:
            starting.cancel()

        attempt.on_stop = stop
        try:
            return await starting
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if attempt.stop is None or (task is not None and task.cancelling()):
                raise
            raise DiedError("was not needed any more") from None

    async def _start(self) -> Process:
        while (wait_s := self._start_at - monotonic()) > 0 and not self._is_closing:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._changed.wait()
        if self._is_closing:
            raise DiedError("was not needed any more")
        if self._is_failing:
            self._pause_s = self._pauses.next_s()
            self._start_at = monotonic() + self._pause_s  # for others
        process = Process(self._save)
        self._all.add(process)
        process.gone.add_done_callback(lambda _: self._forget(process))
        if self._looking is None:
            self._look()
        await process.start()
        return process

    def _forget(self, process: Process) -> None:
        self._all.discard(process)
        self.metrics.processes_killed += process.was_killed and not self._is_closing
        if process in self._idle:
            self._idle.remove(process)
            log.warning("an idle process of handlers died", extra={"error": process.fate})

    def _without_process(self, attempt: Attempt, death: DiedError) -> Ending:
        if attempt.stop is not None:
            return endings.STOPPED
        if self._is_killing or (self._is_closing and not death.ran):
            return endings.RELEASED
        item = attempt.item
        log.warning(
            "handler's process died",
            extra={"kind": item.kind, "job_id": item.job_id, "error": str(death)},
        )
        if not death.ran:
            if not self._is_failing:
                self._is_failing = True
                self._pause_s = self._pauses.next_s()
            self._start_at = monotonic() + self._pause_s
        return Ending("failed", f"the handler's process {death}", what=f"process {death}")

    def _starts_work(self) -> None:
        self._is_failing = False
        self._start_at = 0.0
        self._pauses.worked()
        self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed.clear()

    def _look(self) -> None:
        """Every second: notice deaths that a socket does not tell, and end the superfluous."""
        for process in self._all:
            process.look()
        now = monotonic()
        while len(self._idle) > self._keep_idle and now >= self._idle[0].idle_since + LINGER_S:
            self._idle.pop(0).end()
        loop = asyncio.get_running_loop()
        self._looking = loop.call_later(LOOK_EVERY_S, self._look) if self._all else None
