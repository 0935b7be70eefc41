"""`batchq jobs`, `job` and `wait`."""

from __future__ import annotations

import datetime as dt
import json
import signal
import subprocess
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.support.console import (
    add,
    batchq,
    command,
    complete,
    dead,
    done,
    fail,
    fields,
    process,
    query,
    records,
    started,
)
from tests.support.processes import ROOT, environment

# --- jobs


def test_jobs_in_a_pipe_are_whole_lines_newest_first(db: str) -> None:
    long = "k" * 200
    first, second = add(db, long, n=2, queue="mail", dedupe_key=None)
    jobs = fields(done("jobs", dsn=db))
    assert [job["id"] for job in jobs] == [str(second), str(first)]
    assert jobs[0]["kind"] == long
    assert (jobs[0]["queue"], jobs[0]["status"], jobs[0]["state"]) == ("mail", "pending", "ready")
    assert jobs[0]["created_at"].endswith("Z")
    assert jobs[0]["locked_by"] == ""


def test_f064_names_with_tabs_line_ends_and_escapes_stay_on_their_line(db: str) -> None:
    add(db, "a\tb\nc\x1b[31m\u009bd\u202e")
    out = done("jobs", dsn=db)
    assert len(out.splitlines()) == 2
    assert fields(out)[0]["kind"] == "a\\u0009b\\u000ac\\u001b[31m\\u009bd\\u202e"
    (job,) = records(done("jobs", "--json", dsn=db))
    assert job["kind"] == "a\tb\nc\x1b[31m\u009bd\u202e"


def test_jobs_of_a_dedupe_key(db: str) -> None:
    (one,) = add(db, dedupe_key="K")
    query(db, "select batchq.cancel_many(array[(select max(id) from batchq.jobs)])")
    (two,) = add(db, dedupe_key="K")
    add(db, dedupe_key="k")
    found = batchq("jobs", "--dedupe-key", "K", "-n", "1", dsn=db)
    assert [job["id"] for job in fields(found.stdout)] == [str(two)]
    assert f"more: batchq jobs --dedupe-key K -n 1 --before {two}" in found.stderr
    jobs = fields(done("jobs", "--dedupe-key", "K", "--before", two, dsn=db))
    assert [job["id"] for job in jobs] == [str(one)]


def test_json_lines_keep_ids_numbers_and_times_iso(db: str) -> None:
    (job_id,) = add(db, timeout=90)
    (job,) = records(done("jobs", "--json", dsn=db))
    assert job["id"] == job_id
    assert job["attempts"] == 0
    assert job["last_error"] is None
    assert job["created_at"].endswith("Z")


def test_filters(db: str) -> None:
    add(db, "a", queue="one")
    (late,) = add(db, "b", queue="two", delay=3600)
    (failed,) = dead(db)

    def ids(*words: str) -> list[int]:
        return [job["id"] for job in records(done("jobs", *words, "--json", dsn=db))]

    assert ids("--queue", "two") == ids("--kind", "b") == ids("--state", "scheduled") == [late]
    assert ids("--status", "failed") == [failed]
    assert ids("--status", "processing") == []
    assert ids("--since", "1h") == ids("--until", "2100-01-01T00:00Z") == ids()
    assert ids("--since", "999999999d") == ids()
    assert ids("--until", "1h") == ids("--since", "2100-01-01T00:00+02:00") == []
    unknown = batchq("jobs", "--status", "nope", dsn=db)
    assert unknown.exit_code == batchq("jobs", "--state", "done", dsn=db).exit_code == 2
    assert "unknown status: 'nope' (JQ001)\nhint: give pending" in unknown.stderr


def test_no_match_says_so_beside_an_empty_answer(db: str) -> None:
    result = batchq("jobs", dsn=db)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "no jobs match\n")
    unused = batchq("jobs", "--queue", "nosuch", dsn=db)
    assert unused.exit_code == 0
    assert unused.stderr == "no jobs match\nqueue nosuch was never used until now\n"


