"""calls.py against the database: the same functions, arguments and columns, all called for real."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import hashlib
import inspect
import math
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, get_type_hints

import msgspec
import psycopg
import pytest

from pybatchq import calls, rates, types
from pybatchq.errors import (
    BatchqError,
    InvalidArgumentError,
    JobNotFoundError,
    LeaseLostError,
    QueueNotFoundError,
    VersionMismatchError,
    WrongStateError,
)
from pybatchq.types import LeasedJob
from tests.conftest import Connect, Connection

PUBLIC = """
select p.proname,
       coalesce(p.proargnames[1:p.pronargs], '{}'),
       p.pronargs - p.pronargdefaults
from pg_proc p
where p.pronamespace = 'batchq'::regnamespace and p.proname not like '\\_%'
order by 1
"""
COLUMNS = """
select t.typname, array_agg(a.attname::text order by a.attnum)
from pg_type t
join pg_attribute a on a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped
join pg_class c on c.oid = t.typrelid and c.relkind = 'c'
where t.typnamespace = 'batchq'::regnamespace
group by 1
"""
STRUCTS: dict[str, type[msgspec.Struct]] = {
    "audit_entry": types.AuditEntry,
    "breaker_info": types.BreakerInfo,
    "cancelled_jobs": types.CancelledJobs,
    "dead_error": types.DeadError,
    "enqueued_job": types.EnqueuedJob,
    "error_code": types.ErrorCode,
    "extended_lease": types.ExtendedLease,
    "gate": types.Gate,
    "group_info": types.GroupInfo,
    "installed_version": types.InstalledVersion,
    "job_counters": types.JobCounters,
    "job_record": types.JobRecord,
    "job_state": types.JobState,
    "job_summary": types.JobSummary,
    "kind_counters": types.KindCounters,
    "leased_job": types.LeasedJob,
    "lost_lease": types.LostLease,
    "maintained": types.Maintained,
    "peeked_job": types.PeekedJob,
    "purged_jobs": types.PurgedJobs,
    "queue_rate": rates.QueueRate,
    "queue_settings": types.QueueSettings,
    "queue_stats": types.QueueStats,
    "redriven_jobs": types.RedrivenJobs,
    "throughput_point": rates.ThroughputPoint,
    "session_info": types.SessionInfo,
    "token_info": types.TokenInfo,
    "worker_info": types.WorkerInfo,
}
NOT_A_FUNCTION = {"backend_pid", "is_writable", "listen", "notify", "now", "unlisten"}


def public_calls() -> dict[str, Callable[..., Awaitable[Any]]]:
    return {
        name: function
        for name, function in inspect.getmembers(calls, inspect.iscoroutinefunction)
        if function.__module__.startswith(calls.__name__) and not name.startswith("_")
    }


async def test_one_async_function_for_every_public_function_with_its_arguments(
    conn: Connection,
) -> None:
    cursor = await conn.execute(PUBLIC.encode())
    in_sql = {name: (names, required) for name, names, required in await cursor.fetchall()}
    in_python = public_calls()
    assert set(in_python) - NOT_A_FUNCTION == set(in_sql)
    for name, (names, required) in in_sql.items():
        first, *parameters = inspect.signature(in_python[name]).parameters.values()
        assert first.name == "conn"
        assert [p.name for p in parameters] == names, name
        needed = [p.name for p in parameters if p.default is p.empty]
        assert needed == names[:required], name
        assert all(p.default is None for p in parameters if p.default is not p.empty), name
        by_place = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
        assert by_place == (["kind", "payload"] if name == "enqueue" else []), name


async def columns_of_types(conn: Connection) -> dict[str, list[str]]:
    cursor = await conn.execute(COLUMNS.encode())
    return dict(await cursor.fetchall())


async def test_structs_have_the_columns_of_their_types_in_order(conn: Connection) -> None:
    columns = await columns_of_types(conn)
    for name, struct in STRUCTS.items():
        assert [field.name for field in msgspec.structs.fields(struct)] == columns[name], name


async def test_a_work_item_is_its_type_with_seconds_for_times_and_no_priority(
    conn: Connection,
) -> None:
    columns = (await columns_of_types(conn))["work_item"]
    renamed = {"lease_until": "lease_s", "timeout": "timeout_s"}
    expected = [renamed.get(name, name) for name in columns if name != "priority"]
    assert [field.name for field in msgspec.structs.fields(types.WorkItem)] == expected


def fits(value: Any, hint: Any) -> bool:
    """Whether a value is of an annotated type."""
    if hint in (types.JobPage, types.DeadErrors):  # lists with something more
        plain = list[types.JobSummary] if hint is types.JobPage else list[types.DeadError]
        return isinstance(value, hint) and fits([*value], plain)
    try:
        msgspec.convert(value, hint, strict=True)
    except msgspec.ValidationError:
        return False
    return True


class Session:
    """A connection on which every call is checked against its annotation and noted."""

    def __init__(self, conn: Connection) -> None:
        self.conn = conn
        self.called: set[str] = set()

    async def __call__(
        self, function: Callable[..., Awaitable[Any]], *arguments: Any, **named: Any
    ) -> Any:
        self.called.add(function.__name__)
        answer = await function(self.conn, *arguments, **named)
        hint = get_type_hints(function)["return"]
        assert fits(answer, hint), (function.__name__, answer)
        return answer


async def lease_one(call: Session, **options: Any) -> LeasedJob:
    (job,) = await call(calls.lease, **options)
    assert isinstance(job, LeasedJob)
    return job


def lease_of(job: LeasedJob) -> dict[str, int]:
    return {"job_id": job.job_id, "lease_id": job.lease_id}


def leases_of(*jobs: LeasedJob) -> dict[str, list[int]]:
    return {"job_ids": [job.job_id for job in jobs], "lease_ids": [job.lease_id for job in jobs]}


async def produce_and_work(call: Session) -> None:
    """The life of jobs, in every form of every worker's call."""
    first = await call(
        calls.enqueue, "a", {"n": 2**60}, queue="q", priority=5, max_attempts=4,
        timeout=dt.timedelta(hours=1), dedupe_key="k", dedupe_scope="pending",
        dedupe_for=dt.timedelta(seconds=1), on_duplicate="return", backoff="fixed",
        backoff_base=dt.timedelta(seconds=1), backoff_factor=2.5,
        backoff_cap=dt.timedelta(days=1), backoff_jitter="none", headers={"trace": "x"},
        group_key="g",
    )  # fmt: skip
    many = await call(calls.enqueue_many, jobs=[{"kind": "b", "queue": "q"}] * 9)
    assert [one.ordinal for one in many] == list(range(1, 10))
    job = await lease_one(call, queue="q", n=1, worker="w", lease_for=dt.timedelta(minutes=1))
    assert job.job_id == first
    assert (job.payload, job.headers) == (b'{"n": 1152921504606846976}', b'{"trace": "x"}')
    assert (job.priority, job.attempt, job.max_attempts) == (5, 1, 4)
    assert job.timeout == dt.timedelta(hours=1)
    until = await call(calls.assert_lease, **lease_of(job))
    (extended,) = await call(calls.extend, **leases_of(job), lease_for=dt.timedelta(minutes=2))
    assert extended.state == "extended"
    assert extended.lease_until > until
    await call(calls.progress, **lease_of(job), progress={"done": 1})
    assert await call(calls.progress_many, **leases_of(job), progress=[None]) == []
    assert await call(calls.complete, **lease_of(job), result={"ok": True}) == "completed"
    jobs = await call(calls.lease_from, queues=["none", "q"], n=9)
    assert len(jobs) == 9
    one, two, three, four, *rest = jobs
    wait = dt.timedelta(hours=1)
    assert await call(calls.fail, **lease_of(one), error="e", retry_in=wait) == "scheduled"
    assert await call(calls.release, **lease_of(two)) == "ready"
    assert await call(calls.snooze, **lease_of(three), delay=wait) == "scheduled"
    assert await call(calls.complete_many, **leases_of(four), results=[{"n": 5}]) == []
    five, six, seven, eight, nine = rest
    assert await call(calls.release_many, **leases_of(five)) == []
    assert await call(calls.snooze_many, **leases_of(six), delays=[wait]) == []
    failed = {"errors": ["e", "f"], "permanents": [True, None], "retry_ins": [None, wait]}
    assert await call(calls.fail_many, **leases_of(seven, eight), **failed) == []
    items = await call(
        calls.settle_and_lease, queues=["q"], n=10, worker="w", lease_for=wait,
        completed_ids=[nine.job_id, one.job_id], completed_leases=[nine.lease_id, one.lease_id],
        results=['{"n": 1}', None], failed_ids=[], failed_leases=[], errors=[],
        permanents=[], retry_ins=[], released_ids=[], released_leases=[], delays=[],
    )  # fmt: skip
    assert [item.event for item in items] == ["lost", "leased", "leased"]
    assert items[0].job_id == one.job_id
    assert 3590 < items[1].lease_s <= 3600
    (asleep,) = await call(calls.settle_and_lease, queues=["q"], n=10)
    assert asleep.event == "sleep"
    assert 3500 < asleep.timeout_s <= 3600


