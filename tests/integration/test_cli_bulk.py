"""`batchq cancel`, `redrive` and `purge`, of named jobs and of all that match."""

from __future__ import annotations

import json
import signal
import time

import psycopg
import pytest

from pybatchq.cli import _bulk
from tests.support.console import add, batchq, complete, count, dead, done, query, started, until


def statuses(dsn: str) -> dict[str, int]:
    return dict(query(dsn, "select status, count(*) from batchq.jobs group by 1"))


def test_cancel_goes_on_after_a_job_that_cannot_be_cancelled(db: str) -> None:
    pending, running = add(db, n=2, queue="q", priority=0)
    query(db, "select batchq.lease('q')")
    (over,) = dead(db)
    result = batchq("cancel", over, running, pending, 99999, "--reason", "why", dsn=db)
    assert result.exit_code == 1
    assert set(result.stdout.splitlines()) == {
        f"{pending} was asked to stop", f"{running} cancelled",
    }  # fmt: skip
    errors = result.stderr.splitlines()
    assert errors[0] == f"batchq: job {over} is failed (JQ005)"
    assert errors[1] == "batchq: no job 99999 (JQ003)"
    assert errors[2] == "batchq: 2 of 4 could not be cancelled"
    as_json = done("cancel", running, "--json", dsn=db)
    assert json.loads(as_json) == {"job_id": running, "outcome": "cancelled"}


def test_cancel_by_filter(db: str) -> None:
    add(db, n=3, queue="q")
    add(db, n=2, queue="other")
    query(db, "select batchq.lease('q')")
    out = done("cancel", "--queue", "q", "--dry-run", dsn=db)
    assert out == "3 jobs would be cancelled (queue q)\n"
    assert done("cancel", "--queue", "q", "--yes", dsn=db) == "2 cancelled, 1 asked to stop\n"
    assert statuses(db) == {"cancelled": 2, "running": 1, "pending": 2}
    out = done("cancel", "--all", "--yes", "--json", dsn=db)
    assert json.loads(out) == {"cancelled": 2, "asked_to_stop": 0, "deferred": 0}


def test_redrive_by_id_and_by_filter(db: str) -> None:
    one, *others = dead(db, n=4, queue="q")
    dead(db, n=1, queue="other")
    assert done("redrive", one, one, dsn=db) == "1 redriven\n"
    assert done("redrive", one, dsn=db) == "0 redriven; 1 left alone: pending already\n"
    assert done("redrive", "--queue", "q", "--dry-run", "--json", dsn=db) == (
        '{"matched":3,"is_exact":true}\n'
    )
    assert done("redrive", "--queue", "q", "--failed-before", "1h", "--yes", dsn=db) == (
        "no jobs match\n"
    )
    assert done("redrive", "--queue", "q", "--since", "1h", "--yes", dsn=db) == "3 redriven\n"
    assert statuses(db) == {"pending": 4, "failed": 1}
    missing = batchq("redrive", others[0], 99999, dsn=db)
    assert (missing.exit_code, "JQ003" in missing.stderr) == (1, True)


def test_b34_redrive_and_purge_by_error(db: str) -> None:
    dead(db, n=3, queue="q", error="no host 10.0.0.7")
    dead(db, n=1, queue="q", error="no host 10.0.0.9")
    dead(db, n=2, queue="q", error="other")
    group = ("--error", "no host N.N.N.N")
    out = done("redrive", *group, "--dry-run", dsn=db)
    assert out == "4 jobs would be redriven (error no host N.N.N.N)\n"
    assert done("redrive", *group, "--yes", dsn=db) == "4 redriven\n"
    assert done("purge", "--error", "other", "--yes", dsn=db) == "2 purged\n"
    assert statuses(db) == {"pending": 4}


