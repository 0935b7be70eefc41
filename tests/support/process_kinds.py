"""Handlers that run in processes of the tests, good and bad ones; and what they are given."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime as dt
import math
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from pybatchq import Job, PermanentError, Registry, RetryIn, Snooze
from pybatchq.attempts import Attempt
from pybatchq.errors import Cancelled
from pybatchq.job import SaveProgress
from pybatchq.types import JobId, LeaseId, WorkItem

UUIDS = 0x0123456789ABCDEF << 64

registry = Registry()
in_process = registry.handler


def attempt_of(
    kind: str,
    payload: Any = None,
    *,
    save: SaveProgress = lambda _item, _text: None,
    job_id: int = 7,
    handlers: Registry = registry,
    **fields: Any,
) -> Attempt:
    """An attempt as the worker makes it of a leased row. A payload of bytes is JSON already."""
    data = payload if isinstance(payload, bytes) else msgspec.json.encode(payload)
    item = WorkItem(
        **{
            "event": "leased", "job_id": JobId(job_id), "lease_id": LeaseId(2**62), "lease_s": 60.0,
            "queue": "default", "kind": kind, "payload": data, "attempt": 2, "max_attempts": 5,
            "timeout_s": None, "headers": b'{"trace":"x"}', **fields,
        }
    )  # fmt: skip
    return Attempt(item, handlers.by_kind[kind], Job(item, UUIDS, save))


@in_process("echo", runs_in="process")
def echo(payload: Any) -> Any:
    return payload


@in_process("length", runs_in="process")
def length(payload: str) -> int:
    return len(payload)


@in_process("pid", runs_in="process")
def pid(payload: Any) -> int:
    return os.getpid()


# What a job is told, and everything it can return or raise.


@in_process("told", runs_in="process")
def told(payload: Any, job: Job) -> dict[str, Any]:
    job.check()
    return {
        "id": job.id, "uuid": job.uuid, "lease": job.lease_id, "queue": job.queue,
        "kind": job.kind, "attempt": job.attempt, "max_attempts": job.max_attempts,
        "headers": job.headers, "deadline": job.deadline, "cancelled": job.cancelled,
        "fields": dict(job.log.extra or {}),
    }  # fmt: skip


@in_process("deadline", runs_in="process")
def deadline(payload: Any, job: Job) -> float:
    assert job.deadline is not None
    return (job.deadline - dt.datetime.now(dt.UTC)).total_seconds()


class Unencodable:
    pass


class HostileError(Exception):
    """Cannot be shown, nor pickled, nor made again."""

    def __init__(self, _one: int, _two: int) -> None:
        super().__init__()
        self.lock = threading.Lock()

    def __str__(self) -> str:
        raise SystemExit(9)


class LeavingError(Exception):
    pass


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def too_deep() -> int:
    return too_deep() + 1


RETURNS: dict[str, Any] = {
    "nothing": None,
    "false": False,
    "text": "ä\u2028😀",
    "date": dt.datetime(2026, 1, 2, tzinfo=dt.UTC),
    "big": "x" * 1_000_000,
    "over 1 MiB": "x" * 1_048_577,
    "over 1 MiB in UTF-8": "ä" * 600_000,
    "set": {1},
    "bytes": b"x",
    "object": Unencodable(),
    "nan": math.nan,
    "nul": "a\0b",
    "surrogate": "\ud800",
    "deep": nested(100_000),
    "function": nested,
}


@in_process("returns", runs_in="process")
def returns(payload: str) -> Any:
    return RETURNS[payload]


RAISES: dict[str, Any] = {
    "error": lambda: ValueError("no"),
    "nul and surrogate": lambda: ValueError("a\0b\ud800"),
    "long": lambda: ValueError("x" * 100_000),
    "key": lambda: KeyError(3),
    "hostile": lambda: HostileError(1, 2),
    "permanent": lambda: PermanentError("never"),
    "permanent by policy": ZeroDivisionError,
    "leaving": LeavingError,
    "retry in": lambda: RetryIn(12.5, "later"),
    "retry in nan": lambda: RetryIn(math.nan),
    "snooze": lambda: Snooze(30),
    "snooze nan": lambda: Snooze(math.nan),
    "cancelled": Cancelled,
    "asyncio's": asyncio.CancelledError,
    "exit": lambda: SystemExit(3),
    "interrupt": KeyboardInterrupt,
    "generator's": GeneratorExit,
    "group": lambda: BaseExceptionGroup("g", [SystemExit(1), ValueError("v")]),
    "memory": MemoryError,
    "recursion": too_deep,
}


def wait_by_error(attempt: int, error: BaseException) -> float | None:
    return 100.0 * attempt if isinstance(error, KeyError) else None


@in_process("raises", runs_in="process", permanent=[ZeroDivisionError], backoff=wait_by_error)
def raises(payload: str) -> NoReturn:
    error = RAISES[payload]()
    raise error


@in_process("raises, choosy", runs_in="process", retry=[ValueError])
def raises_choosy(payload: str) -> NoReturn:
    error = RAISES[payload]()
    raise error


@in_process("snoozes", runs_in="process")
def snoozes(payload: float, job: Job) -> None:
    job.snooze(payload)


@dataclasses.dataclass(frozen=True)
class Size:
    width: int
    height: int = 1


class Named(msgspec.Struct):
    name: str
    size: Size | None = None


@in_process("area", runs_in="process")
def area(payload: Size) -> int:
    return payload.width * payload.height


@in_process("name", runs_in="process")
def name(payload: Named) -> str:
    return f"{payload.name} {payload.size!r}"


def before(job: Job) -> None:
    if job.headers.get("before") == "raises":
        raise ValueError("before")


def after(job: Job, error: BaseException | None) -> None:
    job.progress({"after": repr(error)})
    if job.headers.get("after") == "raises":
        raise ValueError("after")


@in_process("hooked", runs_in="process", before=before, after=after)
def hooked(payload: Any, job: Job) -> Any:
    job.progress({"during": payload})
    if payload == "raises":
        raise ValueError("during")
    return payload


@in_process("progress", runs_in="process")
def progress(payload: Any, job: Job) -> None:
    job.progress(payload)


@in_process("too much progress", runs_in="process")
def too_much_progress(payload: Any, job: Job) -> None:
    job.progress("x" * 65_536)


# Progress and cancellation over time.


@in_process("counts", runs_in="process")
def counts(payload: int, job: Job) -> int:
    for i in range(payload):
        job.progress(i)
    return payload


@in_process("sleeps", runs_in="process")
def sleeps(payload: float) -> None:
    time.sleep(payload)


@in_process("reports and waits", runs_in="process")
def reports_and_waits(payload: Any, job: Job) -> None:
    """Says something twice, and then computes until it is cancelled."""
    job.progress("first")
    job.progress("second")
    while True:
        job.check()


@in_process("threads report", runs_in="process")
def threads_report(payload: int, job: Job) -> None:
    """And one of them goes on when the job has ended."""

    def report(rounds: int) -> None:
        for i in range(rounds):
            job.progress(i)

    threads = [threading.Thread(target=report, args=(payload,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    threading.Thread(target=report, args=(10_000_000,), daemon=True).start()


@in_process("gate", runs_in="process")
def gate(payload: Any, job: Job) -> int:
    """Says its process and waits until it is cancelled or told, by a file, to end."""
    job.progress(os.getpid())
    while not (payload and Path(payload).exists()):
        job.check()
        time.sleep(0.001)
    return os.getpid()


@in_process("stubborn", runs_in="process")
def stubborn(payload: Any, job: Job) -> None:
    job.progress(os.getpid())
    while True:
        with contextlib.suppress(BaseException):
            time.sleep(60)


@in_process("holds the lock", runs_in="process")
def holds_the_lock(payload: Any, job: Job) -> int:
    """Runs no Python for hours: no other thread of its process gets its turn."""
    job.progress(os.getpid())
    return sum(range(10**15))


@in_process("leaves when cancelled", runs_in="process")
def leaves_when_cancelled(payload: Any, job: Job) -> None:
    job.progress(os.getpid())
    while not job.cancelled:
        time.sleep(0.001)
    os._exit(4)


@in_process("starts a program and waits", runs_in="process")
def starts_a_program_and_waits(payload: Any, job: Job) -> None:
    program = subprocess.Popen(["sleep", "1000"])
    job.progress(program.pid)
    while True:
        time.sleep(60)


@in_process("prints", runs_in="process")
def prints(payload: str) -> str:
    print(payload)
    print(payload, file=sys.stderr)
    os.write(1, b"written to 1\n")
    os.write(2, b"written to 2\n")
    return sys.stdin.read()


@in_process("closes its output", runs_in="process")
def closes_its_output(payload: Any) -> None:
    sys.stdout.close()
    sys.stderr.close()


@in_process("logs", runs_in="process")
def logs(payload: str, job: Job) -> None:
    job.log.info(payload)
    job.log.debug("not shown")


@in_process("signals itself", runs_in="process")
def signals_itself(payload: int) -> str:
    os.kill(os.getpid(), payload)
    time.sleep(0.01)
    program = "import signal; print(signal.getsignal(signal.SIGINT).__name__)"
    return subprocess.check_output([sys.executable, "-c", program], text=True)


_LEAK: list[bytes] = []


@in_process("leaks", runs_in="process")
def leaks(payload: int) -> tuple[int, int]:
    """How much its process has lost so far, and which it is."""
    _LEAK.append(b"x" * payload)
    return os.getpid(), sum(map(len, _LEAK))


class Counting:
    """A handler that knows how often its process has loaded it."""

    loaded = 0

    def __call__(self, _payload: Any) -> tuple[int, int]:
        return os.getpid(), Counting.loaded

    def __reduce__(self) -> tuple[Any, ...]:
        return _load, ()


def _load() -> Counting:
    Counting.loaded += 1
    return counting


counting = Counting()
in_process("counting", runs_in="process")(counting)
