"""The command line: what it prints, where, and its exit codes."""

from __future__ import annotations

import datetime as dt
import json
import re

import click.testing
import psycopg
import pytest

from pybatchq import __version__
from pybatchq.cli import SECTIONS, _import, main
from pybatchq.cli._common import as_cli_error
from pybatchq.cli._show import Column, fit
from pybatchq.cli._values import parse_duration
from pybatchq.errors import VersionMismatchError
from pybatchq.words import span, visible


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


COMMANDS = sorted(main.commands)
WITHOUT_DATABASE = {"handlers", "token", "completion"}


def test_every_command_is_in_one_section_of_the_help() -> None:
    listed = [command.name for commands in SECTIONS.values() for command in commands]
    assert sorted(filter(None, listed)) == COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_of_80_columns_with_examples_and_exit_codes(command: str) -> None:
    result = run(command, "-h")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert f"Usage: batchq {command}" in lines[0]
    assert "Examples:" in result.stdout
    assert f"    batchq {command}" in result.stdout or f"(batchq {command}" in result.stdout
    assert "Exit codes:" in result.stdout
    assert ("--dsn DSN" in result.stdout) == (command not in WITHOUT_DATABASE)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_s_line_in_the_help_is_whole(command: str) -> None:
    (line,) = [line for line in run("-h").stdout.splitlines() if line.startswith(f"  {command} ")]
    assert line.endswith(".")
    assert not line.endswith("...")


@pytest.mark.parametrize(
    ("typed", "meant"), [("jbos", "jobs"), ("enque", "enqueue"), ("set_queue", "set-queue")]
)
def test_a_typo_is_answered_with_the_nearest_command(typed: str, meant: str) -> None:
    result = run(typed)
    assert result.exit_code == 2
    assert f"No such command '{typed}'. Did you mean '{meant}'?" in result.stderr


def test_what_is_near_no_command_is_not_guessed() -> None:
    result = run("zzzzz")
    assert result.exit_code == 2
    assert "No such command 'zzzzz'." in result.stderr
    assert "Did you mean" not in result.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_the_script_of_a_shell(shell: str) -> None:
    result = run("completion", shell)
    assert result.exit_code == 0
    assert "_BATCHQ_COMPLETE" in result.stdout


S = dt.timedelta(seconds=1)


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("45", 45 * S), ("0", 0 * S), ("1.5", 1.5 * S), ("500ms", 0.5 * S), ("5s", 5 * S),
        ("10m", 600 * S), ("1h", 3600 * S), ("2d", 172_800 * S), ("1h30m", 5400 * S),
        (" 1h 30m ", 5400 * S), ("3 min", None), ("", None), ("m", None), ("-5s", None),
        ("5 5s", None), ("1h30", None), ("nan", None), ("inf", None), ("9d9d999999999d", None),
    ],
)  # fmt: skip
def test_f065_durations(text: str, length: dt.timedelta | None) -> None:
    assert parse_duration(text) == length


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"), (0.25, "250ms"), (59.9, "59s"), (60, "1m"), (192, "3m 12s"), (3600, "1h"),
        (7_500, "2h 5m"), (86_400, "1d"), (352_800, "4d 2h"), (-5, "0s"),
    ],
)  # fmt: skip
def test_spans_have_their_two_largest_units(seconds: float, text: str) -> None:
    assert span(dt.timedelta(seconds=seconds)) == text


def test_f062_what_would_move_the_cursor_is_written_as_json_would() -> None:
    assert visible("a\x1b[31m\n\x9b\x7f\u202e\u2028é日") == (
        "a\\u001b[31m\\u000a\\u009b\\u007f\\u202e\\u2028é日"
    )
    assert visible("a\n\tb\r", lines=True) == "a\n\\u0009b\\u000d"


def test_narrow_tables_lose_the_least_kept_columns_and_then_cut_evenly() -> None:
    columns = (Column("A", 3), Column("B", 2, least=4), Column("C", 1, least=4))
    natural = (6, 20, 20)
    assert fit(columns, natural, 100) == [(0, 6), (1, 20), (2, 20)]
    assert fit(columns, natural, 30) == [(0, 6), (1, 10), (2, 10)]
    assert fit(columns, natural, 18) == [(0, 6), (1, 4), (2, 4)]
    assert fit(columns, natural, 17) == [(0, 6), (1, 9)]
    assert fit(columns, natural, 3) == [(0, 6)]


def test_f047_what_is_not_known_of_a_commit_is_said() -> None:
    tally = _import.Tally(lines=2000, new=1990, duplicates=10, unsure=3000)
    error = _import.stopped(psycopg.OperationalError("gone"), tally)
    assert error.exit_code == 3
    assert error.message.endswith(
        "2,000 lines were committed before, and perhaps those to 3,000"
        " (1,990 new jobs, 10 duplicates)"
    )
    assert error.hint == "go on with --skip 2000, or --skip 3000 if these are in"
    first = _import.stopped(psycopg.OperationalError("gone"), _import.Tally(unsure=3000))
    assert first.hint == "go on with --skip 3000 if these are in"


def test_version_is_an_option_too() -> None:
    result = run("--version")
    assert (result.exit_code, result.stdout) == (0, f"batchq {__version__}\n")


def test_the_help_has_every_exit_code_and_lease_is_a_time() -> None:
    codes = re.findall(r"^ +([0-9]+)  ", run("-h").stdout, re.MULTILINE)
    assert codes == ["0", "1", "2", "3", "4", "5", "130"]
    assert re.search(r"--lease TIME\b", run("run-once", "-h").stdout)


def test_the_statement_of_a_refusal_is_not_shown() -> None:
    said = "permission denied for schema batchq\nLINE 1: select * from batchq.version()\n     ^"
    error = as_cli_error(VersionMismatchError(said))
    assert error is not None
    assert error.message == "permission denied for schema batchq (JQ009)"
