"""What limits cost, and that they hold: caps, rates, groups and turns; see docs/flow-control.md."""

from __future__ import annotations

import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg

from bench.drivers import audit
from bench.peers import scripts
from bench.support import fill
from bench.support.context import REPOSITORY, Bench, run_sql
from bench.support.model import (
    Case,
    Contestant,
    NotRunError,
    Sample,
    Target,
)
from bench.support.pgbench import Load
from bench.support.query import scalar

BATCH = 100
CLIENTS = 4
GROUPS = 10_000
TENANTS = 99
BEFORE = "2e8f897"
"""The last commit without flow control."""


def cases(bench: Bench) -> Iterator[Case]:
    """Limits that do not bind, as what they cost is asked; then groups, turns and the audit."""
    yield Case(
        title=f"lease + complete with limits, batches of {BATCH}, {CLIENTS} clients",
        unit="jobs/s",
        contestants=[
            Contestant("no limit", lambda: _move(bench)),
            Contestant("before flow control", lambda: _before(bench)),
            Contestant("cap", lambda: _move(bench, f"max_running => {BATCH * CLIENTS}")),
            Contestant("rate", lambda: _move(bench, "rate => 1000000")),
            Contestant("groups of one", lambda: _groups(bench)),
        ],
        targets=[
            Target("no limit", ">=", 0.97, rival="before flow control"),
            Target("cap", ">=", 0.75, rival="no limit"),
            Target("rate", ">=", 0.75, rival="no limit"),
            Target("groups of one", ">=", 5_000),
        ],
    )
    yield Case(
        title=f"{TENANTS} tenants with 10 jobs each behind one with"
        f" {bench.scale.tenant_jobs:,}: the last of theirs starts",
        unit="s",
        contestants=[Contestant("taking turns", lambda: _turns(bench))],
        targets=[Target("taking turns", "<=", 1)],
        rounds=1,
    )
    yield Case(
        title=f"{bench.scale.audited_starts:,} starts under a cap of {audit.CAP}, audited",
        unit="starts/s",
        contestants=[Contestant("cap", lambda: _audited(bench))],
        targets=[Target("cap", "<=", audit.CAP, figure="most at once")],
        rounds=1,
    )


def _load(jobs: int) -> Load:
    return Load(
        scripts=[scripts.batchq_move(BATCH)],
        clients=CLIENTS,
        each=max(1, jobs // (BATCH * CLIENTS)),
    )


def _measure(bench: Bench, dsn: str, fields: str = "") -> Sample:
    fill.fill_batchq(dsn, bench.scale.move_jobs, fields=fields)
    with bench.meter(dsn) as meter:
        result = bench.pgbench(dsn, _load(bench.scale.move_jobs))
    done = scalar(dsn, "select count(*) from batchq.outcome")
    return Sample(done * result.tps / result.transactions, cost=meter.cost(done))


def _move(bench: Bench, settings: str = "") -> Sample:
    with bench.database("batchq", fill.install_batchq) as dsn:
        if settings:
            run_sql(dsn, f"select batchq.set_queue('default', {settings})")
        return _measure(bench, dsn)


def _groups(bench: Bench) -> Sample:
    with bench.database("batchq", fill.install_batchq) as dsn:
        run_sql(dsn, "select batchq.set_queue('default', group_limit => 1)")
        return _measure(bench, dsn, f"'group_key', 'g' || n %% {GROUPS}")


def _before(bench: Bench) -> Sample:
    with bench.database("before", lambda dsn: _install_before(bench, dsn)) as dsn:
        return _measure(bench, dsn)


def _install_before(bench: Bench, dsn: str) -> None:
    """The SQL of the last commit without flow control, from this repository's history."""
    with tempfile.TemporaryDirectory(prefix="bench-before-") as scratch:
        taken = subprocess.run(
            f"git -C '{REPOSITORY}' archive {BEFORE} sql | tar -x -C '{scratch}'",
            shell=True,
            capture_output=True,
            text=True,
            check=False,
        )
        if not (manifest := Path(scratch) / "sql" / "install.sql").exists():
            raise NotRunError(f"no commit {BEFORE} here: {taken.stderr.strip()[:80]}")
        psql = bench.server.bin_dir / "psql"
        subprocess.run([str(psql), "-X", "-q", "-d", dsn, "-f", str(manifest)], check=True)


def _turns(bench: Bench) -> Sample:
    """Workers drain the big tenant's jobs already when the small ones come."""
    with bench.database("batchq", fill.install_batchq) as dsn:
        run_sql(dsn, "select batchq.set_queue('default', fair => true)")
        fill.fill_batchq(dsn, bench.scale.tenant_jobs, fields="'group_key', 'big'")
        load = Load(
            scripts=[scripts.batchq_move(BATCH)], clients=CLIENTS, seconds=bench.scale.turns_s
        )
        drain = threading.Thread(target=lambda: bench.pgbench(dsn, load))
        drain.start()
        time.sleep(bench.scale.turns_s / 3)
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute(
                "select batchq.enqueue_many(jsonb_agg(jsonb_build_object('kind', 'noop',"
                " 'group_key', 'small-' || t)))"
                " from generate_series(1, %s) t, generate_series(1, 10)",
                (TENANTS,),
            )
            drain.join()
            row = conn.execute(
                "select count(*), extract(epoch from max(o.leased_at - j.created_at))::float"
                " from batchq.job j join batchq.outcome o on o.job_id = j.id"
                " where j.group_key like 'small-%'"
            ).fetchone()
        started, last_s = row or (0, None)
        if started < 10 * TENANTS or last_s is None:
            return Sample(bench.scale.turns_s, {"small jobs started": float(started)})
        return Sample(last_s, {"small jobs started": float(started)})


def _audited(bench: Bench) -> Sample:
    with bench.database("batchq", fill.install_batchq) as dsn:
        run_sql(dsn, f"select batchq.set_queue('default', max_running => {audit.CAP})")
        fill.fill_batchq(dsn, bench.scale.audited_starts)
        seen = audit.run(dsn)
        return Sample(
            seen.starts / seen.took_s,
            {"most at once": float(seen.most_at_once), "starts": float(seen.starts)},
        )
