"""Our own enqueue with another doorbell: one that never rings, and one that always does.

Only the private function that finds out whether somebody is parked is replaced; whoever calls it
is untouched. That the variant does what its name says is tried before it is measured.
"""

from __future__ import annotations

import psycopg

from bench.support.context import run_sql
from bench.support.fill import install_batchq
from bench.support.model import BenchError

ARRIVAL_S = 0.5


def install_silent(dsn: str) -> None:
    """Enqueue without any wake-up, and without the locks that go with it."""
    _install(dsn, rings=False)


def install_always(dsn: str) -> None:
    """Enqueue with a NOTIFY in every transaction, whoever may be listening."""
    _install(dsn, rings=True)


def _install(dsn: str, *, rings: bool) -> None:
    install_batchq(dsn)
    run_sql(
        dsn,
        f"""
        create or replace function batchq._parked(queue text)
        returns boolean
        language sql
        volatile
        return {"true" if rings else "false"};
        """,
    )
    if _is_rung(dsn, parked=not rings) != rings:
        raise BenchError("batchq rings in another way than by _parked: adapt peers/doorbell.py")


def _is_rung(dsn: str, *, parked: bool) -> bool:
    """Whether an enqueue notifies a session that listens; it leaves no job behind."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("listen batchq")
        if parked:
            conn.execute("select batchq.park(array['default'])")
        with psycopg.connect(dsn, autocommit=True) as producer:
            row = producer.execute("select batchq.enqueue('noop')").fetchone()
            rung = bool(list(conn.notifies(timeout=ARRIVAL_S, stop_after=1)))
            producer.execute("select batchq.cancel(%s)", row)
            producer.execute("select batchq.purge(status => 'cancelled')")
    return rung
