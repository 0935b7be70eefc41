"""`batchq enqueue`: one job from arguments, many from lines of JSON, and how it stops."""

from __future__ import annotations

import datetime as dt
import inspect
import json
import os
import signal
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pybatchq import calls
from pybatchq.cli import main
from tests.support.console import batchq, count, done, process, query, started, until

DIGITS = '{"id": 1970670598291982290, "f": 0.1, "d": 1.10, "e": 1e400}'


def lines(n: int, **more: Any) -> bytes:
    return b"".join(
        json.dumps({"kind": "k", "payload": {"n": i}} | more).encode() + b"\n" for i in range(n)
    )


@pytest.fixture
def write(tmp_path: Path) -> Callable[[bytes], str]:
    def write(data: bytes) -> str:
        (tmp_path / "jobs.ndjson").write_bytes(data)
        return str(tmp_path / "jobs.ndjson")

    return write


def test_one_job_from_arguments_prints_its_id(db: str) -> None:
    out = done("enqueue", "send_email", '{"to": "ada"}', "--queue", "mail", dsn=db)
    assert query(db, "select id, kind, queue, payload, status from batchq.jobs") == [
        (int(out), "send_email", "mail", {"to": "ada"}, "pending")
    ]


def test_without_a_payload_the_database_has_its_default(db: str) -> None:
    done("enqueue", "k", dsn=db)
    assert query(db, "select payload from batchq.jobs") == [({},)]


def test_every_argument_of_enqueue_is_an_option_and_arrives(db: str) -> None:
    done(
        "enqueue", "k", "7", "--queue", "q", "--priority", "-5", "--run-at",
        "2030-01-31T09:00:00+02:00", "--max-attempts", "9", "--timeout", "1h30m", "--dedupe-key",
        "key", "--dedupe-scope", "pending", "--dedupe-for", "2d", "--on-duplicate", "replace",
        "--backoff", "fixed", "--backoff-base", "1500ms", "--backoff-factor", "2.5",
        "--backoff-cap", "10m", "--backoff-jitter", "none", "--headers", '{"trace": "x"}', dsn=db,
    )  # fmt: skip
    (job,) = query(
        db,
        "select payload, queue, priority, run_at, max_attempts, timeout, dedupe_key, headers"
        " from batchq.jobs",
    )
    at = dt.datetime(2030, 1, 31, 7, tzinfo=dt.UTC)
    timeout = dt.timedelta(hours=1.5)
    assert job == (7, "q", -5, at, 9, timeout, "key", {"trace": "x"})
    (backoff,) = query(
        db,
        "select backoff, backoff_base, backoff_factor, backoff_cap, backoff_jitter from batchq.job",
    )
    assert backoff[0] == "fixed"
    assert backoff[1:3] == (dt.timedelta(seconds=1.5), 2.5)
    assert backoff[3:] == (dt.timedelta(minutes=10), "none")
    wanted = set(inspect.signature(calls.enqueue).parameters) - {"conn"}
    assert wanted <= {param.name for param in main.commands["enqueue"].params}


def test_a_delay_counts_from_the_database_s_now(db: str) -> None:
    done("enqueue", "k", "--delay", "2h", dsn=db)
    (row,) = query(db, "select state, run_at - created_at from batchq.jobs")
    assert row == ("scheduled", dt.timedelta(hours=2))


def test_the_payload_may_come_from_a_file_or_stdin(db: str, tmp_path: Path) -> None:
    path = tmp_path / "payload.json"
    path.write_text('{"from": "file"}')
    done("enqueue", "k", f"@{path}", dsn=db)
    done("enqueue", "k", "-", answer=b'{"from": "stdin"}', dsn=db)
    found = query(db, "select payload ->> 'from' from batchq.jobs order by id")
    assert found == [("file",), ("stdin",)]
    missing = batchq("enqueue", "k", f"@{tmp_path}/none", dsn=db)
    assert missing.exit_code == 2
    assert "cannot be read: No such file" in missing.stderr