async def watch_and_operate(call: Session) -> None:
    assert await call(calls.park, queues=["q"]) is True
    assert await call(calls.bell_pending, queues=["q"]) is False
    await call(calls.unpark, queues=["q"])
    await calls.listen(call.conn)
    assert await call(calls.next_due, queues=["q"]) > dt.timedelta(minutes=50)
    assert await call(calls.next_due, queues=["none"]) is None
    assert await call(calls.reap, n=5) == 0
    assert {done.task for done in await call(calls.maintain)} >= {"reap", "promote"}
    await call(
        calls.set_queue, queue="q", max_attempts=7, timeout=dt.timedelta(hours=2),
        lease_for=dt.timedelta(seconds=5), backoff="exponential",
        backoff_base=dt.timedelta(seconds=2), backoff_factor=3, backoff_cap=dt.timedelta(hours=1),
        backoff_jitter="full", reset=True, max_running=100, rate=50,
        rate_period=dt.timedelta(seconds=2), group_limit=9, group_rate=8,
        group_period=dt.timedelta(minutes=1), group_retry="hold", fair=True,
        age_every=dt.timedelta(minutes=5), max_depth=1000, on_full="delay",
        breaker_share=0.5, breaker_min=3, breaker_window=dt.timedelta(seconds=9),
        breaker_pause=dt.timedelta(seconds=7), clear=["timeout"],
    )  # fmt: skip
    await call(calls.pause, queue="q", reason="why")
    (depth,) = await call(calls.stats, queue="q")
    assert (depth.pause_reason, depth.leased, depth.scheduled, depth.dead) == ("why", 2, 4, 1)
    settings = await call(calls.get_queue, queue="q")
    assert await call(calls.list_queues) == [settings]
    assert (settings.max_attempts, settings.backoff_factor) == (7, 3.0)
    assert (settings.lease_for, settings.pause_reason) == (dt.timedelta(seconds=5), "why")
    assert (settings.max_running, settings.rate, settings.group_retry) == (100, 50, "hold")
    assert (settings.fair, settings.max_depth, settings.on_full) == (True, 1000, "delay")
    assert (settings.breaker_share, settings.breaker_min) == (0.5, 3)
    assert (settings.breaker_window, settings.breaker_pause) == (
        dt.timedelta(seconds=9), dt.timedelta(seconds=7)
    )  # fmt: skip
    await call(calls.set_group, queue="q", group_key="g", group_limit=3, weight=2, reset=True)
    (group,) = await call(calls.list_groups, queue="q", n=5)
    assert group == types.GroupInfo("g", 0, True, 0, 3, 2, True, None)
    (paused, *_) = await call(calls.explain_queue, queue="q")
    alerts = await call(calls.list_alerts)
    assert ("paused", "q") in {(alert.alert, alert.queue) for alert in alerts}
    newest = (await call(calls.list_jobs, n=1))[0].id
    live = await call(calls.live, job_ids=[newest, 10**12])
    assert {one.queue for one in live.queues} >= {"q"}
    assert [alert.says for alert in live.alerts] == [alert.says for alert in alerts]
    assert [one.job_id for one in live.jobs] == [newest]
    assert (paused.gate, paused.holds, paused.until) == ("paused", True, None)
    assert msgspec.json.decode(paused.data)["reason"] == "why"
    assert await call(calls.peek_lease, queue="q", n=5) == []
    await call(calls.set_queue, queue="q", reset=True)
    await call(calls.resume, queue="q")
    await change_many(call, await look_at_a_dead_letter(call))
    assert (await call(calls.counters)).started == 12
    assert await call(calls.kind_counters, queue="none") == []
    await count_up(call)
    assert (await call(calls.version)).migration >= 4
    assert {error.code for error in await call(calls.errors)} >= {"JQ001", "JQ009"}
    await look_at_a_breaker(call)


