"""GET /metrics: true, cheap however many ask and however long the history, and bounded."""

from __future__ import annotations

import asyncio
import hashlib
import math
import re
import shutil
import subprocess
import time
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import pytest
from ruamel.yaml import YAML

from pybatchq import calls
from pybatchq.api import metrics
from pybatchq.api.auth import ANYONE
from pybatchq.api.metrics import METRICS
from pybatchq.metrics import CONTENT_TYPE
from pybatchq.types import Scope
from tests.conftest import Connection
from tests.support.api import Api, client, running, serving, url_of
from tests.support.processes import ROOT
from tests.support.scrape import Scrape, scraped
from tests.support.working import until

DEPTHS = "select queue, ready, scheduled, leased, dead as failed from batchq.stats()"
HISTORY = 1_000_000


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every scrape looks anew."""
    monkeypatch.setattr(metrics, "KEEP_S", 0.0)
    monkeypatch.setattr(metrics, "KEEP_TIMES", 0.0)


async def beat(conn: Connection, *, running: int = 0, concurrency: int = 5) -> Any:
    worker_id = uuid4()
    await calls.beat_worker(
        conn, worker_id=worker_id, worker="w", host="h", pid=1, version="0", queues=["default"],
        kinds=["k"], concurrency=concurrency, running=running,
    )  # fmt: skip
    return worker_id


async def test_b35_the_page_is_prometheus_text(db: str) -> None:
    async with serving(db) as api:
        await api.enqueue()
        answer = await api.get("/metrics")
    assert answer.headers["Content-Type"] == CONTENT_TYPE
    assert "batchq_queue_depth" in Scrape(answer).samples
    check_with_promtool(answer.text)


def check_with_promtool(text: str) -> None:
    """Prometheus' own opinion, where it is there."""
    promtool = shutil.which("promtool")
    if promtool is not None:
        command = [promtool, "check", "metrics"]
        done = subprocess.run(command, input=text, text=True, capture_output=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), text


async def in_all_states(conn: Connection, api: Api) -> None:
    for _ in range(3):
        await api.enqueue()
    await api.enqueue(delay=60)
    for number in range(5):
        await api.enqueue(queue="mail", max_attempts=1, priority=number % 2)
    for lease in (await calls.lease(conn, queue="mail", n=4, worker="w"))[:2]:
        await calls.fail(conn, job_id=lease.job_id, lease_id=lease.lease_id, error="e")
    done = await calls.lease(conn, queue="default", n=1, worker="w")
    await calls.complete(conn, job_id=done[0].job_id, lease_id=done[0].lease_id)


async def test_b35_a73_depth_by_queue_and_state_is_what_sql_says(db: str, conn: Connection) -> None:
    async with serving(db) as api:
        await in_all_states(conn, api)
        page = await scraped(api)
    cursor = await conn.execute(DEPTHS)
    rows = await cursor.fetchall()
    assert {row[0] for row in rows} == {"default", "mail"}
    states = ("ready", "scheduled", "leased", "failed")
    for queue, *counts in rows:
        told = [page.value("batchq_queue_depth", queue=queue, state=state) for state in states]
        assert told == counts, queue
    assert page.labels("batchq_queue_depth", "queue") == {"default", "mail"}
    assert page.value("batchq_queue_depth", queue="mail", state="failed") == 2


async def tally(conn: Connection) -> None:
    """What has happened is counted, as maintain would within seconds."""
    await conn.execute("select pg_stat_force_next_flush()")
    for _ in range(3):
        while (await (await conn.execute("select batchq._tally()")).fetchone()) != (0,):
            pass


EVENTS = ("enqueued", "completed", "failed", "retried", "reaped", "dead_letters", "cancelled")


async def test_b35_counters_by_queue_and_kind_are_what_happened(
    db: str, conn: Connection, fresh: None
) -> None:
    async with serving(db) as api:
        first = await scraped(api)
        await in_all_states(conn, api)
        await api.enqueue(queue="c", delay=60)
        await calls.cancel_many(conn, queue="c")
        (late,) = await calls.lease(conn, queue="default", n=1, worker="w")
        await conn.execute("update batchq.leased set lease_until = now(), reap_at = now()")
        await calls.reap(conn)
        assert late.queue == "default"
        async with asyncio.timeout(10):
            while True:
                await tally(conn)
                page = await scraped(api)
                if page.samples == page.samples | expected():
                    break
    assert first.samples["batchq_jobs_enqueued_total"] == {pair("other", "other"): 0}
    assert first.value("batchq_jobs_started_total") == 0
    assert page.value("batchq_jobs_started_total") == 6
    assert 0 <= page.value("batchq_counters_age_seconds") < 60


def pair(queue: str, kind: str = "k") -> frozenset[tuple[str, str]]:
    return frozenset({("queue", queue), ("kind", kind)})