def test_a_duplicate_is_told_beside_the_id_of_the_first(db: str) -> None:
    first = done("enqueue", "k", "--dedupe-key", "x", dsn=db)
    again = batchq("enqueue", "k", "--dedupe-key", "x", dsn=db)
    assert (again.exit_code, again.stdout) == (0, first)
    assert again.stderr.startswith("duplicate: ")
    out = done("enqueue", "k", "--dedupe-key", "x", "--json", dsn=db)
    assert json.loads(out) == {"job_id": int(first), "is_new": False}


def test_a_kind_that_no_live_worker_has_is_noted(db: str) -> None:
    assert batchq("enqueue", "a", dsn=db).stderr == ""
    query(
        db, "select batchq.beat_worker(%s, 'w', 'h', 1, '0', '{mail}', '{a}', 10, 0)::text",
        uuid.uuid4(),
    )  # fmt: skip
    assert batchq("enqueue", "a", dsn=db).stderr == ""
    typo = batchq("enqueue", "aa", dsn=db)
    assert (typo.exit_code, typo.stdout) == (0, "3\n")
    assert typo.stderr == "no live worker has a handler for kind aa\n"


def test_f060_all_digits_of_a_payload_go_in_and_come_out(
    db: str, write: Callable[[bytes], str]
) -> None:
    one = done("enqueue", "k", DIGITS, dsn=db).strip()
    done("enqueue", "--from", write(f'{{"kind": "k", "payload": {DIGITS}}}'.encode()), dsn=db)
    stored = query(db, "select payload::text from batchq.jobs")
    assert len(stored) == 2
    for (text,) in stored:
        assert '"d": 1.10' in text
        assert '"id": 1970670598291982290' in text
    shown = done("job", one, dsn=db)
    as_json = done("job", one, "--json", dsn=db)
    for text in (shown, as_json):
        assert '"id": 1970670598291982290' in text
        assert '"d": 1.10' in text
        assert '"f": 0.1' in text


REFUSED = {
    "no json": "{to: ada}",
    "f059 nan": "NaN",
    "f062 surrogate": '"\\ud800"',
    "nul": '"\\u0000"',
    "f061 depth": "[" * 20_000 + "]" * 20_000,
    "empty": "",
}


@pytest.mark.parametrize("payload", REFUSED.values(), ids=REFUSED)
def test_f059_f061_f062_what_is_no_json_is_refused_before_the_database(payload: str) -> None:
    result = batchq("enqueue", "k", payload, dsn="host=/nowhere")
    assert result.exit_code == 2, result.output
    assert "[PAYLOAD]" in result.stderr


def test_what_the_database_refuses_is_said_in_its_words_with_its_hint(db: str) -> None:
    result = batchq("enqueue", "k", "--priority", "40000", dsn=db)
    assert result.exit_code == 2
    message, hint = result.stderr.splitlines()
    assert message == "batchq: invalid priority: '40000' (JQ001)"
    assert hint.startswith("hint: give an integer from -32768")
    for words in (("null",), ("--headers", "[]"), ("--max-attempts", "0"), ("--timeout", "0")):
        refused = batchq("enqueue", "k", *words, dsn=db)
        assert (refused.exit_code, "(JQ001)" in refused.stderr) == (2, True), words


def test_f062_an_argument_of_broken_bytes_is_refused_plainly(db: str) -> None:
    result = process("enqueue", os.fsdecode(b"caf\xe9"), dsn=db)
    assert result.returncode == 2
    assert b"JQ001" in result.stderr
    assert b"Traceback" not in result.stderr


WRONG = {
    "no kind": ((), "KIND"),
    "both": (("k", "--from", "x"), "give a KIND or --from, not both"),
    "option": (("--from", "x", "--queue", "q"), "--queue goes with"),
    "batch": (("k", "--batch", "5"), "--batch goes with --from"),
    "no file": (("--from", "/nowhere/x"), "cannot be read"),
    "time": (("k", "--delay", "soon"), "no length of time"),
    "folder": (("--from", "/"), "it is a folder"),
    "f059 nan": (("k", "--backoff-factor", "nan"), "is no number"),
    "f059 infinity": (("k", "--backoff-factor", "1e999"), "is no number"),
    "zone": (("k", "--run-at", "2030-01-01T00:00"), "has no time zone"),
}


