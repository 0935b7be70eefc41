"""`batchq top`: its pages by textual's own pilot, on a real database; and on a real terminal."""

from __future__ import annotations

import asyncio
import itertools
import re
import sys
import termios
import time
import uuid
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from rich.cells import cell_len
from textual.widgets import Input

from pybatchq.embedded import Server
from pybatchq.install import install_dsn
from pybatchq.top.grid import cut
from tests.support.console import add, dead, fail, process, query
from tests.support.processes import environment
from tests.support.servers import running
from tests.support.terminal import CTRL_C, Terminal, terminal
from tests.support.top import shown

# also among other attributes; not the default colours, 39 and 49
COLOUR = re.compile(r"\x1b\[(?:[0-9;]*;)?(?:[349][0-7]|10[0-7]|[34]8;[0-9;]+)[;m]")
BEAT = "select batchq.beat_worker(%s, %s, 'host-1', 4711, '0.1', %s, %s, 10, 3, 123456789)::text"


def paused(dsn: str) -> list[tuple[Any, ...]]:
    return query(dsn, "select queue, pause_reason from batchq.queue where paused_at is not null")


def states(dsn: str) -> dict[str, int]:
    return dict(query(dsn, "select state, count(*) from batchq.jobs group by 1"))


async def test_the_first_page_shows_totals_alerts_queues_and_workers(db: str) -> None:
    add(db, n=3, queue="mail")
    add(db, queue="later", delay=3600)
    query(db, BEAT, uuid.uuid4(), "worker-1", ["mail"], ["k"])
    dead(db, 2, queue="unserved")
    add(db, queue="unserved")
    async with shown(db) as screen:
        text = screen.text
        assert "pending 5  running 0  dead 2  in -/s  out -/s  1 worker" in text
        assert "CRITICAL  no live worker says that it works on queue unserved" in text
        assert re.search(r"▸later +0 +1 ", text)
        assert re.search(r" mail +3 +0 ", text)
        assert re.search(r" unserved +1 .* 2 .* no w", text)
        assert re.search(r"worker-1 +alive +3/10 .* 123 MB .* host-1", text)
        add(db, n=4, queue="mail")
        await screen.sees("pending 9")
        assert re.search(r" mail +7 +0 ", screen.text)


async def test_it_fits_and_uses_more_room_where_there_is_some(db: str) -> None:
    add(db, queue="a-queue-with-a-very-long-name-of-many-words")
    sizes: list[tuple[int, int]] = [(40, 10), (80, 24), (140, 40)]
    for size in sizes:
        async with shown(db, size=size) as screen:
            lines = screen.text.splitlines()
            assert len(lines) == size[1]
            assert max(map(cell_len, lines)) <= size[0]
            assert "DEAD" in screen.text
            assert ("OLDEST" in screen.text) == (size[0] > 40)
            assert ("many-words" in screen.text) == (size[0] == 140)


async def test_queues_are_sorted_and_filtered_by_keys(db: str) -> None:
    for name, n in (("alpha", 1), ("beta", 3), ("gamma", 2)):
        add(db, n=n, queue=name)
    async with shown(db) as screen:
        await screen.press("s")
        assert re.search(r"READY▼.*beta +3 .*gamma +2 .*alpha +1 ", screen.text, re.DOTALL)
        await screen.press("S")
        assert re.search(r"QUEUE▲.*alpha.*beta.*gamma", screen.text, re.DOTALL)
        await screen.press("slash", *"MM", "enter")
        await screen.misses("alpha  ")
        assert "gamma" in screen.text
        await screen.press("escape")
        await screen.sees("alpha  ")


async def test_a_queue_is_paused_and_resumed_by_key_after_a_question(db: str) -> None:
    add(db, queue="mail")
    async with shown(db) as screen:
        await screen.press("p")
        await screen.sees("Pause queue mail?")
        await screen.press("escape")
        await screen.misses("Pause queue mail?")
        assert paused(db) == []
        await screen.press("p", *"down", "enter")
        await screen.sees("queue mail is paused", " paused ")
        assert paused(db) == [("mail", "down")]
        await screen.press("p")
        await screen.sees("Resume queue mail?")
        await screen.press("y")
        await screen.sees("queue mail is open")
        assert paused(db) == []