def expected() -> dict[str, dict[frozenset[tuple[str, str]], float]]:
    """The counters after in_all_states(), a cancelled job and three leases that ran out."""
    done = {
        "default": {"enqueued": 4, "completed": 1, "reaped": 1, "retried": 1},
        "mail": {"enqueued": 5, "failed": 2, "dead_letters": 4, "reaped": 2},
        "c": {"enqueued": 1, "cancelled": 1},
    }
    return {
        f"batchq_jobs_{event}_total": {
            pair("other", "other"): 0,
            **{pair(queue): counts.get(event, 0) for queue, counts in done.items()},
        }
        for event in EVENTS
    }


async def test_b35_pairs_beyond_a_thousand_are_one_series_and_quick_to_tell(
    db: str, conn: Connection, fresh: None
) -> None:
    await conn.execute(
        "insert into batchq.tally_total (queue, kind, enqueued)"
        " select 'q' || n % 10, 'k' || n, n from generate_series(1, 999) n"
    )
    await conn.execute(
        "insert into batchq.tally_total (queue, kind, enqueued) values ('other', 'other', 5)"
    )
    await conn.execute("update batchq.tally_total set enqueued = 7 where queue = ''")
    async with running(db) as (app, server), client(url_of(server)) as api:
        page = await scraped(api)
        assert len(page.samples["batchq_jobs_enqueued_total"]) == 1000
        assert page.value("batchq_jobs_enqueued_total", queue="other", kind="other") == 12
        assert page.value("batchq_jobs_enqueued_total", queue="q9", kind="k999") == 999
        started = time.process_time()
        await app[METRICS].page(ANYONE)
        assert time.process_time() - started < 1


async def test_a73_f097_the_age_of_the_oldest_ready_job_grows(
    db: str, conn: Connection, fresh: None
) -> None:
    async with serving(db) as api:
        await api.enqueue(queue="old")
        await api.enqueue(queue="later", delay=60)
        first = await scraped(api)
        await asyncio.sleep(0.05)
        second = await scraped(api)
        (job,) = await calls.lease(conn, queue="old", n=1, worker="w")
        assert job.queue == "old"
        none = await scraped(api)
    name = "batchq_queue_oldest_ready_seconds"
    assert 0 < first.value(name, queue="old") < second.value(name, queue="old") < 60
    assert first.value(name, queue="later") == 0
    assert none.value(name, queue="old") == 0


async def test_f097_a_paused_queue_is_told(db: str, conn: Connection, fresh: None) -> None:
    async with serving(db) as api:
        await api.enqueue()
        assert (await scraped(api)).value("batchq_queue_paused", queue="default") == 0
        await calls.pause(conn, queue="default")
        assert (await scraped(api)).value("batchq_queue_paused", queue="default") == 1


async def test_f097_workers_are_counted_while_they_beat(
    db: str, conn: Connection, fresh: None
) -> None:
    async with serving(db) as api:
        none = await scraped(api)
        assert none.value("batchq_workers") == 0
        assert "batchq_workers_last_beat_seconds" not in none.samples
        await beat(conn, running=2)
        stopped = await beat(conn, running=1, concurrency=3)
        page = await scraped(api)
        assert page.value("batchq_workers") == 2
        assert page.value("batchq_workers_running_jobs") == 3
        assert page.value("batchq_workers_slots") == 8
        assert 0 <= page.value("batchq_workers_last_beat_seconds") < 60
        await calls.drop_worker(conn, worker_id=stopped)
        await conn.execute("update batchq.worker set beat_at = beat_at - interval '100 s'")
        page = await scraped(api)
    assert page.value("batchq_workers") == 0
    assert page.value("batchq_workers_silent") == 1
    assert page.value("batchq_workers_running_jobs") == 0
    assert page.value("batchq_workers_last_beat_seconds") > 99


NAMES = ['say "hi"', "back\\slash", "two\nlines", "a{b='c'} 1", "über-Straße", "日本", "#", " "]


async def test_b35_names_are_escaped(db: str) -> None:
    async with serving(db) as api:
        for number, name in enumerate(NAMES, 1):
            for _ in range(number):
                await api.enqueue(queue=name)
        page = await scraped(api)
    for number, name in enumerate(NAMES, 1):
        assert page.value("batchq_queue_depth", queue=name, state="ready") == number, name


async def test_queues_beyond_the_bound_share_a_series(
    db: str, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "MOST_QUEUES", 3)
    async with serving(db) as api:
        for number, name in enumerate(["a", "b", "c", "d", "e", "other"], 1):
            await api.post("/jobs/bulk", [{"kind": "k", "queue": name}] * number)
        await calls.pause(conn, queue="a")
        page = await scraped(api)
    depth = "batchq_queue_depth"
    assert page.labels(depth, "queue") == {"d", "e", "other"}
    assert page.value(depth, queue="e", state="ready") == 5
    assert page.value(depth, queue="other", state="ready") == 6 + 1 + 2 + 3
    assert page.value("batchq_queue_paused", queue="other") == 1
    assert page.value("batchq_queue_oldest_ready_seconds", queue="other") > 0