async def look_at_a_breaker(call: Session) -> None:
    await calls.set_queue(call.conn, queue="breaks", breaker_share=1, breaker_min=1)
    await calls.enqueue(call.conn, "k", queue="breaks", max_attempts=1)
    (job,) = await calls.lease(call.conn, queue="breaks")
    await calls.fail(call.conn, job_id=job.job_id, lease_id=job.lease_id, error="away")
    (breaker,) = await call(calls.list_breakers, queue="breaks")
    assert (breaker.kind, breaker.failed, breaker.last_error) == ("k", 1, "away")
    await call(calls.reset_breaker, queue="breaks", kind="k")
    assert await calls.list_breakers(call.conn) == []


async def look_at_a_dead_letter(call: Session) -> types.JobId:
    dead = await call(calls.list_jobs, status="failed", state="failed", queue="q", kind="b", n=5)
    (summary,) = dead
    assert dead.next_id is None
    (state,) = await call(calls.job_states, job_ids=[summary.id, 10**15])
    assert state == types.JobState(summary.id, "q", "failed", "failed")
    (error,) = await call(calls.list_errors, queue="q", kind="b", n=5)
    assert (error.error, error.jobs, error.job_ids) == ("e", 1, [summary.id])
    (over,) = await call(calls.explain_job, job_id=summary.id)
    assert (over.gate, over.holds) == ("finished", False)
    record = await call(calls.get_job, job_id=summary.id)
    assert (record.last_error, record.group_key) == ("e", None)
    assert msgspec.json.decode(record.errors)[0]["attempt"] == 1
    assert await call(calls.job_uuid, job_id=summary.id) == summary.uuid == record.uuid
    assert await call(calls.job_id, job=str(summary.uuid)) == summary.id
    found: types.JobId = summary.id
    return found