async def test_a_queue_page_says_why_what_is_set_and_what_failed(db: str) -> None:
    dead(db, 3, queue="mail", error="connection refused: 10.0.0.1")
    dead(db, 1, queue="mail", error="another")
    add(db, "send_email", queue="mail")
    query(db, "select batchq.set_queue('mail', max_running => 20, timeout => '2 min')::text")
    async with shown(db) as screen:
        await screen.press("enter")
        await screen.sees("queue mail", "ready 1", "set: running 20  timeout 2m")
        assert "held: no live worker says that it works on queue mail" in screen.text
        assert re.search(r"▸ +3  k +[0-9]+s  connection refused: N\.N\.N\.N", screen.text)
        assert re.search(r"▸ 5  send_email  pending", screen.text)


async def test_dead_letters_of_an_error_are_redriven_by_key_after_a_count(db: str) -> None:
    dead(db, 3, queue="mail", error="connection refused: 10.0.0.1")
    dead(db, 1, queue="mail", error="another")
    async with shown(db) as screen:
        await screen.press("enter")
        await screen.sees("connection refused")
        await screen.press("r")
        await screen.sees("Redrive 3 dead letters of queue mail, kind k")
        await screen.press("n")
        await screen.misses("Redrive 3 dead letters")
        assert states(db) == {"failed": 4}
        await screen.press("r")
        await screen.sees("Redrive 3 dead letters")
        await screen.press("y")
        await screen.sees("3 redriven")
        assert states(db) == {"ready": 3, "failed": 1}
        await screen.misses("connection refused: N.N.N.N")
        await screen.sees("ready 3", "dead 1")


async def test_redriving_goes_on_until_all_are_ready(
    db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pybatchq.top.actions.STEP", 2)
    dead(db, 5, queue="mail")
    async with shown(db) as screen:
        await screen.press("enter")
        await screen.sees("boom")
        await screen.press("r")
        await screen.sees("Redrive 5 dead letters")
        await screen.press("y")
        await screen.sees("5 redriven")
    assert states(db) == {"ready": 5}


async def test_a_job_is_watched_until_it_is_over(db: str) -> None:
    add(db, "send_email", payload={"to": "ada@example.org"})
    async with shown(db, size=(100, 40)) as screen:
        await screen.press("enter")
        await screen.sees("▸ 1  send_email")
        await screen.press("enter")
        await screen.sees("job 1  ready", "kind          send_email", '"to": "ada@example.org"')
        assert screen.app.feed.watched == {1}
        assert "no live worker says that it works on queue default" in screen.text
        query(db, "select batchq.lease('default', worker => 'me')")
        await screen.sees("job 1  leased", "by me")
        query(db, "select batchq.complete(l.job_id, l.lease_id) from batchq.leased l")
        # read again by itself
        await screen.sees("job 1  completed", "attempt 1 started")
        await screen.press("q")
        await screen.sees("queue default")
        assert screen.app.feed.watched == set()


async def test_a_job_is_retried_cancelled_and_found_by_its_uuid(db: str) -> None:
    (job_id,) = dead(db)
    ((name,),) = query(db, "select batchq.job_uuid(%s)::text", job_id)
    async with shown(db) as screen:
        await screen.press("o", *"77", "enter")
        await screen.sees("(JQ003)")
        await screen.press("o")
        screen.app.screen.query_one(Input).value = name
        await screen.press("enter")
        await screen.sees(f"job {job_id}  failed", "attempt 1 failed", "boom")
        await screen.press("r")
        await screen.sees(f"Retry job {job_id}?")
        await screen.press("y")
        await screen.sees(f"job {job_id} is pending again", "ready")
        await screen.press("c", *"twice", "enter")
        await screen.sees(f"job {job_id} is cancelled", f"job {job_id}  cancelled")
    assert states(db) == {"cancelled": 1}


HOSTILE = (
    "[bold]x[/]", "[/][@click=app.quit]x[/]$x {y} %s \\[", "\x1b[2J\x1b]0;t\x07\u202etxt\r\n\t\x9b",
    "🎉👩‍👩‍👧" * 20, "q" * 255,
)  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
async def test_f062_hostile_names_payloads_and_errors_are_only_text(db: str, name: str) -> None:
    (job_id, _) = add(
        db, name, n=2, queue=name, payload={name: name}, headers={"h": name}, group_key=name
    )
    fail(db, name + " failed", name)
    query(db, "select batchq.pause(%s, %s)::text", name, name)
    query(db, BEAT, uuid.uuid4(), name, [name], [name])
    seen = []
    async with shown(db, size=(140, 40)) as screen:
        seen.append(screen.text)
        await screen.press("p")
        await screen.sees("Resume queue")
        seen.append(screen.text)
        await screen.press("y")
        await screen.sees("is open")
        seen.append(screen.text)
        await screen.press("a")
        await screen.sees("Alerts")
        seen.append(screen.text)
        await screen.press("escape", "enter")
        await screen.sees("JOBS", "TRIES", f"{job_id}  ")
        seen.append(screen.text)
        await screen.press("r")
        await screen.sees("Redrive 1 dead letter")
        seen.append(screen.text)
        await screen.press("y")
        await screen.sees("1 redriven")
        await screen.press("end", "enter")
        await screen.sees("payload", "attempt 1 failed")
        seen.append(screen.text)
    for text in seen:
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text)
    if "[" in name and "\x1b" not in name:
        assert all(name in text for text in seen)
    assert states(db) == {"ready": 2}


