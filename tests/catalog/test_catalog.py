"""The rules of the schema that the catalogue can tell."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.support import reference
from tests.support.servers import Databases
from tests.support.sqlfiles import FUNCTION_FILES, PUBLIC_FOLDERS, SQL

ROLES = tuple(f"batchq_{folder}" for folder in PUBLIC_FOLDERS)
# a worker keeps the queues in order too
ALSO_CALLS = {"worker": {"maintain", "reap"}, "monitor": {"list_audit", "list_tokens"}}
# INSERT on the view is enqueue
ON_JOBS = {
    "batchq_producer": ["insert"],
    "batchq_worker": [],
    "batchq_operator": ["select"],
    "batchq_monitor": ["select"],
}
SEARCH_PATH = "search_path=pg_catalog, pg_temp"
HOT_SETTINGS = {"plan_cache_mode=force_generic_plan", "jit=off"}

Catalog = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture(scope="module")
def catalog(server: Databases, template: str) -> Iterator[Catalog]:
    """A session on a database that these tests only look at."""
    with server.fresh(template) as dsn, psycopg.connect(dsn, autocommit=True) as conn:
        yield conn


def column(catalog: Catalog, query: str, **parameters: object) -> list[Any]:
    return [row[0] for row in catalog.execute(query.encode(), parameters or None)]


def functions(catalog: Catalog, what: str) -> dict[str, Any]:
    """A fact of each function of the schema, by name."""
    query = f"""
        select p.proname, {what}
        from pg_proc p join pg_language l on l.oid = p.prolang
        where p.pronamespace = 'batchq'::regnamespace"""
    return dict(catalog.execute(query.encode()).fetchall())


def test_every_function_has_a_file_of_its_name_and_no_overload(catalog: Catalog) -> None:
    names = column(
        catalog, "select proname from pg_proc where pronamespace = 'batchq'::regnamespace"
    )
    assert sorted(names) == sorted(file.stem for file in FUNCTION_FILES)


def test_private_functions_are_those_with_an_underscore() -> None:
    wrong = [f for f in FUNCTION_FILES if f.stem.startswith("_") != (f.parent.name == "private")]
    assert wrong == []


def test_search_path_is_pinned_in_every_plpgsql_function(catalog: Catalog) -> None:
    configs = functions(catalog, "case l.lanname when 'plpgsql' then coalesce(proconfig, '{}') end")
    wrong = {
        name: config
        for name, config in configs.items()
        if config is not None
        and [setting for setting in config if setting.startswith("search_path=")] != [SEARCH_PATH]
    }
    assert wrong == {}


def test_definer_exactly_in_public_folders(catalog: Catalog) -> None:
    definer = {name for name, is_definer in functions(catalog, "prosecdef").items() if is_definer}
    assert definer == {f.stem for f in FUNCTION_FILES if f.parent.name in PUBLIC_FOLDERS}


def test_everything_public_has_a_comment(catalog: Catalog) -> None:
    comments = functions(catalog, "obj_description(p.oid, 'pg_proc')")
    bare = [f for f, comment in comments.items() if not f.startswith("_") and not comment]
    bare += column(
        catalog,
        """
        select c.relname
        from pg_class c left join pg_type t on t.typrelid = c.oid and c.relkind = 'c'
        where c.relnamespace = 'batchq'::regnamespace and c.relkind in ('r', 'p', 'v', 'c')
          and not c.relispartition
          and obj_description(coalesce(t.oid, c.oid),
                              case c.relkind when 'c' then 'pg_type' else 'pg_class' end) is null
        """,
    )
    assert bare == []


def test_public_may_do_nothing(catalog: Catalog) -> None:
    granted = column(
        catalog,
        """
        select format('%s on %s', a.privilege_type, o.name)
        from (
            select proname::text as name, coalesce(proacl, acldefault('f', proowner)) as acl
            from pg_proc where pronamespace = 'batchq'::regnamespace
            union all
            select relname, coalesce(relacl, acldefault('r', relowner))
            from pg_class where relnamespace = 'batchq'::regnamespace
            union all
            select nspname, coalesce(nspacl, acldefault('n', nspowner))
            from pg_namespace where nspname = 'batchq'
        ) o, aclexplode(o.acl) a
        where a.grantee = 0
        """,
    )
    assert granted == []


@pytest.mark.parametrize("folder", PUBLIC_FOLDERS)
def test_a_role_may_call_exactly_its_folder_and_the_monitor_functions(
    catalog: Catalog, folder: str
) -> None:
    may = functions(catalog, f"has_function_privilege('batchq_{folder}', p.oid, 'execute')")
    wanted = {file.stem for file in FUNCTION_FILES if file.parent.name in (folder, "monitor")}
    wanted |= ALSO_CALLS.get(folder, set())
    assert {name for name, allowed in may.items() if allowed} == wanted


@pytest.mark.parametrize("role", ROLES)
def test_a_role_reads_the_jobs_view_at_most(catalog: Catalog, role: str) -> None:
    rights = catalog.execute(
        """
        select c.relname, r.name
        from pg_class c, unnest('{select,insert,update,delete,truncate,references,trigger}'::text[]) r(name)
        where c.relnamespace = 'batchq'::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'f')
          and has_table_privilege(%(role)s, c.oid, r.name)
        union all
        select c.relname, r.name
        from pg_class c, unnest('{usage,select,update}'::text[]) r(name)
        where c.relnamespace = 'batchq'::regnamespace and c.relkind = 'S'
          and has_sequence_privilege(%(role)s, c.oid, r.name)
        """,  # noqa: E501
        {"role": role},
    ).fetchall()
    assert rights == [("jobs", right) for right in ON_JOBS[role]]


@pytest.mark.parametrize("role", [role for role, on in ON_JOBS.items() if "select" in on])
def test_reading_the_jobs_view_needs_no_other_right(catalog: Catalog, role: str) -> None:
    with catalog.transaction(force_rollback=True):
        catalog.execute("select batchq.enqueue('a'), batchq.enqueue('b', delay => '1 h')")
        catalog.execute(f"set local role {role}".encode())
        assert len(catalog.execute("select * from batchq.jobs").fetchall()) == 2


def test_every_table_has_a_primary_key(catalog: Catalog) -> None:
    without = column(
        catalog,
        """
        select c.relname from pg_class c
        where c.relnamespace = 'batchq'::regnamespace and c.relkind in ('r', 'p')
          and not exists (select from pg_index i where i.indrelid = c.oid and i.indisprimary)
        """,
    )
    assert without == []


def test_every_foreign_key_is_indexed(catalog: Catalog) -> None:
    bare = column(
        catalog,
        """
        select k.conname from pg_constraint k
        where k.connamespace = 'batchq'::regnamespace and k.contype = 'f'
          and not exists (
              select from pg_index i
              where i.indrelid = k.conrelid and i.indpred is null
                and (i.indkey::smallint[])[0:cardinality(k.conkey) - 1] @> k.conkey
                and (i.indkey::smallint[])[0:cardinality(k.conkey) - 1] <@ k.conkey)
        """,
    )
    assert bare == []


def test_every_index_says_which_query_it_serves(catalog: Catalog) -> None:
    bare = column(
        catalog,
        """
        select c.relname
        from pg_index i join pg_class c on c.oid = i.indexrelid
        where c.relnamespace = 'batchq'::regnamespace and not c.relispartition
          and obj_description(c.oid, 'pg_class') is null
          and not exists (select from pg_constraint k where k.conindid = c.oid)
        """,
    )
    assert bare == []


def hot_functions(bodies: dict[str, str], tables: set[str]) -> set[str]:
    """The worker's functions, enqueue's and the private ones under them, if they touch tables."""
    calls = {
        name: set(re.findall(r"\bbatchq\.(_\w+)\s*\(", body)) & set(bodies)
        for name, body in bodies.items()
    }
    hot = {file.stem for file in FUNCTION_FILES if file.parent.name == "worker"}
    hot |= {"enqueue", "enqueue_many"}
    pending = set(hot)
    while pending:
        pending = set().union(*(calls[name] for name in pending)) - hot
        hot |= pending
    touches = re.compile(rf"\b(?:from|join|into|update|using)\s+batchq\.(?:{'|'.join(tables)})\b")
    return {name for name in hot if touches.search(bodies[name])}


def test_hot_functions_have_plans_that_no_statistics_can_change(catalog: Catalog) -> None:
    bodies = functions(catalog, "case when l.lanname = 'plpgsql' then prosrc else '' end")
    configs = functions(catalog, "coalesce(proconfig, '{}')")
    tables = set(
        column(
            catalog,
            """
            select relname from pg_class
            where relnamespace = 'batchq'::regnamespace and relkind in ('r', 'p')
            """,
        )
    )
    hot = hot_functions(bodies, tables)
    assert {"enqueue", "lease", "complete_many"} <= hot
    wrong = {name: configs[name] for name in hot if not set(configs[name]) >= HOT_SETTINGS}
    assert wrong == {}


def test_f006_what_happens_to_a_job_does_not_hang_on_the_list_of_workers(catalog: Catalog) -> None:
    # also those that only call something that reads it
    sources = functions(catalog, "pg_get_functiondef(p.oid)")
    sources |= dict(
        catalog.execute(
            "select viewname, definition from pg_views where schemaname = 'batchq'"
        ).fetchall()
    )
    readers = {name for name, text in sources.items() if re.search(r"\bbatchq\.worker\b", text)}
    calls = re.compile(rf"\bbatchq\.(?:{'|'.join(readers)})\b")
    callers = {name for name, text in sources.items() if calls.search(text)}
    told = {"_worker_gates", "_unknown_kinds", "_work_alerts"}  # these only say why
    assert readers == {
        "beat_worker", "drain_worker", "drop_worker", "list_workers", "_drop_workers", *told,
    }  # fmt: skip
    shown = {"_kind_gates", "_waiting_gates", "explain_queue", "_alerts", "live"}
    assert callers == readers | shown | {"maintain"}
    volatility = functions(catalog, "provolatile::text")
    assert all(volatility[name] == "s" for name in told | shown)


def test_the_reference_is_what_the_comments_say(catalog: Catalog) -> None:
    written = (SQL / "REFERENCE.md").read_text()
    assert written == reference.render(catalog), "run: make reference"


@pytest.mark.parametrize("folder", PUBLIC_FOLDERS)
def test_every_comment_ends_with_an_example_that_runs(catalog: Catalog, folder: str) -> None:
    comments = functions(catalog, "obj_description(p.oid, 'pg_proc')")
    for name in (file.stem for file in FUNCTION_FILES if file.parent.name == folder):
        _, found, example = comments[name].rpartition("\nExample: ")
        assert found, f"{name} has no example"
        assert f"batchq.{name}(" in example
        try:
            with catalog.transaction(force_rollback=True):
                catalog.execute("select batchq.set_queue('mail', max_attempts => 5)")
                catalog.execute(example.encode())
        except psycopg.Error as error:
            pytest.fail(f"{name}: {example.strip()}\n{error}", pytrace=False)


@pytest.mark.parametrize("folder", PUBLIC_FOLDERS)
def test_every_comment_says_what_comes_back_and_who_may_call(catalog: Catalog, folder: str) -> None:
    comments = functions(catalog, "obj_description(p.oid, 'pg_proc')")
    names = [file.stem for file in FUNCTION_FILES if file.parent.name == folder]
    void = functions(catalog, "p.prorettype = 'void'::regtype")
    assert [n for n in names if "\nRole: " not in comments[n]] == []
    assert [n for n in names if "\nReturns: " not in comments[n] and not void[n]] == []