async def change_many(call: Session, dead: types.JobId) -> None:
    past, future = dt.datetime(2000, 1, 1, tzinfo=dt.UTC), dt.datetime(2999, 1, 1, tzinfo=dt.UTC)
    span = {"failed_after": past, "failed_before": future}
    every_dead = {"queue": "q", "kind": "b", "error": "e", **span}
    would_redrive = await call(calls.redrive, **every_dead, dry_run=True, n=1, after_id=0)
    assert would_redrive == types.RedrivenJobs(1, dead)
    redriven = await call(calls.redrive, job_ids=[dead], n=10, per_second=5.5)
    assert redriven == types.RedrivenJobs(1, None)
    ended = {"status": "completed", "queue": "q", "kind": "a", "finished_before": future}
    would_purge = await call(calls.purge, **ended, dry_run=True, n=10, after_id=0)
    assert would_purge == types.PurgedJobs(1, None)
    assert await call(calls.purge, error="e") == types.PurgedJobs(0, None)
    of_a_key = await call(calls.list_jobs, dedupe_key="k")
    assert [job.dedupe_key for job in of_a_key] == ["k"]
    listed = await call(calls.list_jobs, created_after=past, created_before=future, before_id=1)
    assert listed == []
    assert await call(calls.cancel, job_id=dead, reason="enough") == "cancelled"
    every = {"queue": "q", "kind": "b", "created_after": past, "created_before": future}
    would = await call(calls.cancel_many, **every, state="pending", n=9, dry_run=True)
    assert (would.cancelled, would.asked, would.last_id) == (4, 0, None)
    done = await call(calls.cancel_many, **every, reason="enough")
    assert (done.cancelled, done.asked, done.deferred) == (4, 2, 0)
    again = await call(calls.cancel_many, job_ids=[dead], after_id=dead - 1)
    assert again == types.CancelledJobs(0, 0, 0, None)


async def count_up(call: Session) -> None:
    for _ in range(3):
        await call.conn.execute("select batchq._tally()")
    points = await call(calls.throughput, queue="q", since=dt.timedelta(hours=2))
    assert len(points) == 120
    assert {rate.queue for rate in await call(calls.queue_rates)} >= {"q"}
    trends = await call(calls.queue_trends, queues=["q"])
    assert [(trend.queue, len(trend.enqueued)) for trend in trends] == [("q", 60)]
    rows = await call(calls.kind_counters, queue="q")
    assert {row.kind: row.enqueued for row in rows} == {"a": 1, "b": 9}