async def test_deep_payloads_and_long_errors_open_and_are_cut(db: str) -> None:
    query(
        db,
        "select * from batchq.enqueue_many(%s)",
        '[{"kind": "deep", "payload": ' + "[" * 4000 + "]" * 4000 + "}]",
    )
    fail(db, "no space" * 20_000)
    async with shown(db) as screen:
        await screen.press("o", "1", "enter")
        await screen.sees("job 1  failed", "uuid")
        await screen.press("pagedown")
        await screen.sees("[[[[[[[[")
        await screen.press("end")
        await screen.sees("timeline")


async def test_at_most_one_statement_a_second(db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[float, bytes]] = []
    execute = psycopg.AsyncCursor.execute

    async def counted(self: Any, query: Any, *more: Any, **named: Any) -> Any:
        asked.append((time.monotonic(), query))
        return await execute(self, query, *more, **named)

    (job_id,) = add(db)
    async with shown(db, every_s=1) as screen:
        await screen.press("o", *str(job_id), "enter")
        await screen.sees("payload")
        monkeypatch.setattr(psycopg.AsyncCursor, "execute", counted)
        await asyncio.sleep(2.2)
    assert 1 <= len(asked) <= 3
    assert {query for _, query in asked} == {
        b"select * from batchq.live(job_ids => %s::bigint[])",
    }
    times = [at for at, _ in asked]
    assert all(b - a > 0.95 for a, b in itertools.pairwise(times))


async def test_who_may_only_look_is_told_so_and_nothing_ends(db: str) -> None:
    add(db, queue="mail")
    async with shown(make_conninfo(db, options="-c role=batchq_monitor")) as screen:
        await screen.press("p", "enter")
        await screen.sees("permission denied")
        await screen.press("enter")
        await screen.sees("queue mail", "ready 1")
    assert paused(db) == []


def rename(dsn: str, old: str, new: str) -> None:
    with psycopg.connect(dsn) as conn:
        conn.execute(f"alter function batchq.{old} rename to {new}".encode())


async def test_an_error_of_looking_is_shown_with_the_last_picture(db: str) -> None:
    add(db, queue="mail")
    async with shown(db) as screen:
        rename(db, "live", "live_no_more")
        await screen.sees("does not exist", "mail")
        rename(db, "live_no_more", "live")
        await screen.misses("does not exist")


