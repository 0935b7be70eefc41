"""`batchq queues`, `stats`, `set-queue`, `pause`, `resume`, `workers`, `version`, and rights."""

from __future__ import annotations

import datetime as dt
import inspect
import json
import os
import shutil
import signal
import subprocess
import uuid
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from pybatchq import __version__, calls
from pybatchq.cli import main
from tests.support.console import (
    add,
    batchq,
    done,
    fields,
    install_command,
    query,
    records,
    started,
)
from tests.support.processes import ROOT, environment

BEAT = "select batchq.beat_worker(%s, %s, 'host', 1, '0', '{mail}', '{a,b}', 10, 3, %s, %s)::text"
KILL = """
select count(pg_terminate_backend(pid)) from pg_stat_activity
where datname = current_database() and application_name = 'batchq'
"""


@pytest.fixture
def on_path(tmp_path: Path) -> str:
    """A PATH with the command batchq in front."""
    return f"{install_command(tmp_path)}:{os.environ['PATH']}"


def test_queues_are_listed_with_their_depths(db: str) -> None:
    assert batchq("queues", dsn=db).stderr == "no queues yet\n"
    add(db, n=3, queue="mail")
    add(db, n=2, queue="mail", delay=3600)
    query(db, "select batchq.lease('mail')")
    query(db, "select batchq.pause('slow', reason => 'why\tnot')::text")
    mail, slow = fields(done("queues", dsn=db))
    assert (mail["queue"], mail["ready"], mail["scheduled"], mail["leased"], mail["dead"]) == (
        "mail", "2", "2", "1", "0",
    )  # fmt: skip
    assert mail["is_exact"] == "true"
    assert mail["paused_at"] == ""
    assert (slow["queue"], slow["pause_reason"]) == ("slow", "why\\u0009not")
    found = records(done("queues", "--json", dsn=db))
    assert [q["ready"] for q in found] == [2, 0]
    assert found[1]["paused_at"].endswith("Z")


def test_stats_of_one_queue_and_of_one_that_is_not_there(db: str) -> None:
    add(db, n=3, queue="mail")
    add(db, n=1, queue="other")
    (mail,) = records(done("stats", "mail", "--json", dsn=db))
    assert (mail["queue"], mail["ready"]) == ("mail", 3)
    assert len(fields(done("stats", dsn=db))) == 2
    missing = batchq("stats", "none", dsn=db)
    assert missing.exit_code == 1
    assert "JQ002" in missing.stderr


def test_stats_are_watched_until_ctrl_c_and_over_a_new_connection(db: str) -> None:
    add(db, n=1, queue="q")
    with started("stats", "q", "--watch", "100ms", "--json", dsn=db) as popen:
        assert popen.stdout is not None
        assert json.loads(popen.stdout.readline())["ready"] == 1
        query(db, KILL)
        add(db, n=1, queue="q")
        while json.loads(popen.stdout.readline())["ready"] != 2:
            pass
        popen.send_signal(signal.SIGINT)
        _, err = popen.communicate(timeout=20)
    assert popen.returncode == 0
    assert err == b"batchq: the connection was lost; trying again\n"


def test_each_sample_in_a_pipe_has_its_time(db: str) -> None:
    add(db, n=1, queue="q")
    for option in ((), ("--json",)):
        with started("stats", "--watch", "100ms", *option, dsn=db) as popen:
            assert popen.stdout is not None
            lines = [popen.stdout.readline().decode() for _ in range(3)]
            popen.send_signal(signal.SIGINT)
            popen.communicate(timeout=20)
        found: list[Any] = records("".join(lines)) if option else fields("".join(lines))
        times = [dt.datetime.fromisoformat(sample["at"]) for sample in found]
        assert next(iter(found[0])) == "at"
        assert times == sorted(set(times))
        assert len(times) >= 2


@pytest.mark.parametrize("words", [("--watch", "1ms"), ("--watch", "often")])
def test_f065_silly_intervals_are_refused(words: tuple[str, ...]) -> None:
    result = batchq("stats", *words, dsn="host=/nowhere")
    assert result.exit_code == 2
    assert "--watch" in result.stderr