async def come_and_go(call: Session) -> None:
    worker_id = uuid.uuid4()
    who = {"worker_id": worker_id, "worker": "w", "host": "h", "pid": 1, "version": "0.1.0"}
    does = {"queues": ["q"], "kinds": (), "concurrency": 10, "running": 2}
    assert await call(calls.beat_worker, **who, **does) is False
    now = {"memory_bytes": 2**40, "stopping": True}
    await call(calls.beat_worker, **who, **does, **now)
    (info,) = await call(calls.list_workers, n=5)
    assert msgspec.structs.asdict(info) == {
        **who, **does, **now, "kinds": [], "is_alive": True, "started_at": info.started_at,
        "beat_at": info.beat_at, "drain_requested_at": None,
    }  # fmt: skip
    assert await call(calls.drain_worker, worker_id=uuid.uuid4()) is False
    assert await call(calls.drain_worker, worker_id=worker_id) is True
    assert await call(calls.beat_worker, **who, **does) is True
    assert info.started_at < info.beat_at
    assert await call(calls.drop_worker, worker_id=worker_id) is True
    assert await call(calls.drop_worker, worker_id=worker_id) is False


async def let_in(call: Session) -> None:
    digest = hashlib.sha256(b"secret").digest()
    assert await call(calls.find_token, secret_hash=digest) is None
    assert await call(calls.has_tokens) is False
    token_id = await call(
        calls.create_token, name="shop", secret_hash=digest, scopes=["produce", "monitor"],
        queues=["q"], expires_at=dt.datetime(2999, 1, 1, tzinfo=dt.UTC),
    )  # fmt: skip
    token = await call(calls.find_token, secret_hash=digest)
    assert (token.token_id, token.name, token.revoked_at) == (token_id, "shop", None)
    assert (token.scopes, token.queues) == (["produce", "monitor"], ["q"])
    assert await call(calls.list_tokens) == [token]
    assert await call(calls.has_tokens) is True
    session = hashlib.sha256(b"session").digest()
    assert await call(calls.open_session, token_hash=session, session_hash=session) is None
    ends_at = await call(
        calls.open_session, token_hash=digest, session_hash=session, lasts=dt.timedelta(hours=1)
    )
    found = await call(calls.find_session, secret_hash=session)
    assert (found.token_id, found.scopes, found.ends_at) == (token_id, token.scopes, ends_at)
    assert await call(calls.close_session, secret_hash=session) is None
    assert await call(calls.find_session, secret_hash=session) is None
    assert await call(calls.revoke_token, name="shop") is True
    assert await call(calls.revoke_token, name="shop") is False
    async with call.conn.transaction():
        assert await call(calls.act_as, actor="ann") is None
        await call(calls.pause, queue="q")
        await call(calls.resume, queue="q")
    resumed, paused = await call(calls.list_audit, n=2, target="queue q")
    assert (resumed.action, resumed.actor, resumed.details) == ("resume", "ann", None)
    assert await call(calls.list_audit, n=1, before_id=resumed.audit_id) == [paused]
    later = await call(calls.enqueue, "later", queue="later", delay=dt.timedelta(hours=1))
    assert await call(calls.set_job, job_id=later, priority=3) == "scheduled"
    due = dt.datetime(2001, 1, 1, tzinfo=dt.UTC)
    assert await call(calls.set_job, job_id=later, priority=3, run_at=due) == "scheduled"
    assert await call(calls.cancel, job_id=later) == "cancelled"


async def test_every_call_works_and_answers_as_annotated(conn: Connection) -> None:
    call = Session(conn)
    await produce_and_work(call)
    await watch_and_operate(call)
    await come_and_go(call)
    await let_in(call)
    assert call.called == set(public_calls()) - NOT_A_FUNCTION


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


