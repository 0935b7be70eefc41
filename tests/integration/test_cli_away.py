"""`batchq wait`, `jobs --follow` and `stats --watch` while their server is away."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import Iterator

import pytest

from pybatchq import calls
from pybatchq.cli import CliError, _database
from pybatchq.embedded import Server
from pybatchq.install import install_dsn
from tests.support.console import add, complete, query, started, until
from tests.support.servers import running


@pytest.fixture
def away() -> Iterator[Server]:
    """A server of its own with batchq, to be stopped."""
    with running(None) as server:
        asyncio.run(install_dsn(server.dsn()))
        yield server


LOST = b"batchq: the connection was lost; trying again\n"
REFUSALS_S = 2.0


def test_wait_follow_and_watch_go_on_when_the_server_is_back(away: Server) -> None:
    dsn = away.dsn()
    (first,) = add(dsn)
    with (
        started("wait", first, dsn=dsn) as wait,
        started("jobs", "-f", "--json", dsn=dsn) as follow,
        started("stats", "--watch", "100ms", "--json", dsn=dsn) as watch,
    ):
        watched = "select count(*) from pg_stat_activity where application_name = 'batchq'"
        until(lambda: query(dsn, watched) == [(3,)])
        assert follow.stdout is not None
        assert watch.stdout is not None
        assert json.loads(follow.stdout.readline())["id"] == first
        assert json.loads(watch.stdout.readline())["ready"] == 1
        away.stop()
        for process in (wait, follow, watch):
            assert process.stderr is not None
            assert process.stderr.readline() == LOST
        time.sleep(REFUSALS_S)  # several attempts are refused
        assert [process.poll() for process in (wait, follow, watch)] == [None] * 3
        away.start()
        complete(dsn)
        assert json.loads(follow.stdout.readline())["status"] == "completed"
        while json.loads(watch.stdout.readline())["ready"] != 0:
            pass
        assert wait.communicate(timeout=20) == (f"{first} completed\n".encode(), b"")
        for process in (follow, watch):
            process.send_signal(signal.SIGINT)
            assert process.communicate(timeout=20)[1] == b""
        assert [process.returncode for process in (wait, follow, watch)] == [0] * 3


def test_wait_gives_a_server_that_stays_away_its_timeout(away: Server) -> None:
    (job_id,) = add(away.dsn())
    begun = time.monotonic()
    with started("wait", job_id, "--timeout", "8s", dsn=away.dsn()) as wait:
        waits = "select count(*) from pg_stat_activity where query ~ 'list_jobs'"
        until(lambda: query(away.dsn(), waits + " and pid <> pg_backend_pid()") == [(1,)])
        away.stop("immediate")
        out, err = wait.communicate(timeout=30)
    assert (wait.returncode, out) == (3, b""), err
    assert time.monotonic() - begun > 8, err
    assert err.startswith(LOST + b"batchq: the database cannot be reached: ")


def test_without_a_timeout_the_patience_ends_after_a_while(
    away: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_database, "RECONNECT_FOR_S", 1.0)
    with _database.Database(away.dsn()) as db:
        away.stop()
        begun = time.monotonic()
        with pytest.raises(CliError, match="cannot be reached") as caught:
            db.look(calls.now)
    assert caught.value.exit_code == 3
    assert time.monotonic() - begun >= 1
