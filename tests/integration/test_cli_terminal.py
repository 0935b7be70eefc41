"""The command line on a terminal of 80 columns: tables, colours, bars, questions, Ctrl-C."""

from __future__ import annotations

import re
import uuid
from pathlib import Path

import psycopg
import pytest
from rich.cells import cell_len

from tests.support.console import add, count, fail, query, until
from tests.support.terminal import COLOUR, CTRL_C, CTRL_D, Terminal, terminal

STATUSES = "select status, count(*) from batchq.jobs group by 1"


def shown(*arguments: object, dsn: str, columns: int = 80, **env: str) -> Terminal:
    """A command that ended well; no line of it was wider than the terminal."""
    with terminal(*map(str, arguments), dsn=dsn, columns=columns, **env) as screen:
        assert screen.ended() == 0, screen.text
    fits(screen, columns)
    return screen


def fits(screen: Terminal, columns: int = 80) -> None:
    for line in screen.lines:
        assert cell_len(line) <= columns, line


def rows(screen: Terminal) -> list[str]:
    return [line for line in screen.text.splitlines() if line.strip()]


@pytest.fixture
def busy(db: str) -> str:
    """A database with a job of each kind of trouble, under long names."""
    add(db, "send_a_very_long_kind_of_email_to_everybody", queue="a-queue-with-a-very-long-name")
    add(db, "発送メール" * 8, queue="キュー" * 10)
    add(db, "k", delay=86_000)
    add(db, "k", n=2, queue="work")
    fail(db, "connection refused: " + "no route to host; " * 20, "work")
    query(db, "select batchq.lease('work', worker => 'host-with-a-long-name.example.org:12345')")
    query(db, "select batchq.pause('work', reason => %s)::text", "the provider is down " * 5)
    return db


def test_jobs_are_a_table_of_one_line_each(busy: str) -> None:
    screen = shown("jobs", dsn=busy)
    header, *lines = rows(screen)
    assert header.split() == ["ID", "KIND", "QUEUE", "STATUS", "TRIES", "AGE", "NOTE"]
    assert len(lines) == 5
    ids = [str(one) for (one,) in query(busy, "select id from batchq.jobs order by id desc")]
    assert [line.split()[0] for line in lines] == ids
    assert "by host-with" in screen.text
    assert "in 23h 53m" in screen.text
    assert "…" in screen.text


def test_a_narrow_terminal_has_fewer_columns_and_a_wide_one_cuts_less(busy: str) -> None:
    narrow = rows(shown("jobs", dsn=busy, columns=40))
    assert len(narrow) == 6
    assert narrow[0].split()[:1] == ["ID"]
    assert "STATUS" in narrow[0]
    assert "NOTE" not in narrow[0]
    wide = shown("jobs", dsn=busy, columns=300)
    assert "send_a_very_long_kind_of_email_to_everybody" in wide.text


def test_settings_and_groups_fit(busy: str) -> None:
    query(
        busy,
        "select batchq.set_queue('work', 20000, '90 min', '10 min', 'exponential', '10 s', 2.5,"
        " '1 day', 'full', max_running => 1000000, rate => 1000000, rate_period => '90 min',"
        " group_limit => 10000, group_rate => 10000, fair => true, group_retry => 'hold',"
        " age_every => '90 min', max_depth => 100000, on_full => 'delay')::text",
    )
    settings = shown("queues", "--settings", dsn=busy)
    assert "1,000,000/1h 30m" in settings.text
    assert "LEASE" not in settings.text
    everything = shown("queues", "--settings", dsn=busy, columns=200)
    assert "exponential 10s x2.5 to 1d jitter full" in everything.text
    assert "10,000, 10,000/1s, fair, hold" in everything.text
    add(busy, n=3, queue="work", group_key="a-customer-with-a-very-long-name " * 5)
    header, line = rows(shown("groups", "work", dsn=busy))
    assert header.split() == ["GROUP", "BLOCKED", "SEATS", "LIMIT", "WEIGHT", "NEXT", "WAITS"]
    assert line.split()[-5:-1] == ["3", "0", "10,000", "1"]


def test_queues_stats_and_workers_fit(busy: str) -> None:
    query(
        busy,
        "select batchq.beat_worker(%s, %s, %s, 4194303, '0.1', %s, %s, 100, 99, 1234567890)::text",
        uuid.uuid4(), "host-with-a-long-name.example.org:4194303", "host-with-a-long-name",
        ["default", "mail", "slow"], ["send_email", "report", "close_the_books"],
    )  # fmt: skip
    queues = shown("queues", dsn=busy)
    assert len(rows(queues)) == 1 + 4
    assert "PAUSED" in queues.text
    stats = shown("stats", dsn=busy)
    assert rows(stats)[-1].split()[:4] == ["all", "2", "1", "1"]
    workers = rows(shown("workers", dsn=busy))
    assert len(workers) == 2
    assert "alive" in workers[1]
    assert "99/100" in workers[1]


