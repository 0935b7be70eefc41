"""Any argument of any type: a public function answers, or refuses with a SQLSTATE of class JQ.

F022, F061, F063, F064, F065, F066, F067: never another error, whatever is handed in.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.property import values
from tests.support.profiles import LONG, profile
from tests.support.servers import Databases
from tests.support.sqlfiles import FUNCTION_FILES, PUBLIC_FOLDERS

Session = psycopg.Connection[tuple[Any, ...]]
Parameter = tuple[str, str, bool]

FUNCTIONS = [file.stem for file in FUNCTION_FILES if file.parent.name in PUBLIC_FOLDERS]
# other SQLSTATEs that a function may answer with, and why: none
TOLERATED: dict[str, str] = {}
# session locks are what park is for
KEEPS_LOCKS = {"park"}
SEED = """
    select batchq.enqueue('k', dedupe_key => 'd' || n) from generate_series(1, 6) n;
    select batchq.lease(n => 6, worker => 'w');
    select batchq.enqueue('k', queue => 'other', max_attempts => 1) from generate_series(7, 8);
    select batchq.fail(l.job_id, l.lease_id, 'e') from batchq.lease('other', 2) l;
    select batchq.enqueue('k', timeout => '1 min'), batchq.enqueue('k', delay => '1 day');
    select batchq.cancel(batchq.enqueue('k'));
    select batchq.enqueue('k', queue => 'other');
    select batchq.set_queue('w', group_limit => 1, group_rate => 2, max_running => 3, rate => 4);
    select batchq.enqueue('k', queue => 'w', group_key => 'k') from generate_series(1, 4);
    select batchq.lease('w')"""
PARAMETERS = """
    select a.name, format_type(a.type_id, null), a.ordinal > p.pronargs - p.pronargdefaults
    from pg_proc p, unnest(p.proargnames[:p.pronargs], p.proargtypes[:p.pronargs - 1])
                        with ordinality as a(name, type_id, ordinal)
    where p.pronamespace = 'batchq'::regnamespace and p.proname = %s
    order by a.ordinal"""


@pytest.fixture(scope="module")
def session(server: Databases, template: str) -> Iterator[Session]:
    """A database with jobs 1 … 12 in all states; leases 1 … 6 are those of jobs 1 … 6.

    And a queue with limits and a group, of which one job runs and others are blocked.
    """
    with server.fresh(template) as dsn, psycopg.connect(dsn) as conn:
        conn.autocommit = True
        conn.execute("set client_min_messages to error")
        conn.execute("set statement_timeout to '10 s'")
        for statement in SEED.split(";"):
            conn.execute(statement.encode())
        yield conn


def parameters(session: Session, function: str) -> list[Parameter]:
    return session.execute(PARAMETERS, [function]).fetchall()


def outcome(session: Session, query: str, arguments: dict[str, Any]) -> psycopg.Error | None:
    """The error of a query in a savepoint of its own, which is rolled back then."""
    session.execute("savepoint before")
    try:
        session.execute(query.encode(), arguments)
    except psycopg.Error as error:
        session.execute("rollback to savepoint before")
        return error
    session.execute("release savepoint before")
    return None


def ordinary_job_runs(session: Session) -> None:
    queue = "an ordinary one"
    job_id = one(session, "select batchq.enqueue('k', queue => %s)", queue)
    lease = "select l.lease_id from batchq.lease(%s) l where l.job_id = %s"
    lease_id = one(session, lease, queue, job_id)
    state = one(session, "select batchq.complete(%s, %s)", job_id, lease_id)
    assert state == "completed"


def one(session: Session, query: str, *arguments: Any) -> Any:
    row = session.execute(query.encode(), arguments).fetchone()
    assert row is not None
    return row[0]


def advisory_locks(session: Session) -> int:
    query = "select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()"
    return int(one(session, query))


def check_call(session: Session, function: str, given_: list[Parameter], call: Any) -> None:
    types = {name: of_type for name, of_type, _ in given_}
    casts = [f"%({name})s::{types[name]}" for name in call]
    session.execute(f"select {', '.join(f'{cast} is null' for cast in casts)}".encode(), call)
    arguments = ", ".join(f"{name} => {cast}" for name, cast in zip(call, casts, strict=True))
    session.execute("begin")
    error = outcome(session, f"select count(*) from batchq.{function}({arguments})", call)
    if error is not None and error.sqlstate not in TOLERATED:
        known = [row[0] for row in session.execute("select code from batchq.errors()").fetchall()]
        if error.sqlstate not in known:
            raise error
    ordinary_job_runs(session)
    session.execute("rollback")
    if function in KEEPS_LOCKS:
        session.execute("select pg_advisory_unlock_all()")
    assert advisory_locks(session) == 0


@pytest.mark.timeout(0 if LONG else 60)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_any_arguments(session: Session, function: str) -> None:
    declared = parameters(session, function)
    endless = session.info.server_version >= 170000

    @profile(short=25, long=4000)
    @given(call=values.calls(declared, endless))
    def search(call: dict[str, str | None]) -> None:
        try:
            check_call(session, function, declared, call)
        finally:
            session.execute("rollback")

    search()


@pytest.mark.parametrize("function", FUNCTIONS)
def test_each_odd_value_by_itself(session: Session, function: str) -> None:
    declared = parameters(session, function)
    endless = session.info.server_version >= 170000
    for call in values.single_odd_calls(function, declared, endless):
        try:
            check_call(session, function, declared, call)
        except psycopg.Error as error:
            session.execute("rollback")
            given_ = {name: value and value[:80] for name, value in call.items()}
            pytest.fail(f"{function}({given_}): {error.sqlstate} {error}", pytrace=False)


def test_functions_are_those_of_the_catalogue(session: Session) -> None:
    public = session.execute(
        "select proname from pg_proc"
        " where pronamespace = 'batchq'::regnamespace and left(proname, 1) <> '_'"
    ).fetchall()
    assert sorted(name for (name,) in public) == sorted(FUNCTIONS)


FIELDS = (
    "kind", "payload", "queue", "priority", "run_at", "delay", "max_attempts", "timeout",
    "dedupe_key", "dedupe_scope", "dedupe_for", "on_duplicate", "backoff", "backoff_base",
    "backoff_factor", "backoff_cap", "backoff_jitter", "headers", "group_key",
)  # fmt: skip
field_values = st.one_of(
    values.json_values,
    values.intervals.map(lambda value: f'"{value}"'),
    values.times.map(lambda value: f'"{value}"'),
    values.doubles.map(lambda value: f'"{value}"'),
    st.sampled_from(["1", "5", '"5 min"', '"x"', '"pending"', '"replace"', '"fixed"', '"none"']),
)
job_objects = st.dictionaries(
    st.sampled_from([*FIELDS, "dedupe_key"]), field_values, max_size=4
).map(lambda fields: values.json_object({"kind": '"k"', **fields}))
documents = st.one_of(
    st.lists(st.one_of(job_objects, job_objects, values.json_values), max_size=4).map(
        values.json_array
    ),
    values.json_values,
)


@pytest.mark.timeout(0 if LONG else 60)
def test_a84_enqueue_many_takes_or_refuses_any_document(session: Session) -> None:
    """A document is taken whole, or refused with JQ001 and, for a bad job, its place."""

    @profile(short=300, long=20_000)
    @given(document=documents)
    def search(document: str) -> None:
        try:
            check_document(session, document)
        finally:
            session.execute("rollback")

    search()


def check_document(session: Session, document: str) -> None:
    length = one(
        session,
        "select case jsonb_typeof(d) when 'array' then jsonb_array_length(d) end"
        " from (select %s::jsonb as d) one",
        document,
    )
    session.execute("begin")
    before = one(session, "select count(*) from batchq.job")
    call = {"jobs": document}
    error = outcome(session, "select count(*) from batchq.enqueue_many(%(jobs)s::jsonb)", call)
    if error is not None:
        if error.sqlstate != "JQ001":
            raise error
        if length is not None and length <= 100_000:
            assert re.search(r"\(job \d+\)$", error.diag.message_primary or "")
        assert one(session, "select count(*) from batchq.job") == before
    ordinary_job_runs(session)
    session.execute("rollback")
    assert advisory_locks(session) == 0
