"""Starts a driver program and reads its lines of JSON.

A driver prints one line when it is ready, does its work, and prints one line with what it
measured. Where the work has no end of its own it ends when its standard input is closed; where
it has a beginning to be waited for, it begins when a line arrives there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import psycopg

from bench.support.context import BENCH, REPOSITORY
from bench.support.model import BenchError

STOP_TIMEOUT_S = 20
ANSWER_TIMEOUT_S = 1_200
LAST_LINES = 6
Answer = dict[str, float]
Options = dict[str, Any]
Work = Callable[[], Awaitable[Answer]]
"""What a driver does once it was told to go."""


class Driver:
    """One program: `with driver:` runs it, `read` takes a line, `finish` the last one."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._command = list(command)
        self._environment = dict(environment)
        self._process: subprocess.Popen[str] | None = None
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the process

    @classmethod
    def batchq(cls, task: str, dsn: str, **options: float) -> Driver:
        """One of the tasks of `bench/drivers/batchq.py`."""
        program = str(BENCH / "drivers" / "batchq.py")
        command = [sys.executable, program, task, dsn, json.dumps(options)]
        return cls(command, {"PYTHONPATH": str(REPOSITORY)})

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env={**os.environ, **self._environment},
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        process = self._running()
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None and not pipe.closed:
                pipe.close()
        self._errors.close()

    def read(self) -> Answer:
        """The next line of JSON; BenchError with the program's last words when it died.

        A program that says nothing for too long is killed.
        """
        process = self._running()
        assert process.stdout is not None
        watchdog = threading.Timer(ANSWER_TIMEOUT_S, process.kill)
        watchdog.start()
        try:
            for line in process.stdout:
                if line.startswith("{"):
                    answer: Answer = json.loads(line)
                    return answer
            process.wait()
        finally:
            watchdog.cancel()
        self._errors.seek(0)
        last_words = self._errors.read().strip().splitlines()[-LAST_LINES:]
        raise BenchError(f"{self._command[1]} died: {' / '.join(reversed(last_words))}")

    def finish(self) -> Answer:
        """Say go, and that nothing more will come; the answer is the last line."""
        process = self._running()
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.close()
        return self.read()

    def close(self) -> None:
        """Wait for the program's own end, so that its sessions are gone too."""
        try:
            self._running().wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise BenchError(f"{self._command[1]} does not end") from None

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            raise BenchError("the driver was not started")
        return self._process


async def number(conn: psycopg.AsyncConnection[Any], query: str) -> int:
    """The one number that a query gives; 0 for no row."""
    row = await (await conn.execute(query.encode())).fetchone()
    return int(row[0]) if row else 0