def test_purge_by_id_and_by_filter(db: str) -> None:
    failed, *_ = dead(db, n=3)
    (pending,) = add(db, queue="q")
    assert done("purge", failed, dsn=db) == "1 purged\n"
    refused = batchq("purge", pending, dsn=db)
    assert refused.exit_code == 1
    assert refused.stderr == "batchq: 1 of 1 job left alone: not failed; see --status\n"
    unknown = batchq("purge", 99, pending, dsn=db)
    assert (unknown.exit_code, unknown.stdout) == (1, "")
    assert unknown.stderr.startswith("batchq: no job 99 (JQ003)\n")
    for words in (("--all", "--yes"), (pending,)):
        wrong = batchq("purge", "--status", "running", *words, dsn=db)
        assert wrong.exit_code == 2
        assert "--status: 'running' is none of failed, completed or cancelled" in wrong.stderr
    complete(db, "q")
    out = done("purge", "--status", "completed", "--dry-run", dsn=db)
    assert out == "1 job would be purged (status completed)\n"
    assert done("purge", "--status", "completed", "--yes", dsn=db) == "1 purged\n"
    assert done("purge", "--all", "--yes", dsn=db) == "2 purged\n"
    assert count(db) == 0


@pytest.mark.parametrize("name", ["cancel", "redrive", "purge"])
def test_what_changes_many_jobs_wants_to_be_told_which_and_that_it_is_meant(
    db: str, name: str
) -> None:
    dead(db)
    add(db)
    before = statuses(db)
    for words, message in (
        ((), "which jobs?"),
        (("1", "--queue", "q"), "not both"),
        (("1", "--all"), "not both"),
        (("1", "--per-second", "5"), "goes with filters"),
        (("--all", "--yes", "--per-second", "nan"), "is no number"),
        (("--all", "--yes", "--per-second", "0"), "from 0.001 to 1,000,000"),
        (("--queue", "default"), "give --yes, or --dry-run"),
        (("--all",), "give --yes, or --dry-run"),
    ):
        result = batchq(name, *words, dsn=db)
        assert result.exit_code == 2, words
        assert message in result.stderr
    assert statuses(db) == before


def test_many_jobs_are_changed_in_steps(db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_bulk, "STEP", 7)
    monkeypatch.setattr(_bulk, "LARGEST_STEP", 20)
    add(db, n=100)
    assert done("cancel", "--all", "--yes", dsn=db) == "100 cancelled\n"
    out = done("purge", "--status", "cancelled", "--yes", "--json", dsn=db)
    assert json.loads(out) == {"purged": 100}


def test_a_redrive_does_not_take_a_job_twice_that_fails_at_once(
    db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_bulk, "STEP", 1)
    monkeypatch.setattr(_bulk, "LARGEST_STEP", 1)
    dead(db, n=4)
    with psycopg.connect(db, autocommit=True) as conn:
        conn.execute(
            """
            create function public.fail_at_once() returns trigger language plpgsql as $$
            begin
                perform batchq.fail(l.job_id, l.lease_id, 'again', permanent => true)
                from batchq.lease() l;
                return null;
            end $$;
            create constraint trigger fail_at_once after insert on batchq.ready
                deferrable initially deferred for each row
                execute function public.fail_at_once();
            """
        )
    assert done("redrive", "--all", "--yes", dsn=db) == "4 redriven\n"
    twice = query(db, "select id from batchq.jobs where last_error <> 'again'")
    assert twice == []


def test_per_second_holds_it_back(db: str) -> None:
    add(db, n=5)
    assert done("cancel", "--all", "--yes", "--per-second", "10", dsn=db) == "5 cancelled\n"
    dead(db, n=5)
    begun = time.monotonic()
    out = done("purge", "--all", "--yes", "--per-second", "2", dsn=db)
    assert out == "5 purged\n"
    assert time.monotonic() - begun >= 2
    ids = dead(db, n=5)
    out = done("redrive", "--all", "--yes", "--per-second", "2", dsn=db)
    assert out == "5 redriven\n"
    spread = query(
        db, "select max(run_at) - min(run_at) >= '1.9 s' from batchq.jobs where id = any(%s)", ids
    )
    assert spread == [(True,)]


def test_ctrl_c_between_steps_says_how_far_it_came(db: str) -> None:
    add(db, n=50)
    with started("cancel", "--all", "--yes", "--per-second", "1", dsn=db) as popen:
        until(lambda: statuses(db).get("cancelled", 0) >= 1)
        popen.send_signal(signal.SIGINT)
        out, err = popen.communicate(timeout=20)
    assert (popen.returncode, out) == (130, b"")
    assert b"interrupted; at least 1 cancelled before" in err
    assert b"Traceback" not in err