def test_the_next_page_is_shown_below_the_table(db: str) -> None:
    ids = add(db, n=4)
    screen = shown("jobs", "-n", 3, dsn=db)
    assert rows(screen)[-1] == f"more: batchq jobs -n 3 --before {ids[1]}"


def test_colours_are_for_terminals_that_want_them(busy: str) -> None:
    assert COLOUR.search(shown("jobs", dsn=busy).raw)
    for screen in (shown("jobs", dsn=busy, NO_COLOR="1"), shown("jobs", dsn=busy, TERM="dumb")):
        assert not COLOUR.search(screen.raw)
        assert "failed" in screen.text


STYLE = re.compile(r"\x1b\[[0-9;]*m")


def test_no_color_is_no_bold_either(busy: str) -> None:
    for words in (("jobs",), ("job", 1), ("stats",)):
        assert STYLE.search(shown(*words, dsn=busy).raw), words
        assert not STYLE.search(shown(*words, dsn=busy, NO_COLOR="1").raw), words


RAISED = """ValueError: the address has no domain
  File "/srv/app/mail.py", line 31, in send
    deliver(message)
  File "/srv/app/mail.py", line 12, in deliver
    raise ValueError("the address has no domain")"""


def test_an_exception_is_whole_once_an_attempt_and_one_line_elsewhere(db: str) -> None:
    (job_id,) = add(db)
    fail(db, RAISED, "default")
    job = shown("job", job_id, dsn=db).text
    assert "last error    ValueError: the address has no domain\n\n" in job
    assert "\n".join("  " + line for line in RAISED.splitlines()) in job
    assert job.count("line 31, in send") == 1
    listed = rows(shown("jobs", dsn=db, columns=300))
    assert listed[1].rstrip().endswith("  ValueError: the address has no domain")


def test_without_workers_there_is_no_table_and_with_all_the_pids_stay(db: str) -> None:
    assert shown("workers", dsn=db).text == "no workers\n"
    query(
        db,
        "select batchq.beat_worker(%s, %s, %s, 4194303, '0.1', %s, %s, 100, 99, 1234567890)::text",
        uuid.uuid4(), "host-with-a-long-name.example.org:4194303", "host-with-a-long-name",
        ["default", "mail", "slow"], ["send_email", "report", "close_the_books"],
    )  # fmt: skip
    for words in (("workers",), ("workers", "--all")):
        header, line = rows(shown(*words, dsn=db))
        assert "PID" in header
        assert "4194303" in line


def test_f062_nothing_of_the_database_moves_the_cursor(db: str) -> None:
    (job_id,) = add(db, "\x1b[2Jk", payload={"a": "\x1b[31m\u009b1m"}, queue="\x1b]0;q\x07")
    fail(db, "\x1b[1A\x1b[2K\rall is well\u202e", "\x1b]0;q\x07")
    for words in (("jobs",), ("job", job_id), ("queues",)):
        screen = shown(*words, dsn=db)
        assert screen.text.replace("\n", "").isprintable(), words
        assert "\x1b[2J" not in screen.raw


def test_a_long_job_is_cut_with_a_note_and_folded(db: str) -> None:
    (job_id,) = add(db, payload={"list": list(range(100)), "text": "word " * 100})
    fail(db, "no space" * 200, "default")
    cut = shown("job", job_id, dsn=db)
    assert "more lines: --full shows them" in cut.text
    assert "      99" not in cut.text
    full = shown("job", job_id, "--full", dsn=db)
    assert "--full" not in full.text
    assert "      99" in full.text
    assert full.text.replace("\n", "").replace(" ", "").count("nospace" * 200) >= 1


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "jobs.ndjson"
    path.write_text("".join(f'{{"kind": "k", "payload": {n}}}\n' for n in range(3000)))
    return str(path)


def test_an_import_shows_a_bar_by_bytes(db: str, file: str) -> None:
    screen = shown("enqueue", "--from", file, "--batch", 100, dsn=db)
    assert "━" in screen.text
    assert re.search(r"[0-9.]+/[0-9.]+ [kM]B", screen.text)
    assert rows(screen)[-1] == "3,000 new jobs"
    assert screen.raw.rindex("\x1b[?25h") > screen.raw.rindex("\x1b[?25l")


