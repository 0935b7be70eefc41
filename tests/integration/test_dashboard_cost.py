"""What pages cost at 920,000 jobs: bounded, whatever there is and whatever statistics say. F093."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
import pytest

from tests.integration.test_plans import fill
from tests.support.api import Api, serving
from tests.support.pages import Document
from tests.support.plans import NO_AUTOVACUUM
from tests.support.servers import Databases
from tests.support.working import until

# Buffers, about twice those of the first measurement; and an answer's time on a loaded machine.
PAGES = {
    "/": 9_000,
    "/?sort=dead&q=u": 9_000,
    "/ui/jobs": 3_000,
    "/ui/jobs?state=ready": 2_000,
    "/ui/jobs?status=pending&queue=due": 3_000,
    "/ui/jobs?status=failed&kind=a": 4_000,
    "/ui/jobs?kind=none": 2_000,
    "/ui/jobs?dedupe_key=k7": 500,
    "/ui/jobs?created_before=2001-01-01T00:00:00Z": 2_000,
    "/ui/jobs/300000": 800,
    "/ui/jobs/700000": 500,
    "/ui/jobs/800001": 500,
    "/ui/jobs/870000": 500,
    "/ui/jobs/900001": 500,
    "/ui/jobs/300000/payload": 300,
    "/ui/queues/default": 70_000,
    "/ui/queues/due?edit=yes": 6_000,
    "/ui/dead": 65_000,
    "/ui/dead?queue=due": 300,
    "/ui/throughput?range=7d": 300,
    "/ui/workers": 100,
    "/ui/audit": 100,
    "/ui/sign-in": 100,
    "/ui/live?view=overview": 9_000,
}
MOST_S = 3.0
# Tables that grow with the jobs that wait and that are over: none is read from end to end. The
# leases are not among them: there are as many as jobs run, and they are counted.
GROWING = {"job", "ready", "scheduled", "outcome", "dead", "dedupe", "blocked", "failure"}
READ = """
    select s.relname, s.seq_tup_read,
           coalesce(heap_blks_read, 0) + coalesce(heap_blks_hit, 0) + coalesce(idx_blks_read, 0)
           + coalesce(idx_blks_hit, 0) + coalesce(toast_blks_read, 0) + coalesce(toast_blks_hit, 0)
    from pg_stat_user_tables s join pg_statio_user_tables io using (relid)
    where s.schemaname = 'batchq'
"""


@dataclass(frozen=True, slots=True)
class Read:
    """scanned: rows of tables that grow, read from end to end."""

    buffers: int
    scanned: dict[str, int]


class Full:
    """A database with many jobs, and a session that looks at what others read."""

    def __init__(self, dsn: str, conn: psycopg.Connection[tuple[str, int, int]]) -> None:
        self.dsn = dsn
        self._conn = conn

    def sessions(self) -> int:
        query = (
            "select count(*) from pg_stat_activity where application_name like 'batchq-api%'"
            " and datname = current_database()"
        )
        return int(self._conn.execute(query).fetchall()[0][0])

    def read(self) -> Read:
        self._conn.execute("select pg_stat_clear_snapshot()")
        rows = self._conn.execute(READ).fetchall()
        scanned = {name: read for name, read, _ in rows if name in GROWING}
        return Read(sum(blocks for _, _, blocks in rows), scanned)


@pytest.fixture(scope="module")
def full(server: Databases, template: str) -> Iterator[Full]:
    """The tables are full, the statistics those of empty ones."""
    with server.fresh(template) as dsn, psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(NO_AUTOVACUUM)
        fill(conn)
        conn.execute("analyze batchq.upkeep")
        yield Full(dsn, conn)


async def ask(api: Api, path: str) -> float:
    """How long an answer takes, or the first cells of a stream."""
    begun = time.monotonic()
    async with api.session.get(api.url + path) as response:
        assert response.status == 200, await response.text()
        if response.headers["Content-Type"] == "text/event-stream":
            await response.content.readuntil(b"data: ")
        else:
            await response.read()
    return time.monotonic() - begun


@pytest.mark.timeout(180)
async def test_f093_every_page_reads_little_and_scans_no_table_that_grows(full: Full) -> None:
    found: dict[str, tuple[int, float]] = {}
    for path in PAGES:
        before = full.read()
        async with serving(full.dsn) as api:
            took_s = min([await ask(api, path), await ask(api, path)])

        async def gone() -> bool:  # what a session read is told at its end
            return full.sessions() == 0

        await until(gone)
        after = full.read()
        found[path] = ((after.buffers - before.buffers) // 2, took_s)
        scanned = {n: rows - before.scanned[n] for n, rows in after.scanned.items()}
        assert not any(scanned.values()), (path, scanned)
    assert {p: one for p, one in found.items() if one[0] > PAGES[p] or one[1] > MOST_S} == {}, found


@pytest.mark.timeout(120)
async def test_f093_twenty_who_load_pages_at_once_are_all_answered(full: Full) -> None:
    paths = ["/", "/ui/jobs", "/ui/queues/default", "/ui/dead", "/ui/jobs?kind=none"]
    async with serving(full.dsn, BATCHQ_POOL_MAX="5") as api:
        answers = await asyncio.gather(*[api.get(path) for path in paths for _ in range(4)])
        assert {one.status for one in answers} <= {200, 503}
        assert sum(one.status == 200 for one in answers) >= 10
        assert (await api.get("/health")).status == 200

        async def well() -> bool:
            return (await api.get("/ui/jobs")).status == 200

        await until(well)


async def test_numbers_that_were_cut_off_say_so(full: Full) -> None:
    async with serving(full.dsn) as api:
        page = Document((await api.get("/")).text)
        ready = [a.text for a in page.all("a") if a.get("href").endswith("state=ready")]
        assert any("+" in text or "," in text for text in ready), ready
        exact = [a.text for a in page.all("a") if a.get("href").startswith("/ui/dead")]
        assert any(text.strip().rstrip("+").replace(",", "").isdigit() for text in exact), exact