FAR = dt.timedelta(days=999_999_999)
BAD: dict[str, Mapping[str, Any]] = {
    "f059_nan": {"payload": {"x": math.nan}},
    "f059_inf": {"payload": [math.inf]},
    "f059_headers": {"headers": {"x": -math.inf}},
    "f061_depth_6400": {"payload": nested(6_400)},
    "f061_depth_20000": {"payload": nested(20_000)},
    "f061_depth_100000": {"payload": nested(100_000)},
    "f062_surrogate": {"payload": "\ud800"},
    "f062_surrogate_in_kind": {"kind": "\udce5"},
    "f062_surrogate_in_key": {"dedupe_key": "\udce5"},
    "f062_nul_in_payload": {"payload": {"a": "\0"}},
    "f062_nul_in_queue": {"queue": "a\0b"},
    "f063_infinity": {"run_at": "infinity"},
    "f063_minus_infinity": {"run_at": "-infinity"},
    "f063_year_20000": {"run_at": "20000-01-01"},
    "f063_bc": {"run_at": "4713-01-01 BC"},
    "f063_last_moment": {"run_at": dt.datetime.max.replace(tzinfo=dt.UTC)},
    "f063_naive": {"run_at": dt.datetime(2024, 2, 29)},  # noqa: DTZ001
    "f063_no_time": {"run_at": 5},
    "f064_no_kind": {"kind": None},
    "f064_kind_is_a_number": {"kind": 5},
    "f064_queue_is_a_number": {"queue": 5},
    "f064_queue_is_bytes": {"queue": b"q"},
    "f064_empty_kind": {"kind": ""},
    "f064_empty_queue": {"queue": ""},
    "f064_long_kind": {"kind": "x" * 256},
    "f064_long_queue": {"queue": "ä" * 256},
    "f022_long_key": {"dedupe_key": "x" * 1025},
    "f065_no_attempts": {"max_attempts": 0},
    "f065_minus_one_attempts": {"max_attempts": -1},
    "f065_half_an_attempt": {"max_attempts": 1.5},
    "f065_true_attempts": {"max_attempts": True},
    "f065_no_timeout": {"timeout": dt.timedelta(0)},
    "f066_priority_32768": {"priority": 32768},
    "f066_priority_2_31": {"priority": 2**31},
    "f066_priority_2_70": {"priority": 2**70},
    "f066_priority_below": {"priority": -(2**31) - 1},
    "f066_priority_1_5": {"priority": 1.5},
    "f066_priority_high": {"priority": "high"},
    "f067_delay_huge": {"delay": FAR},
    "f067_delay_11_years": {"delay": dt.timedelta(days=11 * 366)},
    "f067_delay_number": {"delay": 5},
    "f067_delay_text": {"delay": "soon"},
    "f067_dedupe_for_huge": {"dedupe_key": "k", "dedupe_for": FAR},
    "f068_backoff_factor_nan": {"backoff_factor": math.nan},
    "f068_backoff_factor_text": {"backoff_factor": "2"},
    "d6_payload_over_1_mib": {"payload": "x" * 2_000_000 + str(uuid.uuid4())},
    "headers_no_object": {"headers": [1]},
    "two_times": {"run_at": dt.datetime(2999, 1, 1, tzinfo=dt.UTC), "delay": dt.timedelta(1)},
}


# Of a JSON object numbers are read as seconds where a time is wanted, and as text where a text is.
NOT_IN_BULK = {
    "f064_no_kind", "f064_kind_is_a_number", "f064_queue_is_a_number", "f067_delay_number",
    "f068_backoff_factor_text",
}  # fmt: skip


async def taken(conn: Connection, attempts: Mapping[str, Awaitable[Any]]) -> dict[str, Any]:
    """Those that did not raise InvalidArgumentError, or left something behind."""
    wrong: dict[str, Any] = {}
    for name, attempt in attempts.items():
        try:
            wrong[name] = await attempt
        except InvalidArgumentError as error:
            if not str(error):
                wrong[name] = error
        except Exception as error:  # noqa: BLE001
            wrong[name] = error
        if stored := await calls.list_jobs(conn):
            wrong[name] = stored
            await conn.execute("truncate batchq.ready, batchq.scheduled")
    return wrong


async def test_a_bad_value_is_an_invalid_argument_and_nothing_is_stored(conn: Connection) -> None:
    attempts = {name: calls.enqueue(conn, **{"kind": "a", **bad}) for name, bad in BAD.items()}
    assert await taken(conn, attempts) == {}


async def test_a84_one_bad_item_of_many_and_nothing_is_stored(conn: Connection) -> None:
    attempts = {
        name: calls.enqueue_many(conn, jobs=[{"kind": "a"}, {"kind": "a", **bad}])
        for name, bad in BAD.items()
        if name not in NOT_IN_BULK
    }
    assert await taken(conn, attempts) == {}


async def test_f065_a_silly_number_of_jobs_is_refused(conn: Connection) -> None:
    await calls.enqueue(conn, "a")
    silly: list[Any] = [0, -1, 2**31 - 1, 2**31, 1.5, True, "1"]
    for n in silly:
        with pytest.raises(InvalidArgumentError):
            await calls.lease(conn, n=n)
    (depth,) = await calls.stats(conn)
    assert (depth.ready, depth.leased) == (1, 0)


