"""The manifest's language, and running one against a server."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from pybatchq import install
from pybatchq.manifest import (
    If,
    ManifestError,
    Query,
    RunSql,
    expand,
    parse,
    split_statements,
    truth,
)

MANIFEST = r"""-- a manifest
\set ON_ERROR_STOP on
begin;
select pg_advisory_xact_lock(1); select 2;
select to_regclass('thing') is null as fresh \gset
\if :fresh
\ir migrations/0001_thing.sql
\endif
\ir functions/private/_one.sql
commit;
"""
MIGRATION = "create table thing (id bigint);\n"
FUNCTION = """/*
 * One; a comment with a ; in it.
 */
create or replace function public._one()
returns text
language plpgsql
as $_one$
begin
    return '100%; ''quoted''';
end;
$_one$;

comment on function public._one() is 'says "one;"';
"""


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    return write(tmp_path, MANIFEST)


def write(folder: Path, text: str, function: str = FUNCTION) -> Path:
    for name, content in [
        ("install.sql", text),
        ("migrations/0001_thing.sql", MIGRATION),
        ("functions/private/_one.sql", function),
    ]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder / "install.sql"


def test_a_manifest_becomes_typed_steps(manifest: Path) -> None:
    *plain, query, conditional, function, comment = parse(manifest)
    assert plain == [
        RunSql("install.sql", 4, "select pg_advisory_xact_lock(1);"),
        RunSql("install.sql", 4, "select 2;"),
    ]
    assert query == Query("install.sql", 5, "select to_regclass('thing') is null as fresh")
    migration = RunSql("migrations/0001_thing.sql", 1, MIGRATION.strip())
    assert conditional == If("install.sql", 6, "fresh", (migration,))
    assert isinstance(function, RunSql)
    assert (function.file, function.line) == ("functions/private/_one.sql", 4)
    assert function.text.endswith("$_one$;")
    assert isinstance(comment, RunSql)
    assert comment.line == 13


def test_conditions_nest(tmp_path: Path) -> None:
    text = "\\if :a\nselect 1;\n\\if :b\nselect 2;\n\\endif\n\\endif\nselect 3;\n"
    assert parse(write(tmp_path, text)) == (
        If(
            "install.sql",
            1,
            "a",
            (
                RunSql("install.sql", 2, "select 1;"),
                If("install.sql", 3, "b", (RunSql("install.sql", 4, "select 2;"),)),
            ),
        ),
        RunSql("install.sql", 7, "select 3;"),
    )


@pytest.mark.parametrize(
    "text",
    [
        "select 1;",
        "select ';';",
        "select e'\\';';",
        "select 'it''s;';",
        'select ";";',
        "select $$;$$;",
        "select $a$ $$;$$ ; $b$;$b$ $a$;",
        "select 1 -- ;\n;",
        "select 1 /* ;\n */ ;",
    ],
)
def test_a_quoted_semicolon_ends_nothing(text: str) -> None:
    assert list(split_statements(f"\n{text}\nnext")) == [
        (2, text),
        (text.count("\n") + 3, "next"),
    ]


def test_comments_alone_are_no_statement() -> None:
    assert list(split_statements("-- one;\n/* two; */\n\n")) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\\echo hello\n", r"install\.sql:1: not understood: \\echo hello"),
        ("\n\\if fresh\n\\endif\n", r"install\.sql:2: not understood"),
        ("\\if :a\n", r"install\.sql:1: \\if without \\endif"),
        ("select 1;\n\\endif\n", r"install\.sql:2: not understood: \\endif"),
        ("select 1\n\\ir functions/private/_one.sql\n", r"install\.sql:1: .* does not end"),
        ("select 1; \\gset\n", r"install\.sql:1: \\gset without a query"),
        ("\n\\ir gone.sql\n", r"install\.sql:2: cannot read gone\.sql: No such file"),
    ],
)
def test_anything_else_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ManifestError, match=f"^{message}"):
        parse(write(tmp_path, text))


@pytest.mark.parametrize("value", ["t", "true", "TRUE", "1", "on"])
def test_truth_is_what_psql_takes_for_true(value: str) -> None:
    assert truth(value, If("install.sql", 1, "a", ()))


def test_a_variable_that_is_no_truth_value_is_an_error() -> None:
    assert not truth("f", If("install.sql", 1, "a", ()))
    with pytest.raises(ManifestError, match="install.sql:1: :a is 'maybe'"):
        truth("maybe", If("install.sql", 1, "a", ()))


def test_expanding_leaves_no_file_to_find(manifest: Path) -> None:
    text = expand(manifest)
    assert "\\ir" not in text
    assert FUNCTION in text
    assert text.index("\\if :fresh") < text.index(MIGRATION) < text.index("\\endif")


@pytest.fixture
def installs(manifest: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The installer reads this folder in place of batchq's own."""
    monkeypatch.setattr(install, "sql_dir", lambda: manifest.parent)
    monkeypatch.setattr(install, "FIRST_PAUSE_S", 0.01)
    return manifest.parent


async def test_the_first_run_migrates_and_the_second_does_not(
    installs: Path, empty_db: str
) -> None:
    first = await install.install_dsn(empty_db)
    assert first == install.InstallReport(migrations=("0001_thing",), functions=1)
    assert await install.install_dsn(empty_db) == install.InstallReport((), 1)
    async with await psycopg.AsyncConnection.connect(empty_db) as conn:
        row = await (await conn.execute("select _one()")).fetchone()
    assert row == ("100%; 'quoted'",)


async def test_an_error_names_file_and_line_and_leaves_nothing(
    installs: Path, empty_db: str
) -> None:
    write(installs, MANIFEST, FUNCTION.replace("    return", "    retrun"))
    with pytest.raises(install.InstallError, match=r"^functions/private/_one.sql:9: ") as caught:
        await install.install_dsn(empty_db)
    assert (caught.value.file, caught.value.line) == ("functions/private/_one.sql", 9)
    async with await psycopg.AsyncConnection.connect(empty_db) as conn:
        row = await (await conn.execute("select to_regclass('thing')")).fetchone()
    assert row == (None,)


async def test_a_busy_connection_is_refused(installs: Path, empty_db: str) -> None:
    async with await psycopg.AsyncConnection.connect(empty_db) as conn:
        await conn.execute("select 1")
        with pytest.raises(install.InstallError, match="middle of a transaction"):
            await install.install(conn)


async def test_a_lock_that_is_never_free_ends_in_a_plain_error(
    installs: Path, empty_db: str
) -> None:
    await install.install_dsn(empty_db)
    write(installs, "set local lock_timeout = '20ms';\ntruncate thing;\n")
    async with await psycopg.AsyncConnection.connect(empty_db) as conn:
        await conn.execute("lock table thing in access exclusive mode")
        with pytest.raises(install.InstallError, match="another session holds"):
            await install.install_dsn(empty_db)
    await install.install_dsn(empty_db)
