"""Each gate that can hold a job back, made for real: the first row says which it is, and why."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from typing import Any

import pytest

from pybatchq import calls
from pybatchq.errors import JobNotFoundError, QueueNotFoundError
from tests.conftest import Connect, Connection

HOUR = dt.timedelta(hours=1)
STAMP = r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}Z"


async def add(conn: Connection, **options: Any) -> int:
    return await calls.enqueue(conn, kind=options.pop("kind", "a"), **options)


async def worker(
    conn: Connection, *, queues: list[str] | None = None, kinds: list[str] | None = None,
    **more: Any,
) -> None:  # fmt: skip
    await calls.beat_worker(
        conn, worker_id=uuid.uuid4(), worker="w", host="h", pid=1, version="1",
        queues=queues or ["default"], kinds=kinds or ["a"], concurrency=1, running=0, **more,
    )  # fmt: skip


async def gates(conn: Connection, job_id: int) -> list[tuple[str, str]]:
    found = await calls.explain_job(conn, job_id=job_id)
    assert all(gate.holds for gate in found) or len(found) == 1
    return [(gate.gate, gate.says) for gate in found]


async def first(conn: Connection, job_id: int) -> tuple[str, str, dict[str, Any]]:
    gate = (await calls.explain_job(conn, job_id=job_id))[0]
    return gate.gate, gate.says, json.loads(gate.data)


def stamp(at: dt.datetime) -> str:
    return f"{at.astimezone(dt.UTC):%Y-%m-%d %H:%M:%SZ}"


async def test_a_job_that_nothing_holds_is_next(conn: Connection) -> None:
    await worker(conn)
    job = await add(conn)
    says = "nothing holds it back: the next lease of queue default takes it"
    assert await gates(conn, job) == [("next", says)]
    assert not (await calls.explain_job(conn, job_id=job))[0].holds
    (taken,) = await calls.lease(conn)
    assert taken.job_id == job


async def test_a_delayed_job_is_not_due(conn: Connection) -> None:
    await worker(conn)
    job = await add(conn, delay=HOUR)
    (gate,) = await calls.explain_job(conn, job_id=job)
    due = (await calls.get_job(conn, job_id=job)).run_at
    assert (gate.gate, gate.until) == ("due", due)
    assert gate.says == f"it is not due until {stamp(due)}"
    await calls.pause(conn, queue="default")
    assert [name for name, _ in await gates(conn, job)] == ["due", "paused"]


async def test_a_job_between_attempts_says_which_is_next_and_why(conn: Connection) -> None:
    job = await add(conn, max_attempts=3)
    (lease,) = await calls.lease(conn)
    await calls.fail(conn, job_id=job, lease_id=lease.lease_id, error="boom", retry_in=HOUR)
    gate, says, data = await first(conn, job)
    due = (await calls.get_job(conn, job_id=job)).run_at
    assert (gate, data["last_error"]) == ("due", "boom")
    assert says == (f"it is not due until {stamp(due)}: attempt 2 of 3; the last one failed: boom")


async def test_a_paused_queue_says_who_since_when_and_why(conn: Connection) -> None:
    await worker(conn)
    job = await add(conn)
    await calls.pause(conn, queue="default", reason="provider is down")
    at = (await calls.get_queue(conn, queue="default")).paused_at
    assert at is not None
    by = conn.info.user
    says = f"queue default is paused since {stamp(at)} by {by}: provider is down"
    assert await gates(conn, job) == [("paused", says)]


async def test_a_queue_at_its_cap_names_the_jobs_that_hold_it(conn: Connection) -> None:
    await worker(conn)
    await calls.set_queue(conn, queue="default", max_running=2)
    running = [await add(conn) for _ in range(2)]
    leases = await calls.lease(conn, n=5)
    job = await add(conn)
    gate, says, data = await first(conn, job)
    assert (gate, sorted(data["job_ids"]), data["max_running"]) == ("cap", running, 2)
    assert says.startswith("queue default is at its cap of 2 running: ")
    await calls.complete(conn, job_id=running[0], lease_id=leases[0].lease_id)
    assert [name for name, _ in await gates(conn, job)] == ["next"]
    await calls.set_queue(conn, queue="default", max_running=0)
    says = f"queue default is stopped, its cap is 0: {running[1]}"
    assert await gates(conn, job) == [("cap", says)]


async def test_a_lowered_cap_says_how_many_must_end(conn: Connection) -> None:
    await worker(conn)
    await calls.set_queue(conn, queue="default", max_running=4)
    for _ in range(4):
        await add(conn)
    leases = await calls.lease(conn, n=4)
    await calls.set_queue(conn, queue="default", max_running=2)
    job = await add(conn)
    cap, owed = await gates(conn, job)
    assert (cap[0], owed[0]) == ("cap", "owed")
    assert owed[1] == (
        "the cap of queue default was lowered while more ran: 3 of them must end before one starts"
    )
    for lease in leases[:3]:
        assert await calls.lease(conn) == []
        await calls.complete(conn, job_id=lease.job_id, lease_id=lease.lease_id)
    assert [name for name, _ in await gates(conn, job)] == ["next"]
    assert len(await calls.lease(conn)) == 1


async def test_a_rate_says_when_the_next_may_start(conn: Connection) -> None:
    await worker(conn)
    await calls.set_queue(conn, queue="default", rate=1, rate_period=HOUR)
    await add(conn)
    (lease,) = await calls.lease(conn)
    job = await add(conn)
    (gate,) = await calls.explain_job(conn, job_id=job)
    assert gate.gate == "rate"
    assert gate.until is not None
    begun = lease.lease_until - dt.timedelta(seconds=60)
    assert abs(gate.until - begun - HOUR) < dt.timedelta(seconds=5)
    assert gate.says == f"queue default may start 1 in 3600 s, the next at {stamp(gate.until)}"
    await calls.set_queue(conn, queue="default", rate=0)
    assert (await gates(conn, job))[0][1].startswith("queue default is stopped, its rate is 0")


async def test_a_group_at_its_limit_names_the_job_that_has_the_seat(conn: Connection) -> None:
    await worker(conn)
    await calls.set_queue(conn, queue="default", group_limit=1)
    one, two, three = [await add(conn, group_key="x") for _ in range(3)]
    other = await add(conn, group_key="y")
    assert [name for name, _ in await gates(conn, one)] == ["next"]
    assert await gates(conn, two) == [("group_behind", "1 job of group x goes first")]
    (lease,) = await calls.lease(conn)
    assert lease.job_id == one
    assert await gates(conn, two) == [("group", f"group x is at its limit of 1: {one} (leased)")]
    assert [name for name, _ in await gates(conn, three)] == ["group", "group_behind"]
    assert [name for name, _ in await gates(conn, other)] == ["next"]
    # it keeps its seat while it waits for its retry
    await calls.fail(conn, job_id=one, lease_id=lease.lease_id, error="e", retry_in=HOUR)
    says = f"group x is at its limit of 1: {one} (scheduled)"
    assert (await gates(conn, two))[0] == ("group", says)
    await calls.cancel(conn, job_id=one)
    assert await gates(conn, two) == [("behind", "1 job of queue default goes first")]
    await calls.set_group(conn, queue="default", group_key="x", group_limit=0)
    assert (await gates(conn, two))[0] == ("group", "group x is stopped, its limit is 0")


async def test_a_ready_job_of_a_group_is_named_as_its_holder(conn: Connection) -> None:
    await calls.set_queue(conn, queue="default", group_limit=1)
    one, two = [await add(conn, group_key="x") for _ in range(2)]
    first_of_all = await add(conn, priority=9)
    (lease,) = await calls.lease(conn)
    assert lease.job_id == first_of_all
    assert (await gates(conn, two))[0] == ("group", f"group x is at its limit of 1: {one} (ready)")


async def test_a_group_that_may_not_start_yet_says_when(conn: Connection) -> None:
    await worker(conn)
    await calls.set_queue(conn, queue="default", group_rate=1, group_period=HOUR)
    one, two = [await add(conn, group_key="x") for _ in range(2)]
    (lease,) = await calls.lease(conn, n=5)
    assert lease.job_id == one
    (gate,) = await calls.explain_job(conn, job_id=two)
    assert gate.until is not None
    assert gate.gate == "group_rate"
    assert gate.says == f"group x may start 1 in 3600 s, the next at {stamp(gate.until)}"
    assert gate.until > lease.lease_until


async def test_no_live_worker_of_the_queue_and_none_that_knows_the_kind(
    conn: Connection,
) -> None:
    job = await add(conn, kind="b")
    nobody = "no live worker says that it works on queue default"
    assert await gates(conn, job) == [("worker", nobody)]
    await worker(conn, queues=["other"], kinds=["b"])
    await worker(conn, stopping=True, kinds=["b"])
    assert (await gates(conn, job))[0][1].startswith(f"{nobody}; the last did at ")
    await worker(conn, kinds=["a", "c"])
    says = "no live worker of queue default knows kind b"
    assert await gates(conn, job) == [("kind", says)]
    await worker(conn, kinds=["b"])
    assert [name for name, _ in await gates(conn, job)] == ["next"]
    await conn.execute("update batchq.worker set beat_at = beat_at - interval '2 min'")
    assert [name for name, _ in await gates(conn, job)] == ["worker"]


async def test_an_open_breaker_says_what_failed_and_when_it_is_tried_again(
    conn: Connection,
) -> None:
    await worker(conn)
    await calls.set_queue(
        conn, queue="default", breaker_share=0.5, breaker_min=2, breaker_pause=HOUR
    )
    for _ in range(2):
        await add(conn, max_attempts=1)
    for lease in await calls.lease(conn, n=2):
        await calls.fail(conn, job_id=lease.job_id, lease_id=lease.lease_id, error="boom")
    job, other = await add(conn), await add(conn, kind="b")
    assert [one.job_id for one in await calls.peek_lease(conn)] == [other]
    for is_moved in (False, True):
        gate = (await calls.explain_job(conn, job_id=job))[0]
        assert gate.gate == "breaker"
        assert gate.until is not None
        assert gate.says == (
            "kind a is held back, 2 of 2 attempts failed; the next probe at "
            f"{stamp(gate.until)}: boom"
        )
        # the lease puts it off until the probe
        assert [one.job_id for one in await calls.lease(conn, n=5)] == ([] if is_moved else [other])
    assert (await calls.get_job(conn, job_id=job)).state == "scheduled"
    assert (await calls.explain_queue(conn, queue="default"))[0].gate == "breaker"
    await conn.execute("update batchq.breaker set probe_at = clock_timestamp()")
    await conn.execute("update batchq.scheduled set run_at = clock_timestamp()")
    says = (await gates(conn, job))[0][1]
    assert says == (
        "kind a is held back, 2 of 2 attempts failed; the next lease takes one as a probe: boom"
    )
    (probe,) = await calls.lease(conn)
    late = await add(conn)
    assert (await gates(conn, late))[0][1].endswith(f"; job {probe.job_id} is the probe: boom")


async def test_jobs_before_it_are_counted_by_lane(conn: Connection) -> None:
    await worker(conn)
    for priority in (5, 0, 0, -1):
        await add(conn, priority=priority)
    job = await add(conn)
    gate, says, data = await first(conn, job)
    assert (gate, data["jobs"], data["higher"], data["own_lane"]) == ("behind", 3, 1, 2)
    assert says == "3 jobs of queue default go first, 1 of them of a higher priority"
    high = await add(conn, priority=5)
    assert await gates(conn, high) == [("behind", "1 job of queue default goes first")]


async def test_a_job_that_came_back_is_found_in_its_new_place(conn: Connection) -> None:
    await worker(conn)
    job = await add(conn)
    (lease,) = await calls.lease(conn)
    await add(conn)
    await calls.release(conn, job_id=job, lease_id=lease.lease_id)
    assert (await gates(conn, job))[0][0] in {"behind", "next"}
    peeked = await calls.peek_lease(conn)
    place = [int(one.job_id) for one in peeked].index(job)
    assert (await gates(conn, job))[0][0] == ("behind" if place else "next")


async def test_a_running_job_says_who_has_it_and_until_when(conn: Connection) -> None:
    job = await add(conn)
    (lease,) = await calls.lease(conn, worker="w7")
    (gate,) = await calls.explain_job(conn, job_id=job)
    record = await calls.get_job(conn, job_id=job)
    assert record.started_at is not None
    assert (gate.gate, gate.holds, gate.until) == ("running", False, lease.lease_until)
    assert gate.says == (
        f"it runs already: worker w7 has had it since {stamp(record.started_at)}, attempt 1 of "
        f"{record.max_attempts}, lease until {stamp(lease.lease_until)}"
    )
    await calls.cancel(conn, job_id=job)
    found = await calls.explain_job(conn, job_id=job)
    assert [one.gate for one in found] == ["running", "cancelling"]
    await conn.execute("update batchq.leased set lease_until = clock_timestamp()")
    assert (await first(conn, job))[1].startswith("the lease of worker w7 ran out at ")


async def test_a_job_that_is_over_says_how_it_ended(conn: Connection) -> None:
    done, dead, gone = [await add(conn, max_attempts=1) for _ in range(3)]
    leases = {int(lease.job_id): lease.lease_id for lease in await calls.lease(conn, n=2)}
    await calls.complete(conn, job_id=done, lease_id=leases[done])
    await calls.fail(conn, job_id=dead, lease_id=leases[dead], error="boom")
    await calls.cancel(conn, job_id=gone, reason="not needed")
    said = {job: await first(conn, job) for job in (done, dead, gone)}
    assert {gate for gate, *_ in said.values()} == {"finished"}
    assert [data["status"] for *_, data in said.values()] == ["completed", "failed", "cancelled"]
    assert said[done][1].endswith(", attempt 1 of 1")
    assert said[dead][1].endswith(", attempt 1 of 1: boom")
    assert said[gone][1].endswith(": not needed")


async def test_what_does_not_exist(conn: Connection) -> None:
    with pytest.raises(JobNotFoundError):
        await calls.explain_job(conn, job_id=1)
    with pytest.raises(QueueNotFoundError):
        await calls.explain_queue(conn, queue="no")
    with pytest.raises(QueueNotFoundError):
        await calls.peek_lease(conn, queue="no")


async def test_a_queue_says_what_holds_it_then_what_waits(
    conn: Connection, connect: Connect
) -> None:
    await calls.set_queue(conn, queue="default", group_limit=1, max_depth=4)
    for key in ("x", "x", "y", None):
        await add(conn, group_key=key)
    await add(conn, kind="b", delay=HOUR)
    await calls.maintain(conn)
    said = {gate.gate: gate for gate in await calls.explain_queue(conn, queue="default")}
    assert list(said) == ["worker", "depth", "full", "groups"]
    assert said["depth"].says == "1 ready, 1 scheduled, 3 blocked"
    assert said["groups"].says == "2 groups wait for their turn; x has the most jobs: 2"
    assert said["full"].says.startswith("queue default is full, 4 jobs may wait: enqueue refuses")
    await worker(conn)
    await calls.set_queue(conn, queue="default", clear=["max_depth"])
    await add(conn, kind="c")
    found = await calls.explain_queue(conn, queue="default")
    assert [gate.says for gate in found if gate.holds] == [
        f"no live worker of queue default knows kind {kind}" for kind in "bc"
    ]
    await worker(conn, kinds=["b", "c"])
    old = await connect(autocommit=False)
    await old.execute("set transaction isolation level repeatable read")
    await old.execute("select 1 from batchq.job")
    await conn.execute(
        "create or replace function batchq._now() returns timestamptz language sql volatile "
        "return clock_timestamp() + interval '70 s'"
    )
    await worker(conn, kinds=["b", "c"])
    found = await calls.explain_queue(conn, queue="default")
    assert found[0].says.startswith("nothing holds queue default back: ")
    assert f"pid {old.info.backend_pid}," in found[-1].says
    assert found[-1].gate == "cleanup"
