"""`batchq worker` as a process, started and stopped as its users do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

import psycopg

from bench.drivers.kinds import MODULE
from bench.support.context import REPOSITORY
from bench.support.metrics import family_cpu_s
from bench.support.model import BenchError
from bench.support.query import number

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 30.0
LOOK_EVERY_S = 0.02
LAST_WORDS = 300
SAID = "select count(*) from batchq.worker w where not w.stopping"
Option = str | int
Options = dict[str, Option]


class Command:
    """One `batchq worker` with the bench's kinds. `with` starts it, and kills what is left of it.

    Options are the command's own: grace="1s" is --grace 1s.
    """

    def __init__(
        self, dsn: str, environment: Mapping[str, str] | None = None, **options: Option
    ) -> None:
        self._dsn = dsn
        self._environment = {**(environment or {}), "DATABASE_URL": dsn}
        self._options = {"handlers": MODULE, **options}
        self._process: subprocess.Popen[bytes] | None = None
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "pybatchq", "worker"]
        for name, value in self._options.items():
            command += [f"--{name}", str(value)]
        kept = {k: v for k, v in os.environ.items() if not k.startswith("BATCHQ_")}
        self._process = subprocess.Popen(
            command, cwd=REPOSITORY, env={**kept, **self._environment},
            stdout=self._output, stderr=self._output,
        )  # fmt: skip
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._started().poll() is None:
            self._started().kill()
            self._started().wait()
        self._output.close()

    def await_registered(self, processes: int = 1) -> None:
        """Wait until so many worker processes have said in the registry that they work."""
        deadline = time.monotonic() + START_TIMEOUT_S
        with psycopg.connect(self._dsn, autocommit=True) as conn:
            while (found := number(conn, SAID)) != processes:
                if self._started().poll() is not None or time.monotonic() > deadline:
                    raise BenchError(
                        f"{found} of {processes} workers started: {self._last_words()}"
                    )
                time.sleep(LOOK_EVERY_S)

    def cpu_s(self) -> float:
        """Processor seconds so far, of all its processes."""
        return family_cpu_s(self._started().pid)

    def stop(self, *codes: int) -> float:
        """SIGTERM; the seconds until the process is gone. BenchError for another exit code."""
        process = self._started()
        watchdog = threading.Timer(STOP_TIMEOUT_S, process.kill)
        watchdog.start()
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        code = process.wait()
        took_s = time.monotonic() - began
        watchdog.cancel()
        if code not in (codes or (0,)):
            raise BenchError(f"the worker ended with {code}: {self._last_words()}")
        return took_s

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise BenchError("the worker was not started")
        return self._process

    def _last_words(self) -> str:
        self._output.seek(0)
        return " ".join(self._output.read().decode(errors="replace").split())[-LAST_WORDS:]