def test_every_setting_of_a_queue_is_an_option_and_arrives(db: str) -> None:
    out = done(
        "set-queue", "mail", "--max-attempts", "5", "--timeout", "2m", "--lease-for", "30s",
        "--backoff", "fixed", "--backoff-base", "1500ms", "--backoff-factor", "3",
        "--backoff-cap", "1h", "--backoff-jitter", "none", "--max-running", "20", "--rate", "100",
        "--rate-period", "500ms", "--group-limit", "3", "--group-rate", "5", "--group-period", "1m",
        "--group-retry", "yield", "--fair", "--age-every", "30s", "--max-depth", "1000",
        "--on-full", "delay", "--breaker-share", "0.5", "--breaker-min", "20",
        "--breaker-window", "30s", "--breaker-pause", "5s", dsn=db,
    )  # fmt: skip
    assert out == "queue mail is set.\n"
    settings = {
        "queue": "mail", "max_attempts": 5, "timeout": 120, "lease_for": 30, "backoff": "fixed",
        "backoff_base": 1.5, "backoff_factor": 3.0, "backoff_cap": 3600, "backoff_jitter": "none",
        "paused_at": None, "pause_reason": None, "max_running": 20, "rate": 100,
        "rate_period": 0.5, "group_limit": 3, "group_rate": 5, "group_period": 60,
        "group_retry": "yield", "fair": True, "age_every": 30, "max_depth": 1000,
        "on_full": "delay", "breaker_share": 0.5, "breaker_min": 20, "breaker_window": 30,
        "breaker_pause": 5,
    }  # fmt: skip
    assert records(done("queues", "--settings", "--json", dsn=db)) == [settings]
    done("set-queue", "mail", "--clear", "rate", "--clear", "group-limit", "--no-fair", dsn=db)
    (now,) = records(done("queues", "--settings", "--json", dsn=db))
    assert now == {**settings, "rate": None, "group_limit": None, "fair": False}
    done("set-queue", "mail", "--reset", "--max-attempts", "4", dsn=db)
    (now,) = records(done("queues", "--settings", "--json", dsn=db))
    assert now == {**dict.fromkeys(settings), "queue": "mail", "max_attempts": 4}
    seconds = dt.timedelta(seconds=1)
    wanted = set(inspect.signature(calls.set_queue).parameters) - {"conn"}
    assert wanted <= {param.name for param in main.commands["set-queue"].params}
    nothing = batchq("set-queue", "mail", dsn=db)
    assert nothing.exit_code == 2
    assert "Nothing to set" in nothing.stderr
    unknown = batchq("set-queue", "mail", "--clear", "speed", dsn=db)
    assert (unknown.exit_code, "max_running" in unknown.stderr) == (2, True)
    refused = batchq("set-queue", "mail", "--max-attempts", "0", dsn=db)
    assert refused.exit_code == 2
    assert "JQ001" in refused.stderr
    done("set-queue", "mail", "--lease", "45s", dsn=db)
    assert query(db, "select lease_for from batchq.queue where queue = 'mail'") == [(45 * seconds,)]


def test_groups_are_set_and_listed(db: str) -> None:
    missing = batchq("groups", "mail", dsn=db)
    assert (missing.exit_code, "JQ002" in missing.stderr) == (1, True)
    done("set-queue", "mail", "--group-limit", "1", dsn=db)
    assert batchq("groups", "mail", dsn=db).stderr == "no groups\n"
    for _ in range(3):
        job = done("enqueue", "k", "--queue", "mail", "--group-key", "a\tb", dsn=db).strip()
    assert "group key     a\\u0009b\n" in done("job", job, dsn=db)
    query(db, "select batchq.lease('mail')")
    out = done("set-group", "mail", "vip", "--group-limit", "5", "--weight", "2", dsn=db)
    assert out == "group vip of queue mail is set.\n"
    busy, vip = fields(done("groups", "mail", dsn=db))
    assert (busy["group_key"], busy["blocked"], busy["seats"]) == ("a\\u0009b", "2", "1")
    assert (vip["group_limit"], vip["weight"], vip["is_set"]) == ("5", "2", "true")
    assert len(records(done("groups", "mail", "-n", "1", "--json", dsn=db))) == 1
    done("set-group", "mail", "vip", "--reset", dsn=db)
    assert len(fields(done("groups", "mail", dsn=db))) == 1
    nothing = batchq("set-group", "mail", "vip", dsn=db)
    assert (nothing.exit_code, "Nothing to set" in nothing.stderr) == (2, True)
    refused = batchq("set-group", "mail", "vip", "--weight", "0", dsn=db)
    assert (refused.exit_code, "JQ001" in refused.stderr) == (2, True)


