"""The command line: what it prints, where, and its exit codes."""

from __future__ import annotations

import json

import click.testing
import psycopg
import pytest

from pybatchq import __version__
from pybatchq.cli import main


def run(*arguments: str, answer: str | None = None, **env: str | None) -> click.testing.Result:
    environment = {"DATABASE_URL": None, **env}
    return click.testing.CliRunner().invoke(main, arguments, input=answer, env=environment)


def has_batchq(dsn: str) -> bool:
    with psycopg.connect(dsn) as conn:
        row = conn.execute("select to_regnamespace('batchq') is not null").fetchone()
    return row == (True,)


def test_version_as_json() -> None:
    result = run("version", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["batchq"] == __version__


@pytest.mark.parametrize("command", ["install", "uninstall"])
def test_without_an_address_the_message_names_variable_and_way_out(command: str) -> None:
    result = run(command)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("batchq: DATABASE_URL is not set")
    assert "`batchq demo`" in result.stderr


@pytest.mark.parametrize(
    "address", ["postgresql://nobody@127.0.0.1:1/none", "host=/nowhere dbname=none"]
)
def test_an_unreachable_server_is_one_plain_line_and_a_hint(address: str) -> None:
    result = run("install", DATABASE_URL=address)
    assert result.exit_code == 3
    message, hint = result.stderr.splitlines()
    assert message.startswith("batchq: the database cannot be reached: ")
    assert hint.startswith("hint: ")


def test_a_bad_connection_string_is_not_repeated() -> None:
    for result in (
        run("install", DATABASE_URL="password='secret"),
        run("install", "--dsn", "password='secret"),
    ):
        assert result.exit_code == 2
        assert "no connection string" in result.stderr
        assert "secret" not in result.stderr


def test_a_bad_setting_is_named() -> None:
    result = run("install", DATABASE_URL="dbname=x", BATCHQ_POLL="soon")
    assert result.exit_code == 2
    assert result.stderr.startswith("batchq: BATCHQ_POLL is 'soon'; allowed: ")


def test_install_twice_then_uninstall(empty_db: str) -> None:
    first = run("install", DATABASE_URL=empty_db)
    assert first.exit_code == 0, first.output
    assert "migrations: 0001_core" in first.stdout
    assert has_batchq(empty_db)
    again = run("install", "--dsn", empty_db)
    assert again.exit_code == 0, again.output
    assert "migrations: none needed" in again.stdout
    gone = run("uninstall", "--yes", DATABASE_URL=empty_db)
    assert gone.exit_code == 0, gone.output
    assert not has_batchq(empty_db)


def test_uninstall_asks_and_takes_no_for_an_answer(db: str) -> None:
    result = run("uninstall", answer="n\n", DATABASE_URL=db)
    assert result.exit_code == 1
    assert has_batchq(db)


def test_a_refused_install_says_what_the_database_said(empty_db: str) -> None:
    with psycopg.connect(empty_db, autocommit=True) as conn:
        conn.execute("create schema batchq")
    result = run("install", DATABASE_URL=empty_db)
    assert result.exit_code == 1
    assert 'schema "batchq" exists and was not made by batchq' in result.stderr
    assert "hint: rename or drop that schema" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("command", ["install", "uninstall", "version"])
def test_help_tells_the_exit_codes(command: str) -> None:
    result = run(command, "--help")
    assert result.exit_code == 0
    assert "  3  the database cannot be reached" in result.stdout
