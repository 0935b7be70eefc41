"""`batchq set-job`, `drain-worker`, `audit`: what an operator does, and what is kept of it."""

from __future__ import annotations

import datetime as dt
from uuid import uuid4

import pytest

from tests.support.console import add, batchq, done, fields, query, records

BEAT = "select batchq.beat_worker(%s, %s, 'host', %s, '0', '{mail}', '{a,b}', 10, 3)::text"
PLACE = "select state, priority, run_at from batchq.jobs where id = 1"


def test_a_job_takes_a_priority_and_a_time(db: str) -> None:
    add(db, n=1, queue="mail")
    assert done("set-job", 1, "--priority", 7, dsn=db) == "job 1 is ready.\n"
    assert query(db, PLACE)[0][:2] == ("ready", 7)
    out = done("set-job", 1, "--run-at", "2090-01-31T09:00+02:00", dsn=db)
    assert out == "job 1 is scheduled.\n"
    ((state, priority, run_at),) = query(db, PLACE)
    assert (state, priority) == ("scheduled", 7)
    assert run_at == dt.datetime(2090, 1, 31, 7, tzinfo=dt.UTC)
    assert done("set-job", 1, "--in", "2h", "--priority", -1, dsn=db) == "job 1 is scheduled.\n"
    ((_, priority, run_at),) = query(db, PLACE)
    left = run_at - query(db, "select clock_timestamp()")[0][0]
    assert dt.timedelta(hours=1, minutes=59) < left <= dt.timedelta(hours=2)
    assert priority == -1
    assert done("set-job", 1, "--run-now", dsn=db) == "job 1 is due.\n"
    assert query(db, "select job_id, priority from batchq.lease('mail')") == [(1, -1)]
    refused = batchq("set-job", 1, "--run-now", dsn=db)
    assert refused.exit_code == 1
    assert refused.stderr.startswith("batchq: job 1 is running (JQ005)\nhint: ")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--run-now", "--in", "2h"), "give one of"),
        (("--run-now", "--run-at", "2090-01-01T00:00Z"), "give one of"),
        (("--in", "999999999d"), "beyond the calendar"),
        (("--run-at", "2090-01-01"), "has no time zone"),
        (("--priority", "high"), "--priority"),
        (("--priority", "40000"), "invalid priority: 40000 (JQ001)"),
        ((), "nothing to change (JQ001)"),
    ],
)
def test_f065_silly_changes_are_refused(db: str, words: tuple[str, ...], says: str) -> None:
    add(db, n=1)
    result = batchq("set-job", 1, *words, dsn=db)
    assert result.exit_code == 2
    assert says in result.stderr
    assert query(db, PLACE)[0][:2] == ("ready", 0)


def test_the_audit_says_who_did_what(db: str) -> None:
    assert batchq("audit", dsn=db).stderr == "nothing was done\n"
    done("pause", "mail", "--reason", "why\tnot", dsn=db)
    done("resume", "mail", dsn=db)
    user = query(db, "select session_user::text")[0][0]
    resumed, paused = fields(done("audit", dsn=db))
    assert (resumed["action"], resumed["target"], resumed["details"]) == (
        "resume",
        "queue mail",
        "",
    )
    assert (paused["actor"], paused["db_user"], paused["action"]) == (user, user, "pause")
    found = records(done("audit", "--json", dsn=db))
    assert found[1]["details"] == {"reason": "why\tnot"}
    assert [entry["audit_id"] for entry in found] == [2, 1]
    page = batchq("audit", "-n", 1, dsn=db)
    assert page.stderr == "more: batchq audit --before 2\n"
    (older,) = records(done("audit", "--before", 2, "--json", dsn=db))
    assert older["audit_id"] == 1
    done("pause", "other", dsn=db)
    own = records(done("audit", "--target", "queue other", "--json", dsn=db))
    assert [entry["action"] for entry in own] == ["pause"]


def test_workers_are_asked_to_drain_by_name_or_id(db: str) -> None:
    ids = [str(uuid4()) for _ in range(3)]
    for worker_id, name, pid in zip(ids, "aab", (1, 2, 3), strict=True):
        query(db, BEAT, worker_id, name, pid)
    silence = "update batchq.worker set beat_at = beat_at - interval '5 min' where pid = 2"
    query(db, f"{silence} returning pid")
    asked = "select pid from batchq.worker where drain_requested_at is not null order by pid"
    assert done("drain-worker", "a", dsn=db) == "worker a (pid 1) was asked to end.\n"
    assert query(db, asked) == [(1,)]
    assert done("drain-worker", ids[2], dsn=db) == "worker b (pid 3) was asked to end.\n"
    assert query(db, asked) == [(1,), (3,)]
    for name in ("c", ids[1]):
        missing = batchq("drain-worker", name, dsn=db)
        assert missing.exit_code == 1
        assert missing.stderr.startswith(f"batchq: no worker {name} is alive\nhint: ")
    found = records(done("workers", "--all", "--json", dsn=db))
    assert [bool(worker["drain_requested_at"]) for worker in found].count(True) == 2
