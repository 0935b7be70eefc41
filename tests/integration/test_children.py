"""Handlers in processes of their own: they do what they do in a thread, and share no fate."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pybatchq import attempts, children, endings, logs
from pybatchq.children import Children
from pybatchq.endings import STOPPED, Ending
from pybatchq.handlers import Registry
from tests.support import process_kinds
from tests.support.families import Saved, family, gone, is_gone, result, started
from tests.support.process_kinds import attempt_of


@pytest.fixture
def saved() -> Saved:
    return Saved()


@pytest.fixture
async def pool(saved: Saved) -> AsyncIterator[Children]:
    async with family(saved) as made:
        yield made


THE_SAME = [
    *(("returns", kind) for kind in process_kinds.RETURNS),
    *(("raises", kind) for kind in process_kinds.RAISES),
    *(("raises, choosy", kind) for kind in process_kinds.RAISES),
    ("echo", {"a": [1, 2.5, None, True, "x"]}),
    ("echo", b'{"broken'),
    ("echo", b"[" * 100_000 + b"]" * 100_000),
    ("area", {"width": 3, "height": 4, "unknown": 1}),
    ("area", {"width": "3"}),
    ("area", {}),
    ("name", {"name": "n", "size": {"width": 2}}),
    ("name", {"name": "n", "size": {}}),
    ("snoozes", 2.5),
    ("told", None),
    ("hooked", "returns"),
    ("hooked", "raises"),
    ("progress", {"done": 1}),
    ("too much progress", None),
]


async def test_a_process_ends_attempts_as_a_thread_does(saved: Saved, pool: Children) -> None:
    """Results, exceptions, policies, payloads, hooks, progress: the same table, both ways."""
    for kind, payload in THE_SAME:
        for headers in (None, b'{"before":"raises"}', b'{"after":"raises"}'):
            if headers is not None and kind != "hooked":
                continue
            here = Saved()
            attempt = attempt_of(kind, payload, save=here, headers=headers)
            expected = await asyncio.to_thread(
                attempts.run_here, attempt.handler, attempt.job, attempt.item.payload
            )
            saved.rows.clear()
            got = await pool.run(attempt_of(kind, payload, headers=headers))
            assert got == expected, (kind, payload)
            assert saved.rows[-1:] == here.rows[-1:], (kind, payload)
    assert (pool.idle, pool.metrics.processes_killed) == (1, 0)


async def test_the_table_of_both_ways_has_every_kind_of_ending(pool: Children) -> None:
    events = {(await pool.run(attempt_of(*case))).event for case in THE_SAME}
    assert events == {"completed", "failed", "released", "stopped"}


async def test_a_deadline_counts_from_the_start_of_the_attempt(pool: Children) -> None:
    attempt = attempt_of("deadline", timeout_s=100.0)
    attempt.since -= 40
    ending = await pool.run(attempt)
    assert 0 < float(ending.text or 0) <= 60


async def test_one_process_runs_one_job_at_a_time_and_the_last_used_is_the_next(
    saved: Saved, pool: Children, tmp_path: Path
) -> None:
    door = tmp_path / "door"
    long = started(pool, attempt_of("gate", str(door), job_id=1))
    first = await saved.next()
    second = await result(pool, "pid")
    assert first != second
    assert {await result(pool, "pid") for _ in range(5)} == {second}
    assert (pool.running, pool.idle) == (1, 1)
    door.touch()
    assert (await long).text == str(first)
    assert (pool.running, pool.idle) == (0, 2)
    assert {await result(pool, "pid") for _ in range(5)} == {first}


async def test_a_handler_is_loaded_once_by_each_process(pool: Children) -> None:
    seen = [await result(pool, "counting") for _ in range(3)]
    assert seen == [seen[0]] * 3
    assert seen[0][1] == 1


async def test_another_handler_of_the_same_kind_is_loaded_anew(pool: Children) -> None:
    other = Registry()
    other.handler("pid", runs_in="process")(process_kinds.echo)
    first = await result(pool, "pid")
    assert await result(pool, "pid", "other", handlers=other) == "other"
    assert await result(pool, "pid") == first


async def test_a_process_is_replaced_after_its_share_so_that_leaks_end(saved: Saved) -> None:
    async with family(saved, jobs_per_child=3) as pool:
        seen = [await result(pool, "leaks", 1000) for _ in range(7)]
        assert [lost for _, lost in seen] == [1000, 2000, 3000, 1000, 2000, 3000, 1000]
        assert len({pid for pid, _ in seen}) == 3
        await gone(seen[0][0])
        assert pool.metrics.processes_killed == 0


async def test_idle_processes_beyond_the_limit_end_after_a_while(
    saved: Saved, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(children, "LOOK_EVERY_S", 0.05)
    async with family(saved, keep_idle=1) as pool:
        monkeypatch.setattr(children, "LINGER_S", 3600.0)
        door = tmp_path / "door"
        running = [started(pool, attempt_of("gate", str(door), job_id=i)) for i in range(3)]
        while len(saved.rows) < 3:
            await saved.next()
        door.touch()
        pids = [int((await one).text or 0) for one in running]
        assert pool.idle == 3  # for they may be needed at once
        newest = await result(pool, "pid")
        monkeypatch.setattr(children, "LINGER_S", 0.0)
        for pid in set(pids) - {newest}:
            await gone(pid)
        assert pool.idle == 1
        assert await result(pool, "pid") == newest
    await gone(newest)


async def test_progress_is_sent_now_and_then_and_its_newest_value_before_the_end(
    saved: Saved, pool: Children
) -> None:
    at = time.monotonic()
    assert await result(pool, "counts", 50_000) == 50_000
    took_s = time.monotonic() - at
    assert saved.values == sorted(saved.values)
    assert (saved.values[0], saved.values[-1]) == (0, 49_999)
    assert len(saved.rows) <= took_s / 0.2 + 2


async def test_progress_that_was_held_back_comes_while_the_handler_computes(
    saved: Saved, pool: Children
) -> None:
    attempt = attempt_of("reports and waits")
    running = started(pool, attempt)
    while saved.values[-1:] != ["second"]:
        await saved.next()
    assert saved.values == ["first", "second"]
    attempt.cancel("cancelled")
    assert await running == STOPPED


async def test_a_job_reports_from_any_thread_but_not_after_its_end(
    saved: Saved, pool: Children
) -> None:
    await pool.run(attempt_of("threads report", 200, job_id=1))
    count = len(saved.rows)
    await pool.run(attempt_of("progress", "of the next", job_id=2))
    await result(pool, "sleeps", 0.5)
    assert {job_id for job_id, _ in saved.rows[:count]} == {1}
    assert saved.rows[count:] == [(2, "of the next")]


@pytest.mark.parametrize("why", ["cancelled", "lost", "timed_out", "shutdown"])
async def test_f080_a_job_that_looks_is_stopped_and_its_process_used_again(
    saved: Saved, pool: Children, why: endings.Stop
) -> None:
    attempt = attempt_of("gate")
    running = started(pool, attempt)
    pid = await saved.next()
    attempt.cancel(why)
    assert await running == STOPPED
    assert await result(pool, "pid") == pid
    assert pool.metrics.processes_killed == 0


@pytest.mark.parametrize("kind", ["stubborn", "holds the lock"])
async def test_f080_a_process_that_does_not_stop_is_killed(
    saved: Saved,
    pool: Children,
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(attempts, "STOP_WITHIN_S", 0.3)
    attempt = attempt_of(kind)
    running = started(pool, attempt)
    pid = await saved.next()
    at = time.monotonic()
    attempt.cancel("timed_out")
    assert await running == STOPPED
    assert time.monotonic() - at >= 0.3
    assert is_gone(pid)
    (record,) = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert record.getMessage() == "process does not stop: it is killed"
    assert vars(record).items() >= {"kind": kind, "job_id": 7, "reason": "timed_out"}.items()
    assert await result(pool, "pid") != pid
    assert pool.metrics.processes_killed == 1


async def test_a_handler_may_end_its_process_when_it_is_cancelled(
    saved: Saved, pool: Children
) -> None:
    attempt = attempt_of("leaves when cancelled")
    running = started(pool, attempt)
    await saved.next()
    attempt.cancel("cancelled")
    assert await running == STOPPED
    assert pool.metrics.processes_killed == 0


async def test_what_a_killed_handler_has_started_is_killed_too(
    saved: Saved, pool: Children, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "STOP_WITHIN_S", 0.1)
    attempt = attempt_of("starts a program and waits")
    running = started(pool, attempt)
    program = await saved.next()
    attempt.cancel("lost")
    assert await running == STOPPED
    await gone(program)


async def test_an_attempt_that_was_stopped_before_it_began_is_not_run(pool: Children) -> None:
    attempt = attempt_of("dies", 3)
    attempt.cancel("shutdown")
    assert await pool.run(attempt) == STOPPED
    assert pool.idle == 0


async def test_an_attempt_is_stopped_at_once_while_its_process_starts(pool: Children) -> None:
    attempt = attempt_of("dies", 3)
    running = started(pool, attempt)
    await asyncio.sleep(0)
    assert pool.running == 1
    attempt.cancel("cancelled")
    assert await running == STOPPED
    assert (pool.running, pool.idle) == (0, 0)


@pytest.mark.parametrize("kind", [None, "gate"])
async def test_cancelling_run_kills_the_process(
    saved: Saved, pool: Children, kind: str | None
) -> None:
    """kind: which runs; None: it only starts."""
    running = started(pool, attempt_of(kind or "gate"))
    pid = None if kind is None else await saved.next()
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    if pid is not None:
        await gone(pid)
    assert (pool.running, pool.idle) == (0, 0)


async def test_a_payload_of_100_mb_keeps_neither_the_loop_nor_the_job(pool: Children) -> None:
    await result(pool, "pid")
    gaps: list[float] = []

    async def tick() -> None:
        while True:
            at = time.monotonic()
            await asyncio.sleep(0)
            gaps.append(time.monotonic() - at)

    ticking = asyncio.ensure_future(tick())
    text = b'"' + b"x" * 100_000_000 + b'"'
    assert await result(pool, "length", text) == 100_000_000
    ticking.cancel()
    assert len(gaps) > 100  # the loop turned all the while


async def test_an_attempt_is_stopped_while_its_large_payload_is_sent(
    saved: Saved, pool: Children
) -> None:
    pid = await result(pool, "pid")
    attempt = attempt_of("reports and waits", b'"' + b"x" * 50_000_000 + b'"')
    running = started(pool, attempt)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    attempt.cancel("cancelled")
    assert await running == STOPPED
    assert await result(pool, "pid") == pid


async def test_what_a_handler_prints_is_seen_at_once_and_disturbs_nothing(
    pool: Children, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    assert await result(pool, "prints", "printed") == ""  # it has no input
    out, err = capfd.readouterr()
    assert sorted(out.split("\n")) == ["", "printed", "written to 1"]
    assert sorted(err.split("\n")) == ["", "printed", "written to 2"]
    await result(pool, "closes its output")
    assert await result(pool, "echo", 1) == 1


@pytest.mark.parametrize(
    ("signum", "survives"), [(signal.SIGINT, True), (signal.SIGTERM, False)], ids=str
)
async def test_signals_of_a_terminal(pool: Children, signum: int, survives: bool) -> None:
    """SIGINT is nothing to a process of handlers, but all to the programs it starts."""
    ending = await pool.run(attempt_of("signals itself", int(signum)))
    if survives:
        assert ending == Ending("completed", '"default_int_handler\\n"')
    else:
        assert ending.text == "the handler's process died: killed by SIGTERM"


def is_of_own_session(pid: int) -> bool:
    return os.getsid(pid) == pid


async def test_a_process_has_a_session_of_its_own(pool: Children) -> None:
    """So that what a terminal sends to the worker's process group does not reach it."""
    assert is_of_own_session(await result(pool, "pid"))


def _logging_of(monkeypatch: pytest.MonkeyPatch, formatter: logging.Formatter | None) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(formatter)
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [handler])
    monkeypatch.setattr(root, "level", logging.INFO)


def _is_json(err: str) -> bool:
    entry: dict[str, Any] = msgspec.json.decode(err)
    return entry.items() >= {"message": "said", "job_id": 7, "kind": "logs"}.items()


def _is_pretty(err: str) -> bool:
    return "INFO said job_id=7 kind=logs" in err


def _is_plain(err: str) -> bool:
    return err == "INFO:pybatchq.job:said\n"


@pytest.mark.parametrize(
    ("formatter", "looks_right"),
    [
        (logs.JsonFormatter(), _is_json),
        (logs.PrettyFormatter(), _is_pretty),
        (None, _is_plain),
    ],
    ids=["json", "pretty", "plain"],
)
async def test_a_process_logs_as_its_worker_does(
    pool: Children,
    formatter: logging.Formatter | None,
    looks_right: Callable[[str], bool],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    _logging_of(monkeypatch, formatter)
    await result(pool, "logs", "said")
    err = capfd.readouterr().err
    assert looks_right(err), err
    assert "not shown" not in err