def test_breakers_are_listed_and_reset(db: str) -> None:
    assert batchq("breakers", dsn=db).stderr == "no kind is held back\n"
    done("set-queue", "mail", "--breaker-share", "1", "--breaker-min", "2", dsn=db)
    for _ in range(5):
        done("enqueue", "a\tb", "--queue", "mail", dsn=db)
    query(db, "select batchq.fail(job_id, lease_id, 'no route') from batchq.lease('mail', 2)")
    assert query(db, "select job_id from batchq.lease('mail')") == []
    (found,) = fields(done("breakers", dsn=db))
    assert (found["queue"], found["kind"], found["held"]) == ("mail", "a\\u0009b", "3")
    assert (found["failed"], found["ended"], found["last_error"]) == ("2", "2", "no route")
    assert len(records(done("breakers", "mail", "--json", dsn=db))) == 1
    assert batchq("breakers", "other", dsn=db).stderr == "no kind is held back\n"
    for _ in range(2):  # asked twice
        out = done("reset-breaker", "mail", "a\tb", dsn=db)
        assert out == "kind a\\u0009b of queue mail may run.\n"
    assert len(query(db, "select job_id from batchq.lease('mail', 9)")) == 3
    missing = batchq("reset-breaker", "nowhere", "k", dsn=db)
    assert (missing.exit_code, "JQ002" in missing.stderr) == (1, True)


def test_a_full_queue_says_so_and_how_far_a_file_came(db: str, tmp_path: Path) -> None:
    done("set-queue", "mail", "--max-depth", "4", dsn=db)
    file = tmp_path / "jobs"
    file.write_text('{"kind": "k", "queue": "mail"}\n' * 7)
    stopped = batchq("enqueue", "--from", str(file), "--batch", "2", dsn=db)
    assert stopped.exit_code == 1
    assert "queue 'mail' is full: 4 jobs wait (JQ006); 4 lines were committed" in stopped.stderr
    assert "go on with --skip 4" in stopped.stderr
    refused = batchq("enqueue", "k", "--queue", "mail", dsn=db)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr.startswith("batchq: queue 'mail' is full: 4 jobs wait (JQ006)\nhint: ")


def test_pause_and_resume(db: str) -> None:
    add(db, n=1, queue="mail")
    assert done("pause", "mail", "--reason", "down", dsn=db) == "queue mail is paused.\n"
    assert query(db, "select count(*) from batchq.lease('mail')") == [(0,)]
    assert done("resume", "mail", dsn=db) == "queue mail is open.\n"
    assert query(db, "select count(*) from batchq.lease('mail')") == [(1,)]
    again = batchq("pause", "mail", dsn=db)
    assert (again.exit_code, again.stderr) == (0, "")
    typo = batchq("pause", "male", dsn=db)
    assert (typo.exit_code, typo.stdout) == (0, "queue male is paused.\n")
    assert typo.stderr == "queue male was never used until now\n"
    missing = batchq("resume", "none", dsn=db)
    assert missing.exit_code == 1
    assert "JQ002" in missing.stderr


def test_workers(db: str) -> None:
    assert batchq("workers", dsn=db).stderr == "no workers\n"
    for name, memory, stopping in (("alive", 5_000_000, False), ("gone", None, True)):
        query(db, BEAT, uuid.uuid4(), name, memory, stopping)
    query(
        db, "update batchq.worker set beat_at = beat_at - interval '1 h' where worker = 'gone'"
        " returning 1",
    )  # fmt: skip
    result = batchq("workers", dsn=db)
    (alive,) = fields(result.stdout)
    assert (alive["worker"], alive["queues"], alive["kinds"]) == ("alive", "mail", "a,b")
    assert result.stderr.startswith("1 more fell silent")
    everyone = records(done("workers", "--all", "--json", dsn=db))
    assert [(w["worker"], w["is_alive"]) for w in everyone] == [("alive", True), ("gone", False)]
    assert everyone[0]["kinds"] == ["a", "b"]


def test_where_all_workers_are_silent_there_are_none(db: str) -> None:
    query(db, BEAT, uuid.uuid4(), "gone", None, False)
    query(db, "update batchq.worker set beat_at = beat_at - interval '1 h' returning 1")
    result = batchq("workers", dsn=db)
    assert result.stdout == ""
    assert result.stderr.startswith("no workers\n1 more fell silent")