@pytest.fixture
def away() -> Iterator[Server]:
    """A server of its own with batchq, to be stopped."""
    with running(None) as server:
        asyncio.run(install_dsn(server.dsn()))
        yield server


def test_the_last_picture_stays_while_the_database_is_away(away: Server) -> None:
    async def watch() -> None:
        async with shown(away.dsn(), every_s=0.1) as screen:
            await screen.sees("mail")
            await asyncio.to_thread(away.stop)
            await screen.sees("database away, trying again; shown is ", "mail")
            await screen.press("p", "enter")
            await screen.sees("database away, trying again\n")
            await asyncio.to_thread(away.start)
            add(away.dsn(), queue="another")
            await screen.sees("another")
            await screen.misses("trying again; shown")

    add(away.dsn(), queue="mail")
    asyncio.run(watch())


def test_on_a_terminal_it_comes_goes_and_leaves_it_as_it_was(db: str) -> None:
    add(db, queue="mail-of-today")
    for keys in ("q", CTRL_C, "p" + CTRL_C):
        with terminal("top", dsn=db) as screen:
            before = termios.tcgetattr(screen._master)
            screen.expect("mail-of-today")
            screen.expect("back/quit")
            screen.type(keys)
            assert screen.ended() == 0, screen.text
            assert termios.tcgetattr(screen._master) == before
        assert COLOUR.search(screen.raw)
        assert screen.raw.rindex("\x1b[?1049l") > screen.raw.rindex("\x1b[?1049h")
        assert screen.raw.rindex("\x1b[?25h") > screen.raw.rindex("\x1b[?25l")
        assert "Traceback" not in screen.raw
    assert paused(db) == []


def test_no_color_is_none_and_all_is_readable(db: str) -> None:
    add(db, queue="mail")
    with terminal("top", dsn=db, NO_COLOR="1") as screen:
        screen.expect("back/quit")
        screen.type("q")
        assert screen.ended() == 0
    assert not COLOUR.search(screen.raw)
    assert "CRITICAL" in screen.raw


def test_without_a_terminal_it_says_what_to_use(db: str) -> None:
    done = process("top", dsn=db)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == (
        b"batchq: top needs a terminal, for input and output\n"
        b"hint: in a pipe, use batchq stats, or batchq queues --json\n"
    )


def test_without_textual_it_says_how_to_install_it(db: str) -> None:
    program = "import sys; sys.modules['textual'] = None; from pybatchq.cli import main; main()"
    command = [sys.executable, "-c", program, "top"]
    with Terminal(command, env=environment(db)) as screen:
        assert screen.ended() == 2
    assert "hint: install it with: pip install 'pybatchq[top]'" in screen.text


def test_what_is_wrong_from_the_start_is_a_plain_line(empty_db: str) -> None:
    with terminal("top", dsn=empty_db) as screen:
        assert screen.ended() == 1
    assert "run `batchq install` on this database" in screen.text
    assert "\x1b[?1049h" not in screen.raw
    with terminal("top", "--every", "0", dsn=empty_db) as screen:
        assert screen.ended() == 2


def test_a_text_is_cut_to_exactly_its_width() -> None:
    assert cut("abcdef", 4) == "abc…"
    assert cut("ab", 4) == "ab  "
    assert cut("ab", 4, is_right=True) == "  ab"
    assert [cell_len(cut("キュー🎉", n)) for n in range(1, 12)] == list(range(1, 12))


async def test_going_in_and_out_in_a_hurry_ends_nothing(db: str) -> None:
    add(db, n=3, queue="mail")
    async with shown(db, every_s=0.01) as screen:
        for _ in range(5):
            for key in ("enter", "enter", "escape", "escape", "question_mark", "escape"):
                screen.app.simulate_key(key)
            await asyncio.sleep(0.05)
        await screen.press("escape", "escape", "escape")
        await screen.sees("QUEUE▲", "mail")