async def test_f065_arrays_of_unequal_length_and_what_is_no_id_are_refused(
    conn: Connection,
) -> None:
    attempts: list[Awaitable[Any]] = [
        calls.complete_many(conn, job_ids=[1], lease_ids=[1, 2]),
        calls.complete_many(conn, job_ids=[1], lease_ids=[1], results=[]),
        calls.fail_many(conn, job_ids=[1], lease_ids=[1], errors=[]),
        calls.snooze_many(conn, job_ids=[1], lease_ids=[1], delays=[]),
        calls.progress_many(conn, job_ids=[1], lease_ids=[], progress=[]),
        calls.release_many(conn, job_ids=None, lease_ids=[]),  # type: ignore[arg-type]
        calls.extend(conn, job_ids=[2**64], lease_ids=[1]),
        calls.get_job(conn, job_id=2**64),
        calls.get_job(conn, job_id="x"),  # type: ignore[arg-type]
        calls.job_id(conn, job="x"),
        calls.cancel(conn, job_id=None),  # type: ignore[arg-type]
        calls.pause(conn, queue=None),  # type: ignore[arg-type]
        calls.extend(conn, job_ids=[1], lease_ids=[1], lease_for=dt.timedelta(0)),
        calls.lease(conn, lease_for=dt.timedelta(seconds=1e9)),
        calls.lease_from(conn, queues=[]),
        calls.list_jobs(conn, status="nope"),
        calls.cancel_many(conn),
        calls.cancel_many(conn, job_ids=[1]),
        calls.cancel_many(conn, state="completed"),
        calls.list_workers(conn, n=0),
        calls.drop_worker(conn, worker_id="w"),  # type: ignore[arg-type]
    ]
    for attempt in attempts:
        with pytest.raises((InvalidArgumentError, JobNotFoundError)):
            await attempt


async def test_empty_lists_are_no_error(conn: Connection) -> None:
    assert await calls.complete_many(conn, job_ids=[], lease_ids=[]) == []
    assert await calls.enqueue_many(conn, jobs=[]) == []
    assert await calls.extend(conn, job_ids=[], lease_ids=[]) == []


async def test_errors_come_as_their_classes_with_a_hint(conn: Connection) -> None:
    with pytest.raises(JobNotFoundError):
        await calls.get_job(conn, job_id=1)
    with pytest.raises(QueueNotFoundError) as unknown:
        await calls.stats(conn, queue="nope")
    assert "'nope'" in str(unknown.value)
    assert unknown.value.hint
    job_id = await calls.enqueue(conn, "a")
    (job,) = await calls.lease(conn)
    with pytest.raises(LeaseLostError):
        await calls.complete(conn, job_id=job_id, lease_id=job.lease_id + 1)
    await calls.complete(conn, job_id=job_id, lease_id=job.lease_id)
    with pytest.raises(WrongStateError):
        await calls.cancel(conn, job_id=job_id)


async def test_a_database_without_batchq_is_a_version_mismatch_that_says_what_to_do(
    empty_db: str,
) -> None:
    async with await psycopg.AsyncConnection.connect(empty_db, autocommit=True) as conn:
        with pytest.raises(VersionMismatchError) as caught:
            await calls.version(conn)
    assert caught.value.hint is not None
    assert "batchq install" in caught.value.hint


async def test_b13_f030_a_job_is_part_of_the_callers_transaction(connect: Connect) -> None:
    one, other = await connect(), await connect()
    await other.execute("create table orders (id integer)")
    for ends_well in (False, True):
        with contextlib.suppress(RollbackError):
            async with one.transaction():
                await one.execute("insert into orders values (1)")
                await calls.enqueue(one, "a")
                await calls.enqueue_many(one, jobs=[{"kind": "a"}])
                assert await calls.lease(other, n=5) == []
                if not ends_well:
                    raise RollbackError
        cursor = await other.execute("select count(*) from orders")
        assert await cursor.fetchone() == (int(ends_well),)
        assert len(await calls.lease(other, n=5)) == (2 if ends_well else 0)


async def test_f030_a_job_of_a_savepoint_that_is_rolled_back_never_was(conn: Connection) -> None:
    async with conn.transaction():
        kept = await calls.enqueue(conn, "a")
        with contextlib.suppress(RollbackError):
            async with conn.transaction():
                await calls.enqueue(conn, "a")
                raise RollbackError
    assert [job.job_id for job in await calls.lease(conn, n=5)] == [kept]


