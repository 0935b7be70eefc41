"""What a statement did, with everything it called, and sessions whose plans are old.

Plans are looked at as the functions run them: auto_explain, nested.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg

Connection = psycopg.Connection[tuple[Any, ...]]
Parameters = Mapping[str, object] | Sequence[object]

# one row each
READ_WHOLE = {"installation", "position"}
# statistics stay as they are
NO_AUTOVACUUM = """
    do $$
    declare
        v_name text;
    begin
        for v_name in
            select oid::regclass::text from pg_class
            where relnamespace = 'batchq'::regnamespace and relkind = 'r'
        loop
            execute format('alter table %s set (autovacuum_enabled = off)', v_name);
        end loop;
    end
    $$"""


@dataclass(slots=True)
class Profile:
    """What one statement did, with everything it called. Buffers: hit and read."""

    buffers: int = 0
    nodes: list[dict[str, Any]] = field(default_factory=list)

    @property
    def indexes(self) -> set[str]:
        return {node["Index Name"] for node in self.nodes if "Index Name" in node}

    @property
    def seq_scans(self) -> set[str]:
        kind = ("Seq Scan", "Bitmap Heap Scan", "Parallel Seq Scan")
        scans = {n.get("Relation Name", "?") for n in self.nodes if n["Node Type"] in kind}
        return scans - READ_WHOLE

    @property
    def sorted_rows(self) -> int:
        return max((n["Actual Rows"] for n in self.nodes if n["Node Type"] == "Sort"), default=0)

    @property
    def rows_filtered(self) -> int:
        return max((n.get("Rows Removed by Filter", 0) for n in self.nodes), default=0)


class Explained:
    """A session whose every statement, nested ones too, is explained as it runs."""

    def __init__(self, conn: Connection) -> None:
        self.conn = conn
        self._plans: list[dict[str, Any]] = []
        conn.execute("load 'auto_explain'")
        for name, setting in {
            "log_min_duration": "0",
            "log_nested_statements": "on",
            "log_analyze": "on",
            "log_timing": "off",
            "log_buffers": "on",
            "log_format": "json",
            "log_level": "notice",
        }.items():
            conn.execute(f"set auto_explain.{name} = {setting}".encode())
        conn.add_notice_handler(self._notice)

    def _notice(self, diagnostic: psycopg.errors.Diagnostic) -> None:
        _, found, plan = (diagnostic.message_primary or "").partition("plan:\n")
        if found:
            self._plans.append(json.loads(plan)["Plan"])

    def profile(self, query: str, parameters: Parameters = ()) -> Profile:
        self._plans.clear()
        # by the simple protocol: otherwise the outermost statement ends with the next one only
        psycopg.ClientCursor(self.conn).execute(query.encode(), parameters)
        outermost = self._plans[-1]
        hit = outermost.get("Shared Hit Blocks", 0) + outermost.get("Shared Read Blocks", 0)
        return Profile(hit, [node for plan in self._plans for node in walk(plan)])


def walk(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from walk(child)


def warm(conn: Connection, calls: Mapping[str, tuple[str, int]], filler: Parameters) -> None:
    """Ten rounds of every call while the tables are empty and analysed as such."""
    conn.execute("vacuum analyze")
    for query, _ in calls.values():
        for _ in range(10):
            try:
                with conn.transaction(force_rollback=True):
                    conn.execute(query.encode(), filler)
            except psycopg.Error as error:
                if not (error.sqlstate or "").startswith("JQ"):  # no such job, lease lost
                    raise
