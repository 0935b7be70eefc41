"""What an idle worker asks of the server: its statements, counted in the server's own log."""

from __future__ import annotations

import time
from collections.abc import Iterator

import psycopg
from psycopg import sql

from bench.drivers.processes import Driver
from bench.support import fill
from bench.support.context import Bench, scalar
from bench.support.model import BenchError, Case, Contestant, Sample, Target

SETTLE_S = 5.0
# The server's log begins each line with the database (log_line_prefix); with log_statement =
# all there is one line a statement, whatever the protocol.
LOG_SIZE = "select size from pg_stat_file(pg_current_logfile())"
STATEMENTS = """
    select count(*) from regexp_split_to_table(
        pg_read_file(pg_current_logfile(), %s, 1000000000), E'\\n') as line
    where line ~ %s
"""


def cases(bench: Bench) -> Iterator[Case]:
    """Every statement counts, heartbeats and the search for due jobs included."""
    yield Case(
        title=f"idle worker, {bench.scale.idle_s:g} s",
        unit="statements in 5 s",
        contestants=[Contestant("batchq", lambda: _count(bench))],
        targets=[Target("batchq", "<=", 1)],
        rounds=1,
    )


def _count(bench: Bench) -> Sample:
    with bench.database("batchq", fill.install_batchq) as dsn:
        name = psycopg.conninfo.conninfo_to_dict(dsn)["dbname"]
        assert isinstance(name, str)
        with bench.admin() as conn:
            statement = sql.SQL("alter database {} set log_statement = 'all'")
            conn.execute(statement.format(sql.Identifier(name)))
        with Driver.batchq("worker", dsn, concurrency=10) as driver, bench.admin() as conn:
            driver.read()
            time.sleep(SETTLE_S)
            began_at = scalar(bench.server.dsn(), LOG_SIZE)
            time.sleep(bench.scale.idle_s)
            pattern = rf"^{name} .*LOG:  (statement|execute [^:]*):"
            row = conn.execute(STATEMENTS.encode(), (began_at, pattern)).fetchone()
            driver.finish()
            driver.close()
            if row is None:
                raise BenchError("the server's log cannot be read")
        statements = int(row[0])
        return Sample(statements * 5 / bench.scale.idle_s, {"statements": statements})
