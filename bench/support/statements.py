"""Counting the statements that a database is sent, in the server's own log.

The log begins each line with the database (log_line_prefix); with log_statement = all there is
one line a statement, whatever the protocol.
"""

from __future__ import annotations

import psycopg
from psycopg import sql

from bench.support.context import Bench
from bench.support.query import number, scalar

LOG_SIZE = "select size from pg_stat_file(pg_current_logfile())"
STATEMENTS = """
    select count(*) from regexp_split_to_table(
        pg_read_file(pg_current_logfile(), %s, 1000000000), E'\\n') as line
    where line ~ %s
"""


class Statements:
    """Those of sessions that begin after this was made; `count()` of those since `begin()`."""

    def __init__(self, bench: Bench, dsn: str) -> None:
        self._bench = bench
        self._database = str(psycopg.conninfo.conninfo_to_dict(dsn)["dbname"])
        self._began_at = 0
        with bench.admin() as conn:
            statement = sql.SQL("alter database {} set log_statement = 'all'")
            conn.execute(statement.format(sql.Identifier(self._database)))

    def begin(self) -> None:
        self._began_at = scalar(self._bench.server.dsn(), LOG_SIZE)

    def count(self) -> int:
        pattern = rf"^{self._database} .*LOG:  (statement|execute [^:]*):"
        with self._bench.admin() as conn:
            return number(conn, STATEMENTS, (self._began_at, pattern))
