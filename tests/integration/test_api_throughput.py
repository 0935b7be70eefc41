"""Rates and throughput over HTTP: in lists of queues, and over time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from pybatchq import calls
from tests.conftest import Connection
from tests.support.api import Api, serving


@pytest.fixture
async def api(db: str) -> AsyncIterator[Api]:
    async with serving(db) as api:
        yield api


async def work(api: Api, conn: Connection, *, queue: str, done: int, left: int) -> None:
    """Jobs of the last whole minute, and what the tally makes of them."""
    for _ in range(done + left):
        await api.enqueue(queue=queue)
    jobs = await calls.lease(conn, queue=queue, n=done)
    await calls.complete_many(
        conn,
        job_ids=[job.job_id for job in jobs],
        lease_ids=[job.lease_id for job in jobs],
    )
    await conn.execute("select pg_stat_force_next_flush()")


async def tally(conn: Connection) -> None:
    """All counted, as if the minute in which it happened had been the one before this."""
    for _ in range(6):
        await conn.execute("select batchq._tally()")
    await conn.execute(
        """
        delete from batchq.rollup where span = 60;
        with m as (delete from batchq.rollup returning *)
        insert into batchq.rollup
        select batchq._minute(clock_timestamp()) - interval '1 minute', sum(wait_s), sum(run_s),
               sum(enqueued), sum(completed), 0, 0, 0, 0, 0, sum(waited), 1, queue, kind,
               max(waits), max(runs)
        from m group by queue, kind;
        update batchq.tally set tallied_at = clock_timestamp()
        """
    )


async def test_queues_tell_their_rates_and_when_they_will_be_empty(
    api: Api, conn: Connection
) -> None:
    await work(api, conn, queue="mail", done=4, left=2)
    assert (await api.get("/queues/mail")).json["rate"] is None, "not counted yet"
    await tally(conn)
    growing = (await api.get("/queues/mail")).json
    assert growing["rate"] == {"enqueued": 6 / 60, "completed": 4 / 60, "failed": 0}
    assert growing["drain_s"] is None
    await conn.execute("update batchq.rollup set enqueued = 1")
    (listed,) = (await api.get("/queues")).json["queues"]
    assert listed["rate"]["enqueued"] == 1 / 60
    assert listed["drain_s"] == pytest.approx(2 / (3 / 60))


async def test_throughput_of_a_queue_and_of_all(api: Api, conn: Connection) -> None:
    await work(api, conn, queue="mail", done=4, left=2)
    await work(api, conn, queue="sms", done=1, left=0)
    await tally(conn)
    for path, done in (("/queues/mail/throughput", 4), ("/throughput", 5)):
        points = (await api.get(f"{path}?since=5m")).json["points"]
        assert [point["completed"] for point in points] == [0, 0, 0, 0, done]
        assert points[0]["run_p50"] is None
        assert 0 < points[-1]["run_p50"] <= points[-1]["run_p99"] < 60
        times = [datetime.fromisoformat(point["at"]) for point in points]
        assert {b - a for a, b in pairwise(times)} == {timedelta(minutes=1)}
    steps = (await api.get("/queues/mail/throughput?since=168h&step=1h&kind=none")).json["points"]
    assert len(steps) in {168, 169}
    assert not any(point["completed"] for point in steps)
    assert len((await api.get("/queues/mail/throughput")).json["points"]) == 60


@pytest.mark.parametrize("query", ["since=1s", "since=x", "step=90s", "step=99999999h", "other=1"])
async def test_lengths_out_of_bounds_are_refused(api: Api, query: str) -> None:
    assert (await api.get(f"/throughput?{query}")).error[:2] == (400, "JQ001")


async def test_throughput_of_a_queue_that_never_was(api: Api) -> None:
    assert (await api.get("/queues/none/throughput")).error[:2] == (404, "JQ002")


async def test_b35_metrics_have_histograms_of_waits_and_runs(api: Api, conn: Connection) -> None:
    await work(api, conn, queue="mail", done=4, left=2)
    for _ in range(6):
        await conn.execute("select batchq._tally()")
    page = (await api.get("/metrics")).text
    for name in ("batchq_job_wait_seconds", "batchq_job_run_seconds"):
        assert f'{name}_bucket{{le="+Inf",queue="mail"}} 4.0' in page
        assert f'{name}_bucket{{le="67108.864",queue="mail"}} 4.0' in page
        assert f'{name}_count{{queue="mail"}} 4.0' in page