@pytest.mark.parametrize(("words", "message"), WRONG.values(), ids=WRONG)
def test_wrong_usage_is_exit_2(words: tuple[str, ...], message: str) -> None:
    result = batchq("enqueue", *words, dsn="host=/nowhere")
    assert result.exit_code == 2
    assert message in result.stderr


def test_f052_a_file_of_lines_goes_in_in_its_order(db: str, write: Callable[[bytes], str]) -> None:
    path = write(lines(2500, queue="q"))
    assert done("enqueue", "--from", path, dsn=db) == "2,500 new jobs\n"
    found = query(db, "select payload -> 'n' from batchq.jobs where queue = 'q' order by id")
    assert [n for (n,) in found] == list(range(2500))


def test_duplicates_are_counted(db: str, write: Callable[[bytes], str]) -> None:
    path = write(lines(3, dedupe_key="same"))
    assert done("enqueue", "--from", path, dsn=db) == "1 new job, 2 duplicates\n"
    out = done("enqueue", "--from", path, "--json", dsn=db)
    assert json.loads(out) == {"lines": 3, "new": 0, "duplicates": 3}


def test_blank_lines_windows_ends_and_a_byte_order_mark_do_no_harm(
    db: str, write: Callable[[bytes], str]
) -> None:
    path = write(b'\xef\xbb\xbf{"kind": "a"}\r\n\r\n  \n{"kind": "b"}')
    out = done("enqueue", "--from", path, "--json", dsn=db)
    assert json.loads(out) == {"lines": 4, "new": 2, "duplicates": 0}


BAD = {
    "cut off": (b'{"kind": ', "no JSON"),
    "list": (b'["a"]', "no object"),
    "number": (b"5", "no object"),
    "field": (b'{"kind": "a", "nope": 1}', "unknown field: 'nope'"),
    "no kind": (b'{"queue": "a"}', "line 7: kind is missing; "),
    "null kind": (b'{"kind": null}', "line 7: kind is missing; "),
    "empty kind": (b'{"kind": ""}', "invalid kind: ''"),
    "type": (b'{"kind": "a", "priority": "high"}', "high"),
    "nul": (b'{"kind": "a", "payload": "\\u0000"}', "NUL"),
    "latin": (b'{"kind": "caf\xe9"}', "no UTF-8"),
    "long": (b'{"kind": "' + b"x" * (5 << 20), "longer than 4 MiB"),
}


@pytest.mark.parametrize(("bad", "message"), BAD.values(), ids=BAD)
def test_a_bad_line_is_named_and_what_was_committed_is_told(
    db: str, write: Callable[[bytes], str], bad: bytes, message: str
) -> None:
    path = write(lines(5) + b"\n" + bad + b"\n" + lines(3))
    result = batchq("enqueue", "--from", path, "--batch", "2", dsn=db)
    assert result.exit_code == 1
    assert result.stdout == ""
    first, hint = result.stderr.splitlines()
    assert first.startswith("batchq: line 7: ")
    assert message in first
    assert first.endswith("4 lines were committed before (4 new jobs)")
    assert hint.startswith("hint: ")
    assert hint.endswith("go on with --skip 4")
    assert count(db) == 4
    Path(path).write_bytes(lines(5) + b"\n" + lines(1) + b"\n" + lines(3))
    assert done("enqueue", "--from", path, "--skip", "4", dsn=db) == "5 new jobs\n"


def test_where_nothing_is_in_there_is_nothing_to_skip(
    db: str, write: Callable[[bytes], str]
) -> None:
    for source in (write(b"{"), "-"):
        result = process("enqueue", "--from", source, dsn=db, answer=b"{")
        assert result.returncode == 1
        assert result.stderr.startswith(b"batchq: line 1: this is no JSON: ")
        assert result.stderr.endswith(b"; nothing was stored\n")
        assert b"--skip" not in result.stderr


