"""Who may do what, tried out: every function called and every table touched, as each role.

F074. The matrix is the folders: a role may call the functions of its folder and monitor's; maintain
and reap are also the worker's. Nobody but the owner touches a table, but for reading the view jobs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import errors, sql

from pybatchq import install
from tests.support.servers import Databases
from tests.support.sqlfiles import FUNCTION_FILES, PUBLIC_FOLDERS

Connection = psycopg.Connection[tuple[Any, ...]]

NOBODY = "batchq_test_nobody"  # may enter the schema, nothing more
ROLES = (NOBODY, *(f"batchq_{folder}" for folder in PUBLIC_FOLDERS))
ALSO = {
    "batchq_worker": {"maintain", "reap"},
    "batchq_monitor": {"list_audit", "list_tokens"},
}
READS_JOBS = {"batchq_operator", "batchq_monitor"}


@pytest.fixture(scope="module")
def owner(server: Databases, template: str) -> Iterator[Connection]:
    """A superuser's session. A role cannot be dropped while a database knows of it."""
    role = sql.Identifier(NOBODY)
    with server.fresh(template) as dsn, psycopg.connect(dsn, autocommit=True) as conn:
        with contextlib.suppress(errors.DuplicateObject):
            conn.execute(sql.SQL("create role {} nologin").format(role))
        conn.execute(sql.SQL("grant usage on schema batchq to {}").format(role))
        yield conn
        conn.execute(sql.SQL("drop owned by {0}; drop role {0}").format(role))