async def test_a_refused_call_spoils_the_transaction_it_is_in_and_no_more(conn: Connection) -> None:
    async def both() -> None:
        async with conn.transaction():
            await calls.enqueue(conn, "a")
            await calls.cancel(conn, job_id=-1)

    with pytest.raises(BatchqError):
        await both()
    assert await calls.list_jobs(conn) == []


async def test_f063_a_far_time_that_was_forced_in_keeps_nobody_from_being_listed(
    conn: Connection,
) -> None:
    forced = [await calls.enqueue(conn, "a", delay=dt.timedelta(hours=1)) for _ in range(3)]
    for job_id, time in zip(forced, ["infinity", "20000-01-01", "4713-01-01 BC"], strict=True):
        query = "update batchq.scheduled set run_at = %s where job_id = %s"
        await conn.execute(query, (time, job_id))
    other = await calls.enqueue(conn, "a")
    years = {job.id: job.run_at.year for job in await calls.list_jobs(conn)}
    assert [years[job_id] for job_id in forced] == [9999, 9999, 1]
    assert (await calls.get_job(conn, job_id=forced[0])).run_at.tzinfo is not None
    assert len(await calls.stats(conn)) == 1
    assert other in [job.job_id for job in await calls.lease(conn, n=5)]
    items = await calls.settle_and_lease(conn, queues=["default"], n=1)
    assert items[-1].event in {"leased", "sleep"}


async def test_f060_large_numbers_arrive_with_all_their_digits(conn: Connection) -> None:
    payload = {"id": 1970670598291982290, "f": 0.1, "big": 10**30}
    job_id = await calls.enqueue(conn, "a", payload)
    (job,) = await calls.lease(conn)
    assert msgspec.json.decode(job.payload) == payload
    assert msgspec.json.decode((await calls.get_job(conn, job_id=job_id)).payload) == payload


async def test_payloads_can_be_dataclasses_and_structs(conn: Connection) -> None:
    @dataclasses.dataclass
    class Order:
        id: int
        on: dt.date

    await calls.enqueue(conn, "a", Order(1, dt.date(2024, 2, 29)))
    await calls.enqueue_many(conn, jobs=[{"kind": "a", "payload": Order(2, dt.date(2024, 3, 1))}])
    jobs = await calls.lease(conn, n=2)
    assert [msgspec.json.decode(job.payload) for job in jobs] == [
        {"id": 1, "on": "2024-02-29"},
        {"id": 2, "on": "2024-03-01"},
    ]


ODD_NAMES = [
    "My-Queue", 'a"b', "a';drop table x;--", "ä" * 63, "x" * 70 + "1", "x" * 70 + "2", "%s", "a/b",
    "a\nb", " ", "{}", "null", "%(x)s",
]  # fmt: skip


async def test_f064_odd_names_never_share_jobs(conn: Connection) -> None:
    for name in ODD_NAMES:
        await calls.enqueue(conn, name, queue=name, dedupe_key=name)
    for name in ODD_NAMES:
        (job,) = await calls.lease(conn, queue=name, n=5, worker=name)
        assert (job.queue, job.kind) == (name, name)
    assert {depth.queue for depth in await calls.stats(conn)} == set(ODD_NAMES)


async def test_d9_durations_and_instants_do_not_depend_on_the_session(connect: Connect) -> None:
    conn = await connect(options="-c TimeZone=Asia/Kathmandu -c DateStyle=SQL,DMY")
    moment = dt.datetime(2999, 2, 3, 4, 5, 6, 789, tzinfo=dt.timezone(dt.timedelta(hours=-9)))
    ids = [
        await calls.enqueue(conn, "a", run_at=moment),
        (await calls.enqueue_many(conn, jobs=[{"kind": "a", "run_at": moment}]))[0].job_id,
    ]
    for job_id in ids:
        assert (await calls.get_job(conn, job_id=job_id)).run_at == moment
    await conn.execute("set IntervalStyle = 'sql_standard'")
    for wait in (dt.timedelta(days=1, hours=-3), dt.timedelta(seconds=-5, microseconds=1)):
        job_id = await calls.enqueue(conn, "a", delay=wait)
        job = await calls.get_job(conn, job_id=job_id)
        assert job.run_at - job.created_at == wait


class RollbackError(Exception):
    """Makes a transaction roll back."""
