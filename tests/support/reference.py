"""Writes sql/REFERENCE.md from the comments in the database. Run by `make reference`."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg

ROOT = Path(__file__).resolve().parents[2]
SQL = ROOT / "sql"
REFERENCE = SQL / "REFERENCE.md"
ROLES = ("producer", "worker", "operator", "monitor")

HEAD = """# Reference

Every public function of the schema `batchq`, from its comment in the database; `make reference`
writes this file. Call functions with named arguments: `batchq.enqueue('send', queue => 'mail')`.
"""
AUDIENCE = {
    "producer": "for whoever adds jobs",
    "worker": "for whoever runs them",
    "operator": "for whoever runs the queue",
    "monitor": "for whoever watches; the other three roles may call these too",
}
FUNCTIONS = """
select p.proname, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid),
       obj_description(p.oid, 'pg_proc')
from pg_proc p
where p.pronamespace = 'batchq'::regnamespace
order by 1
"""
TYPES = """
select c.relname, obj_description(t.oid, 'pg_type'),
       array_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod) order by a.attnum)
from pg_class c
join pg_type t on t.typrelid = c.oid
join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
where c.relnamespace = 'batchq'::regnamespace and c.relkind = 'c'
group by 1, 2
order by 1
"""
VIEWS = """
select c.relname, obj_description(c.oid, 'pg_class'),
       array_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod) order by a.attnum)
from pg_class c
join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
where c.relnamespace = 'batchq'::regnamespace and c.relkind = 'v'
group by 1, 2
order by 1
"""

LABELS = ("Returns", "Errors", "Role", "Example")

Row = tuple[Any, ...]


def render(conn: psycopg.Connection[Row]) -> str:
    """The whole file, from a database with batchq installed."""
    conn.execute("set search_path = pg_catalog")
    functions = {row[0]: row for row in conn.execute(FUNCTIONS)}
    parts = [HEAD]
    for role in ROLES:
        parts.append(f"## {role.capitalize()}\n\nRole `batchq_{role}`: {AUDIENCE[role]}.\n")
        names = sorted(file.stem for file in (SQL / "functions" / role).glob("*.sql"))
        parts += [_function(functions[name]) for name in names]
    parts += _relations("Types", conn.execute(TYPES).fetchall())
    parts += _relations("Views", conn.execute(VIEWS).fetchall())
    return "\n".join(parts)


def _function(row: Row) -> str:
    name, arguments, result, comment = row
    listed = [_argument(argument) for argument in _split_arguments(arguments)]
    returns = f"returns {_type(result)}"
    call = f"batchq.{name}({', '.join(listed)}) {returns}"
    if len(call) > 96:
        call = "\n".join(
            [f"batchq.{name}(", ",\n".join(f"    {a}" for a in listed), f") {returns}"]
        )
    return f"### {name}\n\n```sql\n{call}\n```\n\n{_text(comment)}\n"


def _relations(title: str, rows: Sequence[Row]) -> list[str]:
    parts = [f"## {title}\n"]
    for name, comment, columns in rows:
        listed = "\n".join(f"- `{_type(column)}`" for column in columns)
        parts.append(f"### {name}\n\n{_text(comment)}\n\n{listed}\n")
    return parts


def _split_arguments(arguments: str) -> list[str]:
    """At commas outside quotes and parentheses."""
    joined = [""]
    for piece in re.findall(r"'(?:[^']|'')*'|\([^()]*\)|[^,'(]+|,", arguments):
        if piece == ",":
            joined.append("")
        else:
            joined[-1] += piece
    return [argument.strip() for argument in joined]


def _argument(argument: str) -> str:
    """As one would write it: no cast behind a default."""
    declared, default, value = argument.partition(" DEFAULT ")
    value = re.sub(r"::[a-z \[\]]+$", "", value)
    value = "null" if value == "NULL" else value
    return _type(declared) + (f" default {value}" if default else "")


def _type(declared: str) -> str:
    short = declared.replace("timestamp with time zone", "timestamptz").replace("batchq.", "")
    return short.replace("SETOF", "setof")


def _text(comment: str | None) -> str:
    """The closing lines of a comment, Returns to Example, as a list."""
    lines: list[str] = []
    in_list = False
    for line in (comment or "").strip().splitlines():
        label, colon, rest = line.partition(": ")
        if colon and label in LABELS:
            in_list = True
            lines.append(f"- **{label}:** " + (f"`{rest}`" if label == "Example" else rest))
        else:
            in_list = in_list and bool(line)
            lines.append(f"  {line}" if in_list else line)
    return "\n".join(lines)


def main() -> None:
    sys.path.insert(0, str(ROOT))
    from tests.support.servers import Databases, running

    with running(None) as server:
        databases = Databases(server.dsn(), server.bin_dir)
        with psycopg.connect(databases.dsn(databases.installed())) as conn:
            REFERENCE.write_text(render(conn))
    print(f"wrote {REFERENCE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