async def test_a_thousand_queues_hold_nobody_up(db: str, conn: Connection, fresh: None) -> None:
    await conn.execute(
        "select batchq.enqueue_many((select jsonb_agg(jsonb_build_object('kind', 'k', 'queue',"
        " 'q' || n)) from generate_series(1, 1200) n))"
    )
    async with running(db) as (app, server), client(url_of(server)) as api:
        page = await scraped(api)
        assert len(page.labels("batchq_queue_depth", "queue")) == metrics.MOST_QUEUES + 1
        assert page.value("batchq_queue_depth", queue="other", state="ready") == 200
        started = time.process_time()
        await app[METRICS].page(ANYONE)
        assert time.process_time() - started < 1


async def test_a75_what_the_sample_alerts_name_is_told(db: str, conn: Connection) -> None:
    loaded = YAML(typ="safe").load((ROOT / "docs" / "alerts.yml").read_text())
    rules = " ".join(rule["expr"] for group in loaded["groups"] for rule in group["rules"])
    named = {n for n in re.findall(r"batchq_\w+", rules) if not n.startswith("batchq_worker_")}
    assert named
    async with serving(db) as api:
        await api.enqueue()
        assert named <= (await scraped(api)).samples.keys()


async def test_two_processes_tell_the_same_of_the_queues(db: str, conn: Connection) -> None:
    async with serving(db) as one, serving(db) as other:
        await in_all_states(conn, one)
        pages = [await scraped(one), await scraped(other)]
    first, second = (page.samples["batchq_queue_depth"] for page in pages)
    assert first == second


async def token(
    conn: Connection, secret: str, *scopes: Scope, queues: list[str] | None = None
) -> Any:
    """The header of a new token."""
    digest = hashlib.sha256(secret.encode()).digest()
    await calls.create_token(
        conn, name=secret, secret_hash=digest, scopes=list(scopes), queues=queues
    )
    return {"Authorization": f"Bearer {secret}"}


async def test_a_token_is_needed_once_there_is_one(db: str, conn: Connection) -> None:
    prometheus = await token(conn, "bq_prometheus", "monitor")
    async with serving(db) as api:
        assert (await api.get("/metrics")).error[0] == 401
        assert (await api.get("/metrics", headers=prometheus)).status == 200


async def test_a_token_for_some_queues_sees_these_only(db: str, conn: Connection) -> None:
    everybody = await token(conn, "bq_all", "monitor", "produce")
    some = await token(conn, "bq_some", "monitor", queues=["a", "b"])
    async with serving(db) as api:
        for queue in ("a", "c", "secret"):
            body = {"kind": "k", "queue": queue}
            assert (await api.post("/jobs", body, headers=everybody)).status == 201
        await beat(conn)
        for _ in range(2):
            page = Scrape(await api.get("/metrics", headers=some))
            assert page.labels("batchq_queue_depth", "queue") == {"a"}
            assert page.labels("batchq_jobs_enqueued_total", "queue") <= {"a"}
            assert "batchq_jobs_started_total" not in page.samples
            assert "secret" not in page.text
            assert page.value("batchq_workers") == 0
            page = Scrape(await api.get("/metrics", headers=everybody))
            assert page.labels("batchq_queue_depth", "queue") == {"a", "c", "secret"}
            assert page.value("batchq_workers") == 1


async def history(conn: Connection, rows: int) -> None:
    """Completed jobs, without living through them."""
    await conn.execute("select set_config('synchronous_commit', 'off', false)")
    await conn.execute(
        "insert into batchq.job (id, created_at, run_at, segment, priority, max_attempts, queue,"
        " kind, payload) select n, now(), now(), 0, 0, 3, 'default', 'k', '{}'"
        " from generate_series(1, %s) n",
        [rows],
    )
    await conn.execute(
        "insert into batchq.outcome (job_id, lease_id, leased_at, finished_at, segment, attempt,"
        " state) select n, n, now(), now(), 0, 1, 'completed' from generate_series(1, %s) n",
        [rows],
    )
    await conn.execute("select setval('batchq.position', %s)", [rows])


async def read_of_history(conn: Connection) -> Mapping[str, int]:
    cursor = await conn.execute(
        "select relname, seq_tup_read + coalesce(idx_tup_fetch, 0) from pg_stat_user_tables"
        " where relname ~ '^(job|outcome|error)_[0-7]$'"
    )
    return dict(await cursor.fetchall())


@pytest.mark.timeout(300)
async def test_b35_f093_a_scrape_at_a_million_rows_of_history(
    db: str, conn: Connection, fresh: None
) -> None:
    await history(conn, HISTORY)
    before = await read_of_history(conn)
    async with serving(db) as api:
        await in_all_states(conn, api)
        took_s = math.inf
        for _ in range(10):
            started = time.perf_counter()
            await scraped(api)
            took_s = min(took_s, time.perf_counter() - started)
    assert took_s < 0.1

    async def told() -> bool:  # a session's counts are there once it has ended
        return await read_of_history(conn) != before

    after = await until(told) and await read_of_history(conn)
    assert sum(after.values()) - sum(before.values()) < 1_000
