"""Handlers that break the process they run in, or that do not let it go."""

from __future__ import annotations

import atexit
import contextlib
import os
import socket
import threading
import time
from pathlib import Path
from typing import Any

from pybatchq import Job
from tests.support.process_kinds import registry

in_process = registry.handler


@in_process("dies", runs_in="process")
def dies(payload: int) -> None:
    if payload < 0:
        os.kill(os.getpid(), -payload)
    os._exit(payload)


@in_process("crashes", runs_in="process")
def crashes(payload: Any) -> None:
    import ctypes

    ctypes.string_at(0)


@in_process("forks and dies", runs_in="process")
def forks_and_dies(payload: Any, job: Job) -> None:
    """What it has forked holds all that was open, for ever."""
    child = os.fork()
    if child == 0:
        while True:
            time.sleep(60)
    job.progress(child)
    time.sleep(0.3)  # for the progress to be sent
    os._exit(5)


@in_process("closes all", runs_in="process")
def closes_all(payload: Any) -> None:
    os.closerange(3, 1000)


@in_process("becomes a program", runs_in="process")
def becomes_a_program(payload: Any) -> None:
    os.execvp("sleep", ["sleep", "1000"])


@in_process("talks nonsense", runs_in="process")
def talks_nonsense(payload: str) -> None:
    """To its parent, whose socket has some number."""
    for number in range(3, 1000):
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(number)) as found:
            found.sendall(payload.encode())
    time.sleep(60)


@in_process("writes at exit", runs_in="process")
def writes_at_exit(payload: str) -> int:
    atexit.register(Path(payload).write_text, "left in order")
    return os.getpid()


@in_process("leaves a thread", runs_in="process")
def leaves_a_thread(payload: Any) -> int:
    threading.Thread(target=time.sleep, args=(1000,)).start()
    return os.getpid()
