"""What the server spends: processor time, write-ahead log, dead row versions."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

import psutil
import psycopg

from bench.support.model import BenchError, Cost
from bench.support.query import number

QUIET_TIMEOUT_S = 5.0
# A deleted row and the old version of an updated row are dead; both are counted when made,
# so the figure does not depend on when autovacuum comes by.
DEAD_MADE = """
    select coalesce(sum(s.n_tup_del + s.n_tup_upd), 0)::bigint from pg_stat_user_tables s
"""
OTHERS = """
    select count(*) from pg_stat_activity a
    where a.datname = current_database() and a.backend_type = 'client backend'
      and a.pid <> pg_backend_pid()
"""


def family_cpu_s(pid: int) -> float:
    """Processor seconds so far of a process and all that it started, those that ended included."""
    own = psutil.Process(pid).cpu_times()
    return float(own.user + own.system) + descendants_cpu_s(pid)


def descendants_cpu_s(pid: int) -> float:
    """The same without the process itself."""
    root = psutil.Process(pid)
    reaped = root.cpu_times()
    total = float(reaped.children_user + reaped.children_system)
    for process in root.children(recursive=True):
        try:
            spent = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += spent.user + spent.system + spent.children_user + spent.children_system
    return total


class Meter:
    """Measures what the server spends inside a `with` block; `cost(jobs)` afterwards.

    Work that autovacuum and the checkpointer do meanwhile is part of the price.
    """

    def __init__(self, pid: int, dsn: str) -> None:
        self._pid = pid
        self._dsn = dsn
        self._start: tuple[float, int, int] | None = None
        self._spent: tuple[float, int, int] | None = None
        self.elapsed_s = 0.0
        self._began = 0.0
        self._others = 0

    def __enter__(self) -> Self:
        with psycopg.connect(self._dsn, autocommit=True) as conn:
            self._others = number(conn, OTHERS)
        self._start = self._read()
        self._began = time.monotonic()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.elapsed_s = time.monotonic() - self._began
        if error is None and self._start is not None:
            now = self._read()
            cpu, wal, dead = (
                after - before for after, before in zip(now, self._start, strict=True)
            )
            self._spent = (cpu, int(wal), int(dead))

    def cost(self, jobs: float) -> Cost:
        if self._spent is None:
            raise BenchError("nothing was measured")
        cpu, wal, dead = self._spent
        share = 1 / jobs if jobs else 0.0
        return Cost(cpu, cpu * 1e6 * share, wal * share, dead * share)

    def _read(self) -> tuple[float, int, int]:
        """Counters of table activity arrive when a session ends: wait for those that came."""
        with psycopg.connect(self._dsn, autocommit=True) as conn:
            wal = number(conn, "select (pg_current_wal_insert_lsn() - '0/0')::bigint")
            deadline = time.monotonic() + QUIET_TIMEOUT_S
            while number(conn, OTHERS) > self._others and time.monotonic() < deadline:
                time.sleep(0.02)
            dead = number(conn, DEAD_MADE)
        return family_cpu_s(self._pid), wal, dead
