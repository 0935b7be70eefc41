"""Several worker processes under one: one interpreter uses one core.

The supervisor starts the processes, starts another one for each that ends by itself, and passes
stop signals on. It holds no jobs and no connection, so that nothing but a signal ends it. Each
process inherits the end of a pipe nobody writes to: when that ends, the supervisor is gone, even
if it was killed (see watch_supervisor).

As PID 1 of a container it reaps whatever is left to it. Under systemd it is the unit's main
process: it says when it is ready and feeds the watchdog. Use `KillMode=mixed`, else systemd signals
the processes, too, and two signals mean: at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import select
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pybatchq import systemd

FD_VARIABLE = "BATCHQ_SUPERVISOR_FD"
EXIT_USAGE = 2
RECYCLE = 75  # a process asks for its replacement: it has a thread that cannot be stopped
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
STEADY_S = 60.0
# A process that asks for its replacement sooner than this is not replaced at once: it would for
# ever do nothing but start.
RECYCLE_AFTER_S = 1.0
FORWARDED = (signal.SIGTERM, signal.SIGINT)
# What the unit's main process was told is not for its children.
SYSTEMD_VARIABLES = {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}

log = logging.getLogger("pybatchq")


def run(
    command: Sequence[str],
    *,
    processes: int,
    env_for: Callable[[int], Mapping[str, str]] = lambda _number: {},
    first_pause_s: float = FIRST_PAUSE_S,
    longest_pause_s: float = LONGEST_PAUSE_S,
    steady_s: float = STEADY_S,
) -> int:
    """Keep so many processes of a command running until SIGTERM or SIGINT; the exit code to use.

    That is the worst of the last exit codes, 128 and more for a process that a signal ended.
    A second signal is passed on as well, the third kills. A process that ends with EXIT_USAGE when
    it is first started ends them all: no other start would go better.

    env_for: variables for process 0, 1, …, beside those of this process. Pauses before a restart
    double from first_pause_s to longest_pause_s; whatever ran for steady_s starts anew with the
    first. Call it in the main thread of a process with no other children.
    """
    if processes < 1:
        raise ValueError(f"processes is {processes}; give at least 1")
    slots = [_Slot(number, dict(env_for(number))) for number in range(processes)]
    with _signals() as arrived, _pipe() as alive:
        pauses = _Pauses(first_pause_s, longest_pause_s, steady_s)
        return _Supervisor(list(command), slots, pauses, arrived, alive).run()


def watch_supervisor(on_gone: Callable[[], None]) -> bool:
    """Call this when the supervisor is gone, in the running loop; False if there is none.

    To be asked once a process, before it starts children of its own: they are not to take the
    variable for theirs.
    """
    text = os.environ.pop(FD_VARIABLE, "")
    if not text.isdecimal():
        return False
    fd = int(text)
    try:
        if not stat.S_ISFIFO(os.fstat(fd).st_mode):
            return False
        os.set_inheritable(fd, False)
    except OSError:
        return False  # inherited from an environment, without the pipe
    loop = asyncio.get_running_loop()

    def gone() -> None:
        loop.remove_reader(fd)
        os.close(fd)
        on_gone()

    loop.add_reader(fd, gone)
    return True


@dataclass(frozen=True, slots=True)
class _Pauses:
    first_s: float
    longest_s: float
    steady_s: float


@dataclass(slots=True)
class _Slot:
    """One of the processes, and what became of it before."""

    number: int
    environ: dict[str, str]
    pid: int | None = None
    starts: int = 0
    failures: int = 0  # ends in a row, each soon after the start
    start_at: float = 0.0
    started_at: float = 0.0
    exit_code: int = 0


class _Supervisor:
    def __init__(
        self,
        command: list[str],
        slots: list[_Slot],
        pauses: _Pauses,
        arrived: socket.socket,
        alive_fd: int,
    ) -> None:
        self._command = command
        self._slots = slots
        self._pauses = pauses
        self._arrived = arrived
        self._alive_fd = alive_fd
        self._asked = 0  # how often to stop
        self._refused = False
        self._watchdog_s = systemd.watchdog_interval_s()

    def run(self) -> int:
        self._start_due()
        systemd.notify("READY=1", f"STATUS=supervising {len(self._slots)} processes")
        while not (self._asked and not self._running()):
            if self._watchdog_s is not None:
                systemd.notify("WATCHDOG=1")
            for signum in self._wait():
                if signum in FORWARDED:
                    self._stop(signal.Signals(signum).name)
            self._reap()
            self._start_due()
        log.info("all processes have ended")
        return EXIT_USAGE if self._refused else max(slot.exit_code for slot in self._slots)

    def _running(self) -> list[int]:
        return [slot.pid for slot in self._slots if slot.pid is not None]

    def _wait(self) -> bytes:
        """Until signals arrive or a start is due; the signals' numbers."""
        now = time.monotonic()
        waits = [] if self._watchdog_s is None else [self._watchdog_s]
        if not self._asked:
            waits += [slot.start_at - now for slot in self._slots if slot.pid is None]
        ready, _, _ = select.select(
            [self._arrived], [], [], max(0.0, min(waits)) if waits else None
        )
        return self._arrived.recv(4096) if ready else b""

    def _start_due(self) -> None:
        now = time.monotonic()
        for slot in self._slots:
            if slot.pid is None and slot.start_at <= now and not self._asked:
                self._start(slot)

    def _start(self, slot: _Slot) -> None:
        slot.starts += 1
        slot.started_at = time.monotonic()
        inherited = {k: v for k, v in os.environ.items() if k not in SYSTEMD_VARIABLES}
        try:
            process = subprocess.Popen(
                self._command,
                env={**inherited, **slot.environ, FD_VARIABLE: str(self._alive_fd)},
                stdin=subprocess.DEVNULL,
                pass_fds=[self._alive_fd],
                # Ctrl-C reaches the terminal's whole group: it is ours to pass on, once
                process_group=0,
            )
        except OSError as error:  # no memory, no more processes, the program is being replaced
            pause_s = self._later(slot)
            log.error(  # noqa: TRY400  # no fault of this program
                "process cannot be started: trying again",
                extra={"number": slot.number, "error": str(error), "pause_s": round(pause_s, 2)},
            )
            slot.exit_code = slot.exit_code or 1
            return
        slot.pid = process.pid
        process.returncode = 0  # it is waited for here, see _reap, and by nobody else
        log.info("process started", extra={"number": slot.number, "pid": slot.pid})

    def _reap(self) -> None:
        """Collect all that ended: ours, and as PID 1 whatever was left behind by others."""
        by_pid = {slot.pid: slot for slot in self._slots}
        with contextlib.suppress(ChildProcessError):  # none is left
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                slot = by_pid.get(ended[0])
                if slot is not None:
                    self._ended(slot, os.waitstatus_to_exitcode(ended[1]))

    def _ended(self, slot: _Slot, code: int) -> None:
        fields: dict[str, object] = {"number": slot.number, "pid": slot.pid, **_fields_of(code)}
        ran_s = time.monotonic() - slot.started_at
        slot.pid = None
        slot.exit_code = 128 - code if code < 0 else code
        if self._asked:
            if code == -signal.SIGTERM:
                slot.exit_code = 0  # asked to stop before it could even listen
            log.info("process ended", extra=fields)
        elif code == EXIT_USAGE and slot.starts == 1:
            log.error("process refused to start: stopping all", extra=fields)
            self._refused = True
            self._stop("exit code 2")
        elif code == RECYCLE:
            slot.start_at = time.monotonic()
            if ran_s < RECYCLE_AFTER_S:
                slot.start_at += self._pauses.first_s
            log.warning("process asked for its replacement: starting another", extra=fields)
        else:
            if ran_s >= self._pauses.steady_s:
                slot.failures = 0
            fields["pause_s"] = round(self._later(slot), 2)
            log.warning("process ended by itself: starting another", extra=fields)

    def _later(self, slot: _Slot) -> float:
        """Put off the next start, each time for longer; by how much."""
        bound = min(self._pauses.longest_s, self._pauses.first_s * 2.0 ** min(slot.failures, 32))
        slot.failures += 1
        pause_s = bound * random.uniform(0.75, 1.0)  # what crashes together comes back one by one
        slot.start_at = time.monotonic() + pause_s
        return pause_s

    def _stop(self, why: str) -> None:
        self._asked += 1
        if self._asked == 1:
            systemd.notify("STOPPING=1")
        signum = signal.SIGTERM if self._asked < 3 else signal.SIGKILL
        message = ("stopping", "stopping now", "killing what still runs")[min(self._asked, 3) - 1]
        pids = self._running()
        log.info(message, extra={"reason": why, "processes": len(pids)})
        for pid in pids:
            # it cannot be another's by now: a number is free once it was waited for
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signum)


def _fields_of(code: int) -> dict[str, object]:
    if code >= 0:
        return {"exit_code": code}
    try:
        return {"signal": signal.Signals(-code).name}
    except ValueError:  # a real-time signal
        return {"signal": -code}


@contextlib.contextmanager
def _signals() -> Iterator[socket.socket]:
    """A socket to read the numbers of signals from; before and after it they do what they did."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.setblocking(False)
        wakeup_fd = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        handlers = {
            signum: signal.signal(signum, lambda *_: None)
            for signum in (*FORWARDED, signal.SIGCHLD)
        }
        try:
            yield ours
        finally:
            for signum, handler in handlers.items():
                signal.signal(signum, signal.SIG_DFL if handler is None else handler)
            signal.set_wakeup_fd(wakeup_fd)


@contextlib.contextmanager
def _pipe() -> Iterator[int]:
    """The end of a pipe for children; its other end lives exactly as long as this process."""
    theirs, ours = os.pipe()
    try:
        yield theirs
    finally:
        os.close(theirs)
        os.close(ours)