def test_the_hint_of_a_page_is_the_command_of_the_next(db: str) -> None:
    ids = add(db, n=5, queue="a b")
    seen: list[int] = []
    words = ["jobs", "--queue", "a b", "-n", "2", "--json"]
    for _ in range(3):
        result = batchq(*words, dsn=db)
        seen += [job["id"] for job in records(result.stdout)]
        if result.stderr:
            hint = result.stderr.strip()
            assert hint.startswith("more: batchq jobs --queue 'a b' -n 2 --before ")
            words = [*words[:6], "--before", hint.split()[-1]]
    assert result.stderr == ""
    assert seen == ids[::-1]


def test_the_hint_of_a_page_has_the_same_filters_with_fixed_times(db: str) -> None:
    ids = add(db, n=3)
    hint = batchq("jobs", "--since", "2h", "--kind", "k", "-n", "1", dsn=db).stderr.split()
    assert hint[:3] == ["more:", "batchq", "jobs"]
    since = dt.datetime.fromisoformat(hint[hint.index("--since") + 1])
    assert since < dt.datetime.now(dt.UTC) - dt.timedelta(hours=1.9)
    (job,) = records(done(*hint[2:], "--json", dsn=db))
    assert job["id"] == ids[1]


def test_pages_beyond_what_one_call_gives(db: str) -> None:
    ids = add(db, n=1201)
    assert [job["id"] for job in records(done("jobs", "--all", "--json", dsn=db))] == ids[::-1]
    assert len(records(done("jobs", "-n", "700", "--json", dsn=db))) == 700
    whole = done("jobs", "--all", dsn=db).splitlines()
    assert len(whole) == 1202  # one header only


