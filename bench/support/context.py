"""The bench's own server and the databases in it: one made afresh for every sample."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
from psycopg import sql

from bench.support import pgbench
from bench.support.metrics import Meter
from bench.support.model import BenchError
from bench.support.scale import Scale
from pybatchq.embedded import Server, Setting

BENCH = Path(__file__).resolve().parents[1]
REPOSITORY = BENCH.parent

# Durable, and the same for everyone: nothing here is off that a careful owner would leave on.
SETTINGS: Mapping[str, Setting] = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "1GB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "30min",
    "max_connections": 200,
    "autovacuum": "on",
    "track_io_timing": "off",
    "logging_collector": "on",
    "log_line_prefix": "%d %p ",
    "log_autovacuum_min_duration": -1,
    "log_checkpoints": "off",
}

Builder = Callable[[str], None]


@dataclass(slots=True)
class Bench:
    """Everything a workload is given."""

    server: Server
    scale: Scale
    cache: Path
    """Where products are installed; outside the repository's tracked files."""
    note: Callable[[str], None] = print
    """Tells the user what is going on, one short line."""
    _templates: dict[str, str] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def admin(self) -> psycopg.Connection:
        return psycopg.connect(self.server.dsn(), autocommit=True)

    @contextmanager
    def database(self, template: str, build: Builder) -> Iterator[str]:
        """A fresh copy of a template (built at its first use); dropped at the end.

        The checkpoint before it gives every sample the same start: no dirty pages of the one
        before, and no full-page images of pages that this sample fills itself.
        """
        source = self._template(template, build)
        name = f"bench_{next(self._numbers)}"
        with self.admin() as conn:
            conn.execute("checkpoint")
            conn.execute(
                sql.SQL("create database {} template {}").format(
                    sql.Identifier(name), sql.Identifier(source)
                )
            )
        try:
            yield self.server.dsn(name)
        finally:
            self._drop(name)

    def meter(self, dsn: str) -> Meter:
        pid = self.server.pid
        if pid is None:
            raise BenchError(f"the server is gone:\n{self.server.log_tail()}")
        return Meter(pid, dsn)

    def pgbench(self, dsn: str, load: pgbench.Load) -> pgbench.Result:
        return pgbench.run(self.server.bin_dir, dsn, load)

    def _template(self, name: str, build: Builder) -> str:
        if name not in self._templates:
            database = f"template_{name}"
            with self.admin() as conn:
                conn.execute(sql.SQL("create database {}").format(sql.Identifier(database)))
            try:
                build(self.server.dsn(database))
            except BaseException:
                self._drop(database)
                raise
            self._templates[name] = database
        return self._templates[name]

    def _drop(self, name: str) -> None:
        with self.admin() as conn:
            statement = sql.SQL("drop database if exists {} with (force)")
            conn.execute(statement.format(sql.Identifier(name)))


def run_sql(dsn: str, text: str) -> None:
    """Run a script of several statements."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(text.encode())
