"""`batchq explain` and `peek`: plain words for people, JSON for programs."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from tests.support.console import add, batchq, done, query, records
from tests.support.terminal import terminal

WORKER = (
    "select batchq.beat_worker(gen_random_uuid(), 'w', 'h', 1, '1', '{mail}', '{k}', 1, 0)::text"
)


def test_a_job_is_explained_in_words_and_as_json(db: str) -> None:
    (job,) = add(db, queue="mail", delay=3600)
    query(db, "select batchq.pause('mail', 'provider is down')::text")
    head, due, paused, worker = done("explain", job, dsn=db).splitlines()
    assert head == f"job {job} is held back:"
    assert due.startswith("- it is not due until ")
    assert due.endswith(("(in 59m 59s)", "(in 1h)"))
    assert paused.endswith(": provider is down")
    assert worker == "- no live worker says that it works on queue mail"
    found = records(done("explain", job, "--json", dsn=db))
    assert [gate["gate"] for gate in found] == ["due", "paused", "worker"]
    assert found[1]["data"]["reason"] == "provider is down"
    ((uuid,),) = query(db, "select batchq.job_uuid(%s)::text", job)
    assert done("explain", uuid, dsn=db).splitlines()[0] == head


def test_a_job_that_nothing_holds_is_one_line(db: str) -> None:
    (job,) = add(db, queue="mail")
    query(db, WORKER)
    says = "nothing holds it back: the next lease of queue mail takes it\n"
    assert done("explain", job, dsn=db) == says


def test_a_queue_is_explained(db: str) -> None:
    add(db, n=2, queue="mail")
    query(db, WORKER)
    query(db, "select batchq.set_queue('mail', max_running => 0)::text")
    lines = done("explain", "--queue", "mail", dsn=db).splitlines()
    assert lines[:4] == [
        "queue mail is held back:",
        "- queue mail is stopped, its cap is 0",
        "",
        "2 ready, 0 scheduled, 0 blocked",
    ]


def test_peek_lists_what_comes_next(db: str) -> None:
    jobs = add(db, n=3, queue="mail")
    found = records(done("peek", "mail", "-n", 2, "--json", dsn=db))
    assert [job["job_id"] for job in found] == jobs[:2]
    assert found[0] == {
        "job_id": jobs[0], "kind": "k", "priority": 0, "group_key": None, "state": "ready",
    }  # fmt: skip
    query(db, "select batchq.pause('mail')::text")
    empty = batchq("peek", "mail", dsn=db)
    assert (empty.stdout, empty.exit_code) == ("", 0)
    assert empty.stderr == "nothing can be leased now: batchq explain --queue mail\n"


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (["explain"], 2, "give the ID of a job, or --queue"),
        (["explain", "1", "--queue", "q"], 2, "give the ID of a job, or --queue"),
        (["explain", "77"], 1, "JQ003"),
        (["explain", "--queue", "no"], 1, "JQ002"),
        (["peek", "no"], 1, "JQ002"),
        (["peek", "no", "-n", "1001"], 2, "1001"),
    ],
)
def test_what_is_wrong_is_said(db: str, arguments: list[str], exit_code: int, message: str) -> None:
    result = batchq(*arguments, dsn=db)
    assert result.exit_code == exit_code
    assert message in result.stderr


def test_words_from_the_database_stay_in_their_line(db: str) -> None:
    (job,) = add(db, queue="mail")
    query(db, "select batchq.pause('mail', %s)::text", "up \x1b[31m\n" + "word " * 40)
    _, paused, _ = done("explain", job, dsn=db).splitlines()
    assert "\x1b" not in paused
    assert "\\u001b" in paused


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_sentences_are_wrapped_on_a_terminal(db: str, columns: int) -> None:
    (job,) = add(db, "発送メール" * 20, queue="キュー" * 30, delay=3600)
    query(db, "select batchq.pause(%s, %s)::text", "キュー" * 30, "word " * 40)
    for arguments in (["explain", str(job)], ["explain", "--queue", "キュー" * 30]):
        with terminal(*arguments, dsn=db, columns=columns) as screen:
            assert screen.ended() == 0, screen.text
        _, *lines = screen.text.splitlines()  # the first names the queue
        assert max(map(cell_len, lines)) <= min(columns, 80)
        assert sum(line.count("word") for line in lines) == 40