def test_version_tells_the_database_s_too(db: str, empty_db: str) -> None:
    database = json.loads(done("version", "--json", dsn=db))["database"]
    assert database["batchq"] == __version__
    assert database["migration"] >= 1
    assert f"database: batchq {__version__}\n" in done("version", "--dsn", db, dsn=db)
    bare = batchq("version", "--json", dsn=empty_db)
    assert bare.exit_code == 0
    assert set(json.loads(bare.stdout)["database"]) == {"postgresql"}
    assert "hint: run `batchq install`" in bare.stderr


def test_version_without_its_server_tells_what_it_knows() -> None:
    result = batchq("version", dsn="host=/nowhere")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"batchq {__version__}\n")
    assert "cannot be reached" in result.stderr
    assert batchq("version", "--dsn", "host=/nowhere").exit_code == 3


NEED_A_DATABASE = [
    ("enqueue", "k"), ("jobs",), ("job", "1"), ("wait", "1"), ("cancel", "1"), ("redrive", "1"),
    ("purge", "1"), ("queues",), ("stats",), ("set-queue", "q", "--reset"), ("pause", "q"),
    ("resume", "q"), ("workers",),
]  # fmt: skip


@pytest.mark.parametrize("words", NEED_A_DATABASE, ids=lambda words: words[0])
def test_every_command_says_what_is_missing(empty_db: str, words: tuple[str, ...]) -> None:
    absent = batchq(*words, dsn=empty_db)
    assert absent.exit_code == 1
    assert "(JQ009)" in absent.stderr
    assert "hint: run `batchq install` on this database" in absent.stderr
    unreachable = batchq(*words, "--dsn", "postgresql://nobody@127.0.0.1:1/none")
    assert unreachable.exit_code == 3
    unset = batchq(*words)
    assert unset.exit_code == 2
    assert "DATABASE_URL is not set" in unset.stderr
    for result in (absent, unreachable, unset):
        assert result.stdout == ""
        assert "Traceback" not in result.output


def test_without_rights_the_hint_names_the_roles(db: str) -> None:
    with psycopg.connect(db, autocommit=True) as conn:
        conn.execute("drop role if exists cli_stranger")
        conn.execute("create role cli_stranger login")
        try:
            result = batchq("jobs", dsn=make_conninfo(db, user="cli_stranger"))
        finally:
            conn.execute("drop role cli_stranger")
    assert result.exit_code == 1
    assert "permission denied" in result.stderr
    assert "hint: grant this user one of batchq_producer" in result.stderr


def test_an_install_without_rights_says_which_are_needed(empty_db: str) -> None:
    with psycopg.connect(empty_db, autocommit=True) as conn:
        conn.execute("drop role if exists cli_guest")
        conn.execute("create role cli_guest login")
        try:
            result = batchq("install", dsn=make_conninfo(empty_db, user="cli_guest"))
        finally:
            conn.execute("drop role cli_guest")
    assert result.exit_code == 1
    message, hint = result.stderr.splitlines()
    assert "permission denied for database" in message
    assert hint.startswith("hint: to install takes the right CREATE on this database")


COMPLETE = """
eval "$(batchq completion bash)"
for words in "batchq pause ma" "batchq jobs --queue m" "batchq jobs --status c" "batchq work"; do
    COMP_WORDS=($words)
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _batchq_completion batchq
    echo "${COMPREPLY[@]}"
    COMPREPLY=()
done
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_commands_words_and_the_names_of_queues(db: str, on_path: str) -> None:
    add(db, n=1, queue="mail")
    add(db, n=1, queue="media")
    result = subprocess.run(
        ["bash", "--norc", "-c", COMPLETE], cwd=ROOT, env=environment(db, PATH=on_path),
        capture_output=True, timeout=30, check=True,
    )  # fmt: skip
    assert [set(line.split()) for line in result.stdout.decode().splitlines()] == [
        {"mail"}, {"mail", "media"}, {"completed", "cancelled"}, {"worker", "workers"},
    ]  # fmt: skip


@pytest.mark.parametrize("dsn", [None, "host=/nowhere"])
def test_a_shell_completes_without_a_database_too(dsn: str | None, on_path: str) -> None:
    variables = {"_BATCHQ_COMPLETE": "bash_complete", "COMP_WORDS": "batchq pause m"}
    result = subprocess.run(
        ["batchq"], cwd=ROOT, env=environment(dsn, **variables, COMP_CWORD="2", PATH=on_path),
        capture_output=True, timeout=30, check=True,
    )  # fmt: skip
    assert (result.stdout.strip(), result.stderr) == (b"", b"")