@pytest.fixture(params=ROLES)
def role(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@contextlib.contextmanager
def acting(owner: Connection, role: str) -> Iterator[Connection]:
    """A transaction as that role, rolled back at the end."""
    with owner.transaction(force_rollback=True):
        owner.execute(sql.SQL("set local role {}").format(sql.Identifier(role)))
        yield owner


def allowed(role: str) -> set[str]:
    if role == NOBODY:
        return set()
    folders = (role.removeprefix("batchq_"), "monitor")
    return {f.stem for f in FUNCTION_FILES if f.parent.name in folders} | ALSO.get(role, set())


def outcome(conn: Connection, statement: str, *names: sql.Composable) -> str:
    """'done', 'denied' for want of a right, or 'failed' for any other reason."""
    try:
        with conn.transaction(force_rollback=True):
            conn.execute(sql.SQL(statement).format(*names))
    except errors.InsufficientPrivilege:
        return "denied"
    except psycopg.Error:
        return "failed"
    return "done"


def test_f074_each_role_can_call_exactly_its_functions(owner: Connection, role: str) -> None:
    functions = owner.execute(
        """
        select p.proname, array(select format_type(t, null) from unnest(p.proargtypes) t)
        from pg_proc p where p.pronamespace = 'batchq'::regnamespace
        """
    ).fetchall()
    assert len(functions) == len(FUNCTION_FILES)
    called = set()
    with acting(owner, role) as conn:
        for name, types in functions:
            nulls = ", ".join(f"null::{type_}" for type_ in types)
            # a function that does not like its arguments has been called
            if outcome(conn, f"select batchq.{name}({nulls})") != "denied":
                called.add(name)
    assert called == allowed(role)


def test_f074_no_role_touches_a_table(owner: Connection, role: str) -> None:
    tables = [
        row[0]
        for row in owner.execute(
            "select relname from pg_class where relnamespace = 'batchq'::regnamespace "
            "and relkind in ('r', 'p', 'v')"
        )
    ]
    assert {
        "job",
        "job_7",
        "ready",
        "jobs",
        "floor",
        "migration",
        "worker",
        "token",
        "audit",
        "session",
    } <= set(tables)
    done = set()
    with acting(owner, role) as conn:
        for table in tables:
            name = sql.Identifier("batchq", table)
            for statement in (
                "select from {}",
                "insert into {} select from {} limit 0",
                "update {} set id = id where false",
                "delete from {} where false",
                "truncate {}",
                "lock table {} in share mode",
                "alter table {} add column extra integer",
                "drop table {}",
            ):
                if outcome(conn, statement, *[name] * statement.count("{}")) == "done":
                    done.add((table, statement.split()[0]))
    reads = {("jobs", "select")} if role in READS_JOBS else set()
    assert done == reads


def test_f074_no_role_draws_from_a_sequence(owner: Connection, role: str) -> None:
    with acting(owner, role) as conn:
        for sequence in ("position", "lease_number", "current_segment", "floor_generation"):
            for call in ("nextval('batchq.{}')", "setval('batchq.{}', 1)"):
                said = outcome(conn, f"select {call.format(sequence)}")
                assert said == "denied", (sequence, call)
            assert outcome(conn, f"select last_value from batchq.{sequence}") == "denied"


def test_f074_no_role_makes_anything_in_the_schema(owner: Connection, role: str) -> None:
    with acting(owner, role) as conn:
        for statement in (
            "create table batchq.mine (id bigint)",
            "create function batchq.mine() returns integer language sql return 1",
            (
                "create or replace function batchq._now() returns timestamptz language sql "
                "volatile return now()"
            ),
            "alter function batchq.lease reset all",
            "drop function batchq.lease",
            "drop schema batchq cascade",
        ):
            assert outcome(conn, statement) == "denied", statement


async def test_f074_a_function_added_later_is_nobodys_after_an_install(db: str) -> None:
    with psycopg.connect(db, autocommit=True) as conn:
        conn.execute("create function batchq.later() returns integer language sql return 1")
        conn.execute("grant usage on schema batchq to batchq_producer")
        await install.install_dsn(db)
        with acting(conn, "batchq_producer"):
            assert outcome(conn, "select batchq.later()") == "denied"


def test_f074_a_producer_and_a_worker_and_an_operator_can_do_their_work(owner: Connection) -> None:
    with owner.transaction(force_rollback=True):
        owner.execute("set local role batchq_producer")
        owner.execute("select batchq.enqueue('a', dedupe_key => 'k', priority => 3)")
        owner.execute("select batchq.enqueue('b', delay => '1 us')")
        owner.execute("""select * from batchq.enqueue_many('[{"kind": "c"}]')""")
        owner.execute("set local role batchq_worker")
        held = owner.execute("select job_id, lease_id from batchq.lease(n => 3)").fetchall()
        assert len(held) == 3
        (job, lease), (failed, failed_lease), _ = held
        owner.execute("select batchq.complete(%s, %s)", (job, lease))
        owner.execute("select batchq.fail(%s, %s, 'e', true)", (failed, failed_lease))
        owner.execute("select * from batchq.maintain()")
        owner.execute("set local role batchq_operator")
        assert owner.execute("select redriven from batchq.redrive()").fetchone() == (1,)
        owner.execute("select batchq.pause('default')")
        owner.execute("set local role batchq_monitor")
        assert len(owner.execute("select * from batchq.jobs").fetchall()) == 3
        owner.execute("select * from batchq.stats()")


def test_f075_what_the_caller_has_in_his_path_is_not_run_as_the_owner(owner: Connection) -> None:
    # a definer function that looked names up in the caller's path would take these
    with owner.transaction(force_rollback=True):
        owner.execute("grant create on schema public to batchq_producer")
        owner.execute("set local role batchq_producer")
        owner.execute("set local search_path = public, pg_catalog")
        owner.execute(
            """
            create function public.hashtext(text) returns integer language plpgsql
            as $$ begin raise exception 'run as %', current_user; end $$;
            create temporary table job (id bigint);
            create temporary table ready (id bigint)
            """
        )
        row = owner.execute("select batchq.enqueue('a', queue => 'b')").fetchone()
        assert row is not None
        assert owner.execute("select count(*) from job").fetchone() == (0,)