@pytest.mark.parametrize("words", [("jobs", "--all"), ("jobs", "--all", "--json"), ("job", "1")])
def test_a_reader_that_leaves_ends_it_quietly(db: str, words: tuple[str, ...]) -> None:
    is_one = words[0] == "job"
    add(db, n=1 if is_one else 3000, payload=list(range(50_000)) if is_one else {})
    with (
        subprocess.Popen(
            command(*words), cwd=ROOT, env=environment(db), stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as jobs,
        subprocess.Popen(["head", "-n", "1"], stdin=jobs.stdout, stdout=subprocess.PIPE) as head,
    ):  # fmt: skip
        assert jobs.stdout is not None
        jobs.stdout.close()
        assert len(head.communicate(timeout=30)[0].splitlines()) == 1
        _, err = jobs.communicate(timeout=30)
    assert err == b""
    assert jobs.returncode == 141


def test_follow_prints_new_jobs_and_changes_until_ctrl_c(db: str) -> None:
    add(db, "old")
    with started("jobs", "--follow", "--json", dsn=db) as popen:
        assert popen.stdout is not None

        def next_job() -> dict[str, Any]:
            assert popen.stdout is not None
            line: dict[str, Any] = json.loads(popen.stdout.readline())
            return line

        assert next_job()["kind"] == "old"
        (new,) = add(db, "new", queue="q")
        assert (next_job()["id"]) == new
        query(db, "select batchq.lease('q', worker => 'w')")
        job = next_job()
        assert (job["id"], job["status"], job["locked_by"]) == (new, "running", "w")
        query(db, "select batchq.cancel(%s)", new - 1)
        assert next_job()["status"] == "cancelled"
        popen.send_signal(signal.SIGINT)
        out, err = popen.communicate(timeout=20)
    assert (popen.returncode, out, err) == (0, b"", b"")


def test_follow_goes_on_over_a_new_connection(db: str) -> None:
    kill = (
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where datname = current_database() and application_name = 'batchq'"
    )
    add(db)
    with started("jobs", "-f", "--json", dsn=db) as popen:
        assert popen.stdout is not None
        popen.stdout.readline()
        query(db, kill)
        (new,) = add(db)
        assert json.loads(popen.stdout.readline())["id"] == new
        popen.send_signal(signal.SIGINT)
        _, err = popen.communicate(timeout=20)
    assert popen.returncode == 0
    assert err == b"batchq: the connection was lost; trying again\n"


# --- job


def test_everything_about_one_job(db: str) -> None:
    (job_id,) = add(
        db, "report", payload={"a": [1, 2]}, headers={"trace": "t1"}, dedupe_key="d", timeout=90
    )
    query(db, "select batchq.fail(l.job_id, l.lease_id, E'first\\nline two', retry_in => '-1 s')"
              " from batchq.lease(worker => 'w1') l")  # fmt: skip
    query(db, "select batchq.progress(l.job_id, l.lease_id, '{\"done\": 40}')"
              " from batchq.lease(worker => 'w2') l")  # fmt: skip
    running = done("job", job_id, dsn=db)
    for wanted in (
        f"job {job_id}  report  running",
        "queue         default",
        "attempts      2 of 3",
        "dedupe key    d",
        "timeout       1m 30s",
        'headers       {"trace": "t1"}',
        "locked by     w2",
        'progress      {"done": 40}',
        "last error    first\n",
        '    "a": [\n      1,\n      2\n    ]',
        "attempt 1 failed 20",
        "ago by w1\n  first\n  line two",
        "timeline",
        "  created",
        "  attempt 1 failed",
        "  attempt 2 started",
    ):
        assert wanted in running, wanted
    query(db, "select batchq.complete(job_id, lease_id, '{\"n\": 1.10}') from batchq.leased")
    ended = done("job", job_id, dsn=db)
    assert f"job {job_id}  report  completed" in ended
    assert 'result\n  {\n    "n": 1.10\n  }' in ended
    assert ended.rstrip().endswith("completed")


def test_the_reason_of_a_cancelled_job_is_whole(db: str) -> None:
    (job_id,) = add(db)
    done("cancel", job_id, "--reason", "ordered\ntwice", dsn=db)
    assert "last error    ordered twice\n" in done("job", job_id, dsn=db)


def test_a_pending_job_that_nobody_would_run_has_a_note(db: str) -> None:
    def noted(kind: str = "k", queue: str = "mail") -> str | None:
        (job_id,) = add(db, kind, queue=queue)
        notes = [line for line in done("job", job_id, dsn=db).splitlines() if "NOTE" in line]
        assert len(notes) <= 1
        return notes[0].removeprefix("NOTE").strip() if notes else None

    assert noted(queue="mail") == "no live worker serves queue mail"
    query(
        db, "select batchq.beat_worker(%s, 'w', 'h', 1, '0', '{mail}', '{a}', 10, 0)::text",
        uuid.uuid4(),
    )  # fmt: skip
    assert noted(kind="a", queue="mail") is None
    assert noted(kind="aa", queue="mail") == (
        "no live worker of queue mail has a handler for kind aa"
    )
    assert noted(kind="a", queue="male") == "no live worker serves queue male"
    (job_id,) = dead(db, queue="q")
    assert "NOTE" not in done("job", job_id, dsn=db)


def test_b21_a_uuid_names_the_job_too(db: str) -> None:
    (job_id,) = add(db)
    by_number = json.loads(done("job", job_id, "--json", dsn=db))
    assert by_number["id"] == job_id
    assert json.loads(done("job", by_number["uuid"], "--json", dsn=db))["id"] == job_id
    for wrong, code in (("999999", "JQ003"), ("soon", "JQ001"), ("-5", "No such option")):
        result = batchq("job", wrong, dsn=db)
        assert result.exit_code in {1, 2}
        assert code in result.stderr


def test_job_as_json_has_every_field_and_stored_json_as_json(db: str) -> None:
    (job_id,) = dead(db, error="why")
    job = json.loads(done("job", job_id, "--json", dsn=db))
    assert (job["status"], job["payload"], job["result"]) == ("failed", {}, None)
    assert job["errors"][0]["error"] == "why"
    assert job["timeout"] is None
    (timed,) = add(db, timeout=90)
    assert json.loads(done("job", timed, "--json", dsn=db))["timeout"] == 90


def test_in_a_pipe_nothing_of_a_job_is_cut(db: str) -> None:
    (job_id,) = add(db, payload=list(range(500)))
    assert "    499\n" in done("job", job_id, dsn=db)


def test_no_control_character_of_a_payload_or_an_error_is_printed(db: str) -> None:
    (job_id,) = add(db, payload={"t": "\x1b[31m\u009b\x7f\u2028"})
    fail(db, "\x1b]0;title\x07")
    refused = batchq("jobs", "--status", "\x1b[2J\u202e", dsn=db)
    assert "unknown status: '\\u001b[2J\\u202e'" in refused.stderr
    for words in (("job", job_id), ("job", job_id, "--json"), ("jobs",), ("jobs", "--json")):
        out = done(*words, dsn=db).replace("\n", "").replace("\t", "")
        assert out.isprintable(), words
    stored = json.loads(done("job", job_id, "--json", dsn=db))["payload"]
    assert stored == {"t": "\x1b[31m\u009b\x7f\u2028"}


def test_f063_times_that_python_does_not_have_are_shown_all_the_same(db: str) -> None:
    (job_id,) = add(db, delay=3600)
    query(db, "update batchq.scheduled set run_at = 'infinity' returning 1")
    for words in (("jobs",), ("jobs", "--json"), ("job", job_id), ("queues",)):
        assert "9999-12-31" in done(*words, dsn=db)


# --- wait


def test_wait_tells_each_end_and_ends_well_when_all_completed(db: str) -> None:
    first, second = add(db, n=2)
    with started("wait", first, second, dsn=db) as popen:
        assert popen.stdout is not None
        complete(db)
        assert popen.stdout.readline() == f"{first} completed\n".encode()
        complete(db)
        out, err = popen.communicate(timeout=20)
    assert (popen.returncode, out, err) == (0, f"{second} completed\n".encode(), b"")


def test_wait_fails_where_a_job_failed_or_was_cancelled(db: str) -> None:
    (failed,) = dead(db, error="no\nroute")
    (cancelled,) = add(db)
    query(db, "select batchq.cancel(%s)", cancelled)
    (good,) = add(db)
    complete(db)
    result = batchq("wait", failed, cancelled, good, failed, dsn=db)
    assert result.exit_code == 1
    assert set(result.stdout.splitlines()) == {
        f"{failed} failed: no", f"{cancelled} cancelled", f"{good} completed",
    }  # fmt: skip
    assert result.stderr == "batchq: 2 of 3 jobs did not complete\n"
    as_json = batchq("wait", failed, "--json", dsn=db)
    assert as_json.exit_code == 1
    assert records(as_json.stdout)[0]["status"] == "failed"


def test_wait_gives_up_after_its_time(db: str) -> None:
    (job_id,) = add(db)
    begun = time.monotonic()
    result = batchq("wait", job_id, "--timeout", "300ms", dsn=db)
    assert time.monotonic() - begun > 0.3
    assert (result.exit_code, result.stdout) == (4, "")
    assert result.stderr == "batchq: timed out: 1 of 1 job did not end\n"


def test_wait_for_a_job_that_is_not_there(db: str) -> None:
    add(db)
    result = batchq("wait", "99999", dsn=db)
    assert result.exit_code == 1
    assert "no job 99999 (JQ003)" in result.stderr


def test_in_a_pipe_there_are_no_control_codes_even_where_colours_are_forced(db: str) -> None:
    dead(db)
    for words in (("jobs",), ("job", "1"), ("queues",), ("stats",), ("-h",)):
        result = process(*words, dsn=db, FORCE_COLOR="1", TERM="xterm-256color")
        assert result.returncode == 0
        assert b"\x1b" not in result.stdout + result.stderr, words


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("words", [("jobs",), ("jobs", "--json"), ("-h",), ("jobs", "-h")])
def test_a_full_disk_below_the_output_is_one_plain_line(db: str, words: tuple[str, ...]) -> None:
    add(db)
    with Path("/dev/full").open("wb") as full:
        result = subprocess.run(
            command(*words), cwd=ROOT, env=environment(db), stdout=full, stderr=subprocess.PIPE,
            timeout=30, check=False,
        )  # fmt: skip
    assert result.returncode == 1
    assert result.stderr == (b"batchq: the output cannot be written: No space left on device\n")
