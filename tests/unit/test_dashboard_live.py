"""The hub: one statement a second for all who watch, and nobody waits for a slow one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import psycopg
import pytest

from pybatchq import calls
from pybatchq.api.errors import ApiError
from pybatchq.api.pool import Database
from pybatchq.dashboard import live as hubs
from pybatchq.dashboard.live import MOST_JOBS, MOST_WATCHERS, TROUBLE, Cells, Hub, Watcher
from pybatchq.dashboard.rendering import Clock
from pybatchq.live import Live
from tests.conftest import Connection
from tests.support.pages import token
from tests.support.working import until

WAIT_S = 10.0


class Opened:
    """A hub, its database, and what it asked."""

    def __init__(self, dsn: str) -> None:
        self.db = Database(dsn, "hub")
        self.hub = Hub(self.db, Clock())

    async def asked(self, times: int) -> None:
        """Wait for so many more statements."""
        wanted = self.hub.statements + times

        async def look() -> bool:
            return self.hub.statements >= wanted

        await until(look)


@contextlib.asynccontextmanager
async def opened(dsn: str) -> AsyncIterator[Opened]:
    one = Opened(dsn)
    await one.db.open()
    await one.hub.open()
    try:
        yield one
    finally:
        await one.hub.close()
        await one.db.close()


@pytest.fixture
async def one(db: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Opened]:
    """With a second of a tenth of one."""
    monkeypatch.setattr(hubs, "EVERY_S", 0.1)
    monkeypatch.setattr(hubs, "TIMES", 0.0)
    monkeypatch.setattr(hubs, "AFTER_TROUBLE_S", 0.1)
    async with opened(db) as one:
        yield one


def queues(live: Live) -> Cells:
    return {queue.queue: str(queue.ready) for queue in live.queues}


def counting(rendered: list[int]) -> Callable[[Live], Cells]:
    """A view that is different each time, and notes that it was asked."""

    def cells(_live: Live) -> Cells:
        rendered.append(len(rendered))
        return {"n": str(len(rendered))}

    return cells


async def told(watcher: Watcher, name: str, text: str) -> None:
    """Wait until this cell was told."""
    async with asyncio.timeout(WAIT_S):
        while (await watcher.wait(WAIT_S)).get(name) != text:
            pass


async def test_nobody_watches_and_nothing_is_asked(one: Opened) -> None:
    await asyncio.sleep(0.5)
    assert one.hub.statements == 0
    with one.hub.watch("a", queues):
        await one.asked(2)
    await asyncio.sleep(0.3)
    before = one.hub.statements
    await asyncio.sleep(0.5)
    assert one.hub.statements == before


async def test_f093_however_many_watch_it_is_one_statement_a_second(
    db: str, conn: Connection
) -> None:
    spied = 0
    live = calls.live

    async def spy(*args: Any, **arguments: Any) -> Live:
        nonlocal spied
        spied += 1
        return await live(*args, **arguments)

    async with opened(db) as one:
        with pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as stack:
            patch.setattr(calls, "live", spy)
            for n in range(MOST_WATCHERS):
                stack.enter_context(one.hub.watch(("view", n % 400), queues))
            begun = asyncio.get_running_loop().time()
            await one.asked(3)
            took_s = asyncio.get_running_loop().time() - begun
            assert spied <= one.hub.statements <= took_s + 2


async def test_what_takes_long_is_asked_for_seldom(
    db: str, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hubs, "EVERY_S", 0.05)
    live, starts = calls.live, []

    async def slow(*args: Any, **arguments: Any) -> Live:
        starts.append(asyncio.get_running_loop().time())
        await asyncio.sleep(0.05)
        return await live(*args, **arguments)

    monkeypatch.setattr(calls, "live", slow)
    async with opened(db) as one:
        with one.hub.watch("a", queues):
            await one.asked(2)
    assert starts[1] - starts[0] >= 0.05 * hubs.TIMES


async def test_views_of_one_key_are_rendered_once_and_told_to_all(one: Opened) -> None:
    rendered: list[int] = []
    other: list[int] = []
    with contextlib.ExitStack() as stack:
        same = [stack.enter_context(one.hub.watch("same", counting(rendered))) for _ in range(50)]
        stack.enter_context(one.hub.watch("other", counting(other)))
        await one.asked(3)
        found = [await watcher.wait(WAIT_S) for watcher in same]
        assert one.hub.watchers == 51
    assert len({cells["n"] for cells in found}) <= 2
    assert len(rendered) <= one.hub.statements
    assert abs(len(rendered) - len(other)) <= 1
    assert one.hub.watchers == 0


async def test_only_what_changed_is_told(one: Opened, conn: Connection) -> None:
    await calls.enqueue(conn, "k", queue="a")
    await calls.enqueue(conn, "k", queue="b")
    with one.hub.watch("view", queues) as watcher:
        assert await watcher.wait(WAIT_S) == {TROUBLE: "", "a": "1", "b": "1"}
        assert await watcher.wait(0.5) == {}, "nothing changed"
        await calls.enqueue(conn, "k", queue="b")
        assert await watcher.wait(WAIT_S) == {"b": "2"}
        await calls.enqueue(conn, "k", queue="new")
        assert await watcher.wait(WAIT_S) == {"new": "1"}


async def test_whoever_comes_later_is_told_everything(one: Opened, conn: Connection) -> None:
    await calls.enqueue(conn, "k", queue="a")
    with one.hub.watch("view", queues) as first:
        await first.wait(WAIT_S)
        with one.hub.watch("view", queues) as second:
            assert (await second.wait(WAIT_S))["a"] == "1"


async def test_f089_a_slow_watcher_gets_the_newest_and_keeps_nobody_waiting(
    one: Opened, conn: Connection
) -> None:
    with one.hub.watch("view", queues) as slow, one.hub.watch("view", queues) as quick:
        for n in range(1, 6):
            await calls.enqueue(conn, "k", queue="a")
            await told(quick, "a", str(n))
        assert (await slow.wait(WAIT_S))["a"] == "5"
        assert await slow.wait(0.3) == {}, "what was in between is gone"


async def test_f071_trouble_is_told_and_so_is_its_end(one: Opened, conn: Connection) -> None:
    await calls.enqueue(conn, "k", queue="a")
    with one.hub.watch("view", queues) as watcher:
        await told(watcher, "a", "1")
        await conn.execute("alter function batchq.live rename to gone")
        async with asyncio.timeout(WAIT_S):
            while not (cells := await watcher.wait(WAIT_S)).get(TROUBLE):
                pass
        assert "<" not in cells[TROUBLE]
        await conn.execute("alter function batchq.gone rename to live")
        async with asyncio.timeout(WAIT_S):
            while (cells := await watcher.wait(WAIT_S)).get(TROUBLE, "x"):
                pass
        assert cells["a"] == "1", "everything is told anew"


async def test_connections_that_break_are_no_end(one: Opened, conn: Connection) -> None:
    await calls.enqueue(conn, "k", queue="a")
    with one.hub.watch("view", queues) as watcher:
        await told(watcher, "a", "1")
        await conn.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )
        await calls.enqueue(conn, "k", queue="a")
        await told(watcher, "a", "2")


async def test_a_view_that_cannot_be_made_spoils_no_other(
    one: Opened, conn: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    await calls.enqueue(conn, "k", queue="a")

    def broken(_live: Live) -> Cells:
        raise RuntimeError("a fault of ours")

    with one.hub.watch("broken", broken), one.hub.watch("view", queues) as watcher:
        assert await watcher.wait(WAIT_S) == {TROUBLE: "", "a": "1"}
        await calls.enqueue(conn, "k", queue="a")
        assert await watcher.wait(WAIT_S) == {"a": "2"}
    assert "a fault of ours" in caplog.text


async def test_f089_a_watcher_that_leaves_leaves_nothing(one: Opened) -> None:
    for n in range(500):
        with contextlib.suppress(ZeroDivisionError), one.hub.watch(n % 7, queues):
            assert one.hub.watchers == 1
            raise ZeroDivisionError
    assert one.hub.watchers == 0
    with one.hub.watch("a", queues) as first:
        inner = one.hub.watch("a", queues)
        inner.__enter__()
        assert one.hub.watchers == 2
        inner.__exit__(None, None, None)
        assert await first.wait(WAIT_S) == {TROUBLE: ""}


async def test_those_who_leave_while_others_are_told_do_no_harm(one: Opened) -> None:
    rendered: list[int] = []

    async def come_and_go(n: int) -> None:
        for _ in range(20):
            with one.hub.watch(n % 3, counting(rendered)) as watcher:
                await watcher.wait(0.02)

    await asyncio.gather(*[come_and_go(n) for n in range(30)])
    assert one.hub.watchers == 0
    with one.hub.watch("last", queues) as watcher:
        assert await watcher.wait(WAIT_S) == {TROUBLE: ""}


async def test_there_are_only_so_many_watchers_and_jobs(one: Opened, conn: Connection) -> None:
    with contextlib.ExitStack() as stack:
        for n in range(MOST_JOBS):
            stack.enter_context(one.hub.watch(("job", n), queues, job_id=n))
        stack.enter_context(one.hub.watch(("job", 0), queues, job_id=0))
        with pytest.raises(ApiError) as refused, one.hub.watch(("job", "x"), queues, job_id=-1):
            pass
        assert refused.value.status == 503
        for _ in range(MOST_WATCHERS - MOST_JOBS - 1):
            stack.enter_context(one.hub.watch("a", queues))
        assert one.hub.watchers == MOST_WATCHERS
        with pytest.raises(ApiError) as refused, one.hub.watch("a", queues):
            pass
        assert refused.value.status == 503
        assert one.hub.watchers == MOST_WATCHERS
    with one.hub.watch("a", queues) as watcher:
        assert TROUBLE in await watcher.wait(WAIT_S), "room again"


async def test_every_job_that_is_watched_is_asked_for(one: Opened, conn: Connection) -> None:
    jobs = [await calls.enqueue(conn, "k") for _ in range(MOST_JOBS)]
    seen: set[int] = set()

    def note(live: Live) -> Cells:
        seen.update(job.job_id for job in live.jobs)
        return {}

    with contextlib.ExitStack() as stack:
        for job_id in jobs:
            stack.enter_context(one.hub.watch(job_id, note, job_id=job_id))
        await one.asked(2)
    assert seen == set(jobs)


async def test_close_ends_every_watcher_and_lets_none_in(db: str) -> None:
    async with opened(db) as one:
        with one.hub.watch("a", queues) as first, one.hub.watch("b", queues) as second:
            await first.wait(WAIT_S)
            one.hub.stop()
            for watcher in (first, second):
                async with asyncio.timeout(1):
                    while not watcher.is_over:
                        await watcher.wait(1)
            with pytest.raises(ApiError) as refused, one.hub.watch("c", queues):
                pass
            assert refused.value.status == 503
        await one.hub.close()
        await one.hub.close()  # once more is no error


async def test_who_may_not_watch_any_more_is_ended_and_no_other(
    one: Opened, conn: Connection
) -> None:
    import hashlib

    good, bad = [await token(conn, "monitor", name=name) for name in ("good", "bad")]
    proofs = [hashlib.sha256(secret.encode()).digest() for secret in (good, bad)]
    with (
        one.hub.watch("a", queues, proof=proofs[0]) as stays,
        one.hub.watch("a", queues, proof=proofs[1]) as goes,
        one.hub.watch("a", queues, proof=b"x" * 32) as never,
        one.hub.watch("a", queues, proof=None) as anybody,
    ):
        await one.asked(2)
        assert (stays.is_over, goes.is_over) == (False, False)
        assert (never.is_over, anybody.is_over) == (True, True)
        await calls.revoke_token(conn, name="bad")
        await one.asked(3)
        assert (stays.is_over, goes.is_over) == (False, True)


async def test_pages_that_ask_at_once_share_an_answer(one: Opened, conn: Connection) -> None:
    spied = 0
    live = calls.live

    async def spy(*args: Any, **arguments: Any) -> Live:
        nonlocal spied
        spied += 1
        return await live(*args, **arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calls, "live", spy)
        found = await asyncio.gather(*[one.hub.look() for _ in range(100)])
    assert spied <= 2
    assert {id(live) for live in found} <= {id(found[0]), id(found[-1])}
    assert one.hub.statements == 0, "that was for pages"


async def test_a_page_sees_what_was_done_before_it_asked(one: Opened, conn: Connection) -> None:
    for n in range(1, 20):
        await calls.enqueue(conn, "k", queue="a")
        assert queues(await one.hub.look()) == {"a": str(n)}


async def test_the_database_away_is_an_error_of_the_page_only(empty_db: str) -> None:
    gone = psycopg.conninfo.make_conninfo(empty_db, dbname="no_such_database")
    async with opened(gone) as one:
        with pytest.raises(ApiError) as refused:
            await one.hub.look()
        assert refused.value.status == 503
        with one.hub.watch("a", queues) as watcher:
            assert set(await watcher.wait(WAIT_S)) == {TROUBLE}