def test_the_lines_of_a_pipe_have_to_be_given_again(db: str) -> None:
    result = process("enqueue", "--from", "-", "--batch", "2", dsn=db, answer=lines(2) + b"{")
    assert result.returncode == 1
    assert result.stderr.endswith(b"hint: give the same lines again with --skip 2\n")


def test_a_stopped_import_tells_programs_how_far_it_came(
    db: str, write: Callable[[bytes], str]
) -> None:
    result = batchq("enqueue", "--from", write(lines(3) + b"{"), "--batch=2", "--json", dsn=db)
    assert result.exit_code == 1
    assert json.loads(result.stdout) == {"lines": 2, "new": 2, "duplicates": 0}


def test_lines_of_a_slow_pipe_do_not_wait_for_a_full_batch(db: str) -> None:
    with started("enqueue", "--from", "-", dsn=db) as popen:
        assert popen.stdin is not None
        popen.stdin.write(lines(3) + b'{"kind": "ha')
        popen.stdin.flush()
        until(lambda: count(db) == 3)
        out, _ = popen.communicate(b'lf"}', timeout=20)
        assert (popen.returncode, out) == (0, b"4 new jobs\n")
    assert count(db) == 4


def test_ctrl_c_says_how_many_lines_are_in(db: str) -> None:
    with started("enqueue", "--from", "-", "--batch", "2", dsn=db) as popen:
        assert popen.stdin is not None
        popen.stdin.write(lines(4))
        popen.stdin.flush()
        until(lambda: count(db) == 4)
        popen.send_signal(signal.SIGINT)
        _, err = popen.communicate(timeout=20)
    assert popen.returncode == 130
    assert b"interrupted; 4 lines were committed before (4 new jobs)" in err
    assert b"--skip 4" in err
    assert b"Traceback" not in err


SLOW_COMMIT = """
create function public.slow() returns trigger language plpgsql as
$$ begin perform pg_sleep(1.5); return null; end $$;
create constraint trigger slow after insert on batchq.ready
    deferrable initially deferred for each row execute function public.slow();
"""
COMMITTING = """
select count(*) from pg_stat_activity
where datname = current_database() and application_name = 'batchq' and state = 'active'
  and query ilike 'commit%'
"""


def test_f047_ctrl_c_in_the_middle_of_a_commit_still_knows_its_outcome(db: str) -> None:
    with psycopg.connect(db, autocommit=True) as conn:
        conn.execute(SLOW_COMMIT)
    with started("enqueue", "--from", "-", dsn=db) as popen:
        assert popen.stdin is not None
        popen.stdin.write(lines(1))
        popen.stdin.flush()
        until(lambda: query(db, COMMITTING) == [(1,)])
        popen.send_signal(signal.SIGINT)
        _, err = popen.communicate(timeout=20)
    assert popen.returncode == 130
    assert b"interrupted; 1 line was committed before (1 new job)" in err
    assert count(db) == 1


KILL = """
select count(pg_terminate_backend(pid)) from pg_stat_activity
where datname = current_database() and application_name = 'batchq'
"""


def test_a_lost_connection_says_how_many_lines_are_in(db: str) -> None:
    with started("enqueue", "--from", "-", "--batch", "2", dsn=db) as popen:
        assert popen.stdin is not None
        popen.stdin.write(lines(4))
        popen.stdin.flush()
        until(lambda: count(db) == 4)
        query(db, KILL)
        _, err = popen.communicate(lines(3), timeout=20)
    assert popen.returncode == 3
    assert b"connection to the database was lost" in err
    assert b"4 lines were committed before" in err
    assert count(db) == 4


def test_f047_a_connection_lost_in_a_commit_says_what_is_not_known(db: str) -> None:
    with psycopg.connect(db, autocommit=True) as conn:
        conn.execute(SLOW_COMMIT)
    with started("enqueue", "--from", "-", dsn=db) as popen:
        assert popen.stdin is not None
        popen.stdin.write(lines(1))
        popen.stdin.flush()
        until(lambda: query(db, COMMITTING) == [(1,)])
        query(db, KILL)
        _, err = popen.communicate(timeout=20)
    assert popen.returncode == 3
    assert b"0 lines were committed before, and perhaps those to 1" in err
