"""Worker processes, started as a user would."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from tests.support.working import until

ROOT = Path(__file__).resolve().parents[2]
KINDS = "tests.support.job_kinds"


def environment(dsn: str | None, **settings: str) -> dict[str, str]:
    """This process's, with nothing of batchq in it but what is given."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("BATCHQ_", "DATABASE_URL"))}
    return {**kept, **({} if dsn is None else {"DATABASE_URL": dsn}), **settings}


class Process:
    """One `batchq worker` and what it wrote. settings: variables beside its options."""

    def __init__(
        self, dsn: str | None, log: Path, *options: str, cwd: Path | str = ROOT, **settings: str
    ) -> None:
        self._log = log
        command = [sys.executable, "-m", "pybatchq", "worker", *options]
        with log.open("ab") as out:
            self.popen = subprocess.Popen(
                command, cwd=cwd, env=environment(dsn, **settings), stdout=out, stderr=out
            )

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def pid(self) -> int:
        return self.popen.pid

    def signal(self, signum: signal.Signals) -> None:
        self.popen.send_signal(signum)

    async def logged(self, text: str, within_s: float = 15) -> None:
        """Wait for a line with this in it."""

        async def look() -> bool:
            return text in self.log or self.popen.poll() is not None

        await until(look, within_s)
        assert text in self.log

    async def ended(self, within_s: float = 10) -> int:
        """Wait for its end; its exit code."""

        async def look() -> bool:
            return self.popen.poll() is not None

        await until(look, within_s)
        return self.popen.returncode

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.popen.send_signal(signal.SIGCONT)
        self.popen.kill()
        self.popen.wait()


@contextlib.contextmanager
def process(
    dsn: str | None, log: Path, *options: str, cwd: Path | str = ROOT, **settings: str
) -> Iterator[Process]:
    """A worker process that is gone at the end, whatever happens."""
    started = Process(dsn, log, *options, cwd=cwd, **settings)
    try:
        yield started
    finally:
        started.kill()


@contextlib.asynccontextmanager
async def worker_process(
    dsn: str, log: Path, *options: str, kinds: str = KINDS, **settings: str
) -> AsyncIterator[Process]:
    """A worker with the kinds of job_kinds, or of another module, once it works."""
    with process(dsn, log, "--handlers", kinds, *options, **settings) as started:
        await started.logged("worker started")
        yield started