def test_lines_typed_are_counted_and_ctrl_d_ends_them(db: str) -> None:
    with terminal("enqueue", "--from", "-", dsn=db) as screen:
        screen.type('{"kind": "typed"}\n')
        screen.expect("1 job ")
        screen.type(CTRL_D)
        assert screen.ended() == 0
    assert rows(screen)[-1] == "1 new job"
    assert query(db, "select kind from batchq.jobs") == [("typed",)]


def test_ctrl_c_stops_an_import_and_says_how_far_it_came(db: str) -> None:
    with terminal("enqueue", "--from", "-", dsn=db) as screen:
        screen.type('{"kind": "typed"}\n')
        screen.expect("1 job ")
        screen.type(CTRL_C)
        assert screen.ended() == 130
    fits_told(screen, "interrupted; 1 line was committed before (1 new job)")
    assert count(db) == 1


def fits_told(screen: Terminal, message: str) -> None:
    """One plain line, and the cursor is back."""
    assert f"\nbatchq: {message}\n" in screen.text
    assert "Traceback" not in screen.text
    assert screen.raw.rfind("\x1b[?25h") >= screen.raw.rfind("\x1b[?25l")


def test_many_are_changed_after_a_question_only(db: str) -> None:
    add(db, n=3)
    for keys, code in (("n\n", 1), ("\n", 1), (CTRL_D, 1), (CTRL_C, 130)):
        with terminal("cancel", "--all", dsn=db) as screen:
            screen.asked("Cancel 3 jobs (all)? [y/N]: ")
            screen.type(keys)
            assert screen.ended() == code
        fits_told(screen, "interrupted" if code == 130 else "nothing was done")
    assert query(db, STATUSES) == [("pending", 3)]
    with terminal("cancel", "--all", dsn=db) as screen:
        screen.asked("Cancel 3 jobs (all)? [y/N]: ")
        screen.type("y\n")
        assert screen.ended() == 0
    assert query(db, STATUSES) == [("cancelled", 3)]
    assert rows(screen)[-1] == "3 cancelled"
    assert "3 of 3" in screen.text
    fits(screen)


def test_ctrl_c_at_the_question_of_uninstall_leaves_everything(db: str) -> None:
    with terminal("uninstall", dsn=db) as screen:
        screen.asked("[y/N]: ")
        screen.type(CTRL_C)
        assert screen.ended() == 130
    fits_told(screen, "interrupted")
    assert count(db) == 0


def test_stats_are_watched_in_place_until_ctrl_c(db: str) -> None:
    add(db, n=41)
    with terminal("stats", "--watch", "100ms", dsn=db) as screen:
        screen.expect("41")
        add(db)
        screen.expect("42")
        screen.type(CTRL_C)
        assert screen.ended() == 0
    fits(screen)
    assert "\x1b[1A" in screen.raw
    assert screen.raw.rindex("\x1b[?25h") > screen.raw.rindex("\x1b[?25l")
    assert "batchq:" not in screen.text


def test_jobs_are_followed_until_ctrl_c(db: str) -> None:
    add(db, "first")
    with terminal("jobs", "-f", dsn=db) as screen:
        screen.expect("first")
        add(db, "second")
        screen.expect("second")
        screen.type(CTRL_C)
        assert screen.ended() == 0
    assert screen.text.count("STATUS") == 1
    fits(screen)


WAITS = """
select count(*) from pg_stat_activity
where datname = current_database() and application_name = 'batchq' and query ~ 'list_jobs'
"""
HANGS = """
select count(*) from pg_stat_activity
where datname = current_database() and application_name = 'batchq' and wait_event_type = 'Lock'
"""


def test_ctrl_c_is_one_plain_line(db: str) -> None:
    (job_id,) = add(db)
    with terminal("wait", str(job_id), dsn=db) as screen:
        until(lambda: query(db, WAITS) == [(1,)])
        screen.type(CTRL_C)
        assert screen.ended() == 130
    fits_told(screen, "interrupted")


def test_ctrl_c_cancels_a_statement_that_hangs(db: str) -> None:
    with psycopg.connect(db) as conn:
        conn.execute("lock table batchq.queue in access exclusive mode")
        with terminal("pause", "q", dsn=db) as screen:
            until(lambda: query(db, HANGS) == [(1,)])
            screen.type(CTRL_C)
            assert screen.ended() == 130
            assert query(db, HANGS) == [(0,)]
        fits_told(screen, "interrupted")


def test_help_has_sections_and_fits(db: str) -> None:
    screen = shown("-h", dsn=db)
    for section in ("Set up:", "Run:", "Jobs:", "Queues:"):
        assert f"\n{section}\n" in screen.text
    assert "..." not in screen.text.split("Set up:")[1]
