"""HTTP servers as processes, loads upon them, and whether what they said is what is stored."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.error import URLError
from urllib.request import urlopen

import psycopg

from bench.drivers.processes import Answer, Driver
from bench.support.context import BENCH, REPOSITORY
from bench.support.metrics import family_cpu_s
from bench.support.model import BenchError

HOST = "127.0.0.1"
START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 20.0
LOOK_EVERY_S = 0.02
LAST_WORDS = 300
CLIENT = str(BENCH / "drivers" / "http_client.py")
PEER = str(BENCH / "peers" / "http_server.py")
API = ("-m", "pybatchq", "api")
STORED = "copy (select id from batchq.jobs) to stdout"


class Served:
    """One server, started as its users do; ready inside `with`. Its log goes to a file."""

    def __init__(self, dsn: str, command: Sequence[str]) -> None:
        self._dsn = dsn
        self._command = [sys.executable, *command]
        self._process: subprocess.Popen[bytes] | None = None
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self.port = _free_port()

    def __enter__(self) -> Self:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("BATCHQ_")}
        own = {"DATABASE_URL": self._dsn, "BATCHQ_PORT": str(self.port)}
        self._process = subprocess.Popen(
            self._command, cwd=REPOSITORY, env={**kept, **own},
            stdout=self._log, stderr=self._log,
        )  # fmt: skip
        try:
            self._await_ready()
        except BaseException:
            self._end(signal.SIGKILL)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._running().poll() is None:
            self._end(signal.SIGTERM)
        self._log.close()

    def cpu_s(self) -> float:
        """Processor seconds so far, of all its processes."""
        return family_cpu_s(self._running().pid)

    def stop(self) -> None:
        """SIGTERM. BenchError unless it ends well."""
        code = self._end(signal.SIGTERM)
        if code:
            raise BenchError(f"the server ended with {code}: {self._last_words()}")

    def _await_ready(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                with urlopen(f"http://{HOST}:{self.port}/ready", timeout=START_TIMEOUT_S):
                    return
            except (URLError, ConnectionError):
                if self._running().poll() is not None or time.monotonic() > deadline:
                    raise BenchError(f"the server is not ready: {self._last_words()}") from None
            time.sleep(LOOK_EVERY_S)

    def _end(self, signum: int) -> int:
        process = self._running()
        process.send_signal(signum)
        try:
            return process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise BenchError("the server was not started")
        return self._process

    def _last_words(self) -> str:
        self._log.seek(0)
        return " ".join(self._log.read().decode(errors="replace").split())[-LAST_WORDS:]


class Load:
    """Clients that are connected, and go when they are told to; see bench/drivers/http_client.py.

    `with Load(port, …) as load: load.go(); load.answer()`
    """

    def __init__(self, port: int, **options: Any) -> None:
        command = [sys.executable, CLIENT, json.dumps({"port": port, **options})]
        self._driver = Driver(command, {"PYTHONPATH": str(REPOSITORY)})

    def __enter__(self) -> Self:
        self._driver.__enter__()
        self._driver.read()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._driver.__exit__(kind, error, trace)

    def go(self) -> float:
        """Send; returns after the last answer: the seconds from the first request until then."""
        return self._driver.finish()["seconds"]

    def answer(self) -> Answer:
        """What was measured. BenchError if any answer was not a 2xx."""
        answer = self._driver.read()
        if answer["refused"]:
            raise BenchError(f"{answer['refused']:g} of {answer['answers']:g} answers were no 2xx")
        return answer


def run(port: int, **options: Any) -> Answer:
    """A load from its beginning to its end."""
    with Load(port, **options) as load:
        load.go()
        return load.answer()


@contextmanager
def id_file() -> Iterator[Path]:
    """Where a load writes the ids that it was given."""
    with tempfile.TemporaryDirectory(prefix="bench-http-") as folder:
        yield Path(folder) / "ids"


def accepted(file: Path) -> set[int]:
    """The ids that the client kept. BenchError if one was given out twice."""
    ids = array("q")
    ids.frombytes(file.read_bytes())
    different = set(ids)
    if len(different) != len(ids):
        raise BenchError(f"{len(ids) - len(different)} ids were given out twice")
    return different


def expect_stored(dsn: str, ids: set[int], query: str = STORED) -> None:
    """The ids that clients were given are those that are stored: no job more, none less."""
    stored: set[int] = set()
    with psycopg.connect(dsn) as conn, conn.cursor().copy(query.encode()) as copy:
        stored = {int(line) for block in copy for line in bytes(block).split()}
    if stored != ids:
        raise BenchError(
            f"{len(ids - stored)} accepted jobs are not stored, {len(stored - ids)} stored jobs"
            " were not accepted"
        )


def latencies(answer: Mapping[str, float]) -> dict[str, float]:
    """The part of an answer that is shown beside a rate, in ms."""
    return {name: answer[name] for name in ("p50", "p99", "p99.9", "max")}


def _free_port() -> int:
    with socket.create_server((HOST, 0)) as listening:
        return int(listening.getsockname()[1])
