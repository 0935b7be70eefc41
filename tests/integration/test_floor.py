"""The floor never hides a job.

The proof is in sql/functions/private/_sweep.sql. Here transactions draw their places and end late,
in every way there is, while others consume the line and sweep it.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg import errors
from psycopg.types.json import Jsonb

from tests.support.stress import Stress

Connection = psycopg.Connection[tuple[Any, ...]]
Open = Callable[[], Connection]

STRESS_S = float(os.environ.get("BATCHQ_STRESS_SECONDS", "8"))
# a sweep writes nothing down before its line has moved by 500 places, or by half a second
A_STEP = 600


@pytest.fixture
def sessions(db: str) -> Iterator[Open]:
    with contextlib.ExitStack() as stack:

        def session() -> Connection:
            return stack.enter_context(contextlib.closing(psycopg.connect(db, autocommit=True)))

        yield session


@pytest.fixture
def one(sessions: Open) -> Connection:
    """The session that sees to the line: it may do anything."""
    return sessions()


def value(conn: Connection, query: str, *parameters: object) -> Any:
    row = conn.execute(query.encode(), parameters).fetchone()
    assert row is not None
    return row[0]


def lease(conn: Connection, n: int = 1, queue: str = "default") -> list[int]:
    query = "select job_id from batchq.lease(%s, %s)"
    return [row[0] for row in conn.execute(query, (queue, n)).fetchall()]


def floors(conn: Connection, line: str = "ready", queue: str = "default") -> tuple[int, int]:
    """(floor, hard_floor) of lane 0 of a line, as the next reader takes them."""
    row = conn.execute(
        """
        select f.floor, f.hard_floor from batchq.floor f
        where f.queue = %s and f.line = %s and f.priority = 0
        order by f.generation desc limit 1
        """,
        (queue, line),
    ).fetchone()
    assert row is not None
    return row


def sweep(conn: Connection, line: str = "ready", queue: str = "default", times: int = 5) -> None:
    """Make the next sweeps due and sweep, as leases (or reaps) do over some seconds."""
    if line != "leased":
        conn.execute("select batchq._add_line(%s, %s, 0::smallint)", (queue, line))
    for _ in range(times):
        conn.execute("update batchq.floor set sweep_after = '-infinity', deep_after = '-infinity'")
        conn.execute("select batchq._sweep(%s, %s, 0::smallint)", (queue, line))


def enqueue_many(conn: Connection, n: int, **fields: object) -> None:
    conn.execute(
        """
        select from batchq.enqueue_many((
            select jsonb_agg('{"kind": "other"}'::jsonb || %s) from generate_series(1, %s)))
        """,
        (Jsonb(fields), n),
    )


def consume(conn: Connection, n: int = A_STEP) -> None:
    """Others come and go, and the line is swept all the while."""
    for _ in range(2):
        enqueue_many(conn, n)
        sweep(conn)
        assert len(lease(conn, n)) == n
        sweep(conn)
    conn.execute(
        "delete from batchq.leased l using batchq.job j where j.id = l.job_id and j.kind = 'other'"
    )


def move_clock(conn: Connection, by: str) -> None:
    conn.execute(
        "create or replace function batchq._now() returns timestamptz language sql volatile "
        f"return clock_timestamp() + interval '{by}'".encode()
    )


# How a job can come to stand in ready: what goes before, and what the late transaction does.
WAYS = {
    "enqueue": ("", "select batchq.enqueue('late')"),
    "enqueue_many": ("", """select batchq.enqueue_many('[{"kind": "late"}]')"""),
    "savepoint": (
        "",
        """
        savepoint a;
        select batchq.enqueue('undone');
        rollback to a;
        savepoint b;
        select batchq.enqueue('late');
        release b
        """,
    ),
    "release": (
        "select batchq.enqueue('late'); select batchq.lease()",
        "select batchq.release(job_id, lease_id) from batchq.leased",
    ),
    "redrive": (
        """
        select batchq.enqueue('late', max_attempts => 1);
        select batchq.fail(job_id, lease_id, 'broken') from batchq.lease()
        """,
        "select batchq.redrive()",
    ),
    "promote": (
        "select batchq.enqueue('late', delay => '1 us')",
        "select batchq._promote('default', 0, 10)",
    ),
    "replace": (
        "select batchq.enqueue('late', dedupe_key => 'k', delay => '1 h')",
        "select batchq.enqueue('late', dedupe_key => 'k', on_duplicate => 'replace')",
    ),
}


@pytest.mark.parametrize("end", ["commit", "prepare"])
@pytest.mark.parametrize("way", WAYS)
def test_a_job_that_is_committed_late_is_found(
    sessions: Open, one: Connection, way: str, end: str
) -> None:
    before, late_sql = WAYS[way]
    late = sessions()
    if before:
        one.execute(before.encode())
    late.execute("begin")
    late.execute(late_sql.encode())
    consume(one)
    assert lease(one) == [], "an empty answer while nobody else has committed anything"
    floor, hard_floor = floors(one)
    position = value(one, "select last_value from batchq.position")
    assert floor > position - A_STEP, "the floor follows the line all the same"
    name = str(uuid.uuid4())
    if end == "prepare":
        late.execute(f"prepare transaction '{name}'".encode())
        late.close()
        sweep(one)
        one.execute(f"commit prepared '{name}'".encode())
    else:
        late.commit()
    job_id = value(one, "select id from batchq.jobs where kind = 'late'")
    pos = value(one, "select pos from batchq.ready where job_id = %s", job_id)
    assert hard_floor <= pos < floor, "it has surfaced below the floor, not below the hard floor"
    assert lease(one) == [job_id]
    consume(one)
    assert floors(one)[1] > pos, "and then the hard floor goes on"
    assert value(one, "select batchq._check_floors()") == 0


@pytest.mark.parametrize(
    "look",
    [
        "select job_id from batchq.lease()",
        "select job_id from batchq.lease_from('{none,default}')",
        "select job_id from batchq.settle_and_lease('{none,default}', 1) where event = 'leased'",
    ],
)
def test_an_empty_answer_is_exact_in_every_form(sessions: Open, one: Connection, look: str) -> None:
    late = sessions()
    late.execute("begin")
    job_id = value(late, "select batchq.enqueue('late')")
    consume(one)
    assert one.execute(look.encode()).fetchall() == []
    late.commit()
    assert one.execute(look.encode()).fetchall() == [(job_id,)]


def test_a_late_job_is_found_behind_a_floor_with_work_above_it(
    sessions: Open, one: Connection
) -> None:
    late = sessions()
    late.execute("begin")
    job_id = value(late, "select batchq.enqueue('late')")
    consume(one)
    enqueue_many(one, A_STEP)
    late.commit()
    sweep(one, times=2)
    assert lease(one) == [job_id], "the next sweep finds it though nobody runs dry"


def test_a_lease_held_open_at_the_head_does_not_stop_the_floor(
    sessions: Open, one: Connection
) -> None:
    held = sessions()
    first = value(one, "select batchq.enqueue('first')")
    held.execute("begin")
    assert lease(held) == [first]
    consume(one)
    floor, hard_floor = floors(one)
    assert hard_floor <= first < first + A_STEP < floor
    assert lease(one) == []
    held.rollback()
    assert lease(one) == [first], "what was rolled back below the floor is found again"


def test_an_open_lease_holds_back_only_what_it_took(sessions: Open, one: Connection) -> None:
    # a sweep on the way looks for what is free by locking it
    late, held = sessions(), sessions()
    late.execute("begin")
    job_id = value(late, "select batchq.enqueue('late')")
    consume(one)
    above = [value(one, "select batchq.enqueue('above')") for _ in range(2)]
    late.commit()
    one.execute("update batchq.floor set sweep_after = '-infinity', deep_after = '-infinity'")
    held.execute("begin")
    (taken,) = lease(held)
    rest: list[int] = []
    while found := lease(one):
        rest += found
    assert sorted([taken, *rest]) == [job_id, *above]


def test_a_lease_rolled_back_to_a_savepoint_is_found_again(sessions: Open, one: Connection) -> None:
    held = sessions()
    first = value(one, "select batchq.enqueue('first')")
    held.execute("begin; savepoint a")
    assert lease(held) == [first]
    consume(one)
    held.execute("rollback to a")
    assert lease(one) == [first]
    held.commit()


def test_a_transaction_that_is_newer_than_the_newest_finished_one_counts(
    sessions: Open, one: Connection
) -> None:
    # pg_snapshot_xmax is the newest finished xid plus one; when the mark is written here, both
    # others run at or above it. The second, which ends last, must keep the mark waiting.
    first, second = sessions(), sessions()
    sweep(one)
    one.execute("update batchq.floor set sweep_after = '-infinity', deep_after = '-infinity'")
    first.execute("begin; select pg_current_xact_id()")
    second.execute("begin; select pg_current_xact_id()")
    late = value(second, "select batchq.enqueue('late')")
    enqueue_many(first, A_STEP)
    one.execute("select batchq._sweep('default', 'ready', 0::smallint)")
    first.commit()
    taken: list[int] = []
    while found := lease(one, 10_000):
        taken += found
    assert len(taken) == A_STEP
    consume(one)
    assert floors(one)[1] <= late
    second.commit()
    assert lease(one) == [late]


def test_a_place_drawn_long_after_the_xid_is_found(sessions: Open, one: Connection) -> None:
    late = sessions()
    late.execute("begin; select pg_current_xact_id()")
    consume(one)
    job_id = value(late, "select batchq.enqueue('late')")
    consume(one)
    late.commit()
    assert lease(one) == [job_id]


def test_a_repeatable_read_caller_writes_no_floor(sessions: Open, one: Connection) -> None:
    # its one old snapshot tells nothing about who is running now
    old = sessions()
    enqueue_many(one, 1)
    sweep(one)
    old.execute("begin isolation level repeatable read; select count(*) from batchq.jobs")
    consume(one)
    before = floors(one)
    one.execute("update batchq.floor set sweep_after = '-infinity', deep_after = '-infinity'")
    old.execute("select batchq._sweep('default', 'ready', 0::smallint)")
    old.commit()
    assert floors(one) == before


def test_a_repeatable_read_lease_of_what_is_gone_is_told_so(
    sessions: Open, one: Connection
) -> None:
    old = sessions()
    job_id = value(one, "select batchq.enqueue('a')")
    old.execute("begin isolation level repeatable read; select count(*) from batchq.jobs")
    assert lease(one) == [job_id]
    with pytest.raises(errors.SerializationFailure):
        lease(old)
    old.rollback()
    assert lease(old) == []


def test_a_repeatable_read_enqueue_is_found(sessions: Open, one: Connection) -> None:
    old = sessions()
    old.execute("begin isolation level repeatable read; select count(*) from batchq.jobs")
    consume(one)
    job_id = value(old, "select batchq.enqueue('a')")
    consume(one)
    assert floors(one)[1] <= job_id
    old.commit()
    assert lease(one) == [job_id]


def test_a_repeatable_read_lease_takes_what_its_snapshot_shows(
    sessions: Open, one: Connection
) -> None:
    old = sessions()
    ids = [value(one, "select batchq.enqueue('a')") for _ in range(3)]
    old.execute("begin isolation level repeatable read; select count(*) from batchq.jobs")
    later = value(one, "select batchq.enqueue('b')")
    assert lease(old, 10) == ids
    old.commit()
    assert lease(one, 10) == [later]


FOREIGN = {
    "newer than the row": 1_000_000,
    "half way round the circle": 2**31 - 10,
    "older than the row": -2,
}


@pytest.mark.parametrize("distance", FOREIGN.values(), ids=FOREIGN)
def test_a_mark_from_another_cluster_neither_sticks_nor_lies(
    sessions: Open, one: Connection, distance: int
) -> None:
    late = sessions()
    enqueue_many(one, A_STEP)
    lease(one, A_STEP)
    late.execute("begin")
    job_id = value(late, "select batchq.enqueue('late')")
    # as a dump restores it: the place is true of what was dumped, the xid is somebody else's
    one.execute(
        """
        insert into batchq.floor (queue, line, floor, hard_floor, mark, mark_xid)
        select 'default', 'ready', 0, 0, %s,
               (pg_current_xact_id()::text::bigint + %s) & 4294967295
        """,
        (job_id - 1, distance),
    )
    consume(one)
    assert floors(one)[1] <= job_id
    late.commit()
    assert lease(one) == [job_id]
    consume(one)
    assert floors(one)[1] > job_id


def test_xids_are_compared_in_a_circle(one: Connection) -> None:
    def passed(xid: int, oldest: int) -> bool:
        return bool(value(one, "select batchq._xid_passed(%s, %s)", xid, oldest))

    near_end = 2**32 - 5
    assert passed(100, 100)
    assert passed(99, 100)
    assert not passed(101, 100)
    assert passed(near_end, 10), "the counter went round"
    assert not passed(10, near_end)
    assert passed(2, 5_000_000_000), "a frozen one"
    assert passed(10, 2**32 + 10)


def test_a_scheduled_job_committed_late_is_found(sessions: Open, one: Connection) -> None:
    late = sessions()
    late.execute("begin")
    job_id = value(late, "select batchq.enqueue('late', delay => '10 s')")
    enqueue_many(one, 5, delay=5)
    move_clock(one, "1 h")
    assert len(lease(one, 10)) == 5
    sweep(one, "scheduled")
    run_at = value(
        late, "select batchq._micros(run_at) from batchq.scheduled where job_id = %s", job_id
    )
    floor, hard_floor = floors(one, "scheduled")
    assert hard_floor <= run_at < floor
    assert lease(one) == []
    late.commit()
    assert lease(one) == [job_id]
    sweep(one, "scheduled")
    assert floors(one, "scheduled")[1] > run_at


@pytest.mark.parametrize(
    "call",
    [
        "select batchq.lease(lease_for => '1 s')",
        "select batchq.extend(array[job_id], array[lease_id], '1 s') from batchq.leased",
    ],
    ids=["lease", "extend"],
)
def test_a_lease_committed_late_is_reaped(sessions: Open, one: Connection, call: str) -> None:
    late = sessions()
    job_id = value(one, "select batchq.enqueue('late')")
    if "extend" in call:
        one.execute("select batchq.lease(lease_for => '1 day')")
    late.execute("begin")
    late.execute(call.encode())
    move_clock(one, "1 h")
    sweep(one, "leased", "")
    assert value(one, "select batchq.reap()") == 0
    until = value(
        late, "select batchq._micros(lease_until) from batchq.leased where job_id = %s", job_id
    )
    floor, hard_floor = floors(one, "leased", "")
    assert hard_floor <= until < floor
    late.commit()
    sweep(one, "leased", "", times=1)
    assert value(one, "select batchq.reap()") == 1
    assert value(one, "select state from batchq.jobs where id = %s", job_id) == "scheduled"


def test_times_are_read_after_the_xid(one: Connection) -> None:
    # the floors of the lines that run on time depend on it: without an xid it is last year
    ids = [value(one, "select batchq.enqueue('a', max_attempts => 9)") for _ in range(9)]
    one.execute("select batchq.enqueue('b', dedupe_key => 'k', delay => '2 h')")
    one.execute(
        "create or replace function batchq._now() returns timestamptz language sql volatile "
        "return clock_timestamp() - case when pg_current_xact_id_if_assigned() is null "
        "then interval '1 year' else '0' end"
    )
    soonest = """
        select least((select min(run_at) from batchq.scheduled),
                     (select min(lease_until) from batchq.leased)) > clock_timestamp()"""
    lost = "(select array_agg(job_id) from batchq.leased where job_id = any(%s))"
    held = "(select array_agg(lease_id) from batchq.leased where job_id = any(%s))"
    many = f"{lost}, {held}"
    for call, jobs in {
        "enqueue('c', delay => '1 h')": [],
        "enqueue('c', '2', dedupe_key => 'k', on_duplicate => 'replace', delay => '1 h')": [],
        """enqueue_many('[{"kind": "c", "delay": 3600}]')""": [],
        "lease(n => 8)": [],
        "settle_and_lease('{default}', 1)": [],
        f"extend({many})": ids,
        f"fail_many({many}, '{{e,e}}', retry_ins => '{{1h,1h}}')": ids[:2],
        f"settle_and_lease(failed_ids => {lost}, failed_leases => {held}, errors => '{{e}}',"
        " retry_ins => '{1h}')": ids[2:3],
        f"snooze_many({many}, '{{1h,1h}}')": ids[3:5],
        "fail(job_id, lease_id, 'e', retry_in => '1 h') from batchq.leased where job_id = %s": ids[
            5
        ],
        "snooze(job_id, lease_id, '1 h') from batchq.leased where job_id = %s": ids[6],
        f"fail_many({many}, '{{e,e}}', permanents => '{{t,t}}')": ids[7:],
        "redrive(per_second => 0.001)": [],
    }.items():
        one.execute(f"select batchq.{call}".encode(), [jobs] * call.count("%s"))
        if "per_second" not in call:
            assert value(one, soonest), call
    # the first of a rate starts at once: that is not before this transaction's xid either
    assert value(
        one, "select min(run_at) > clock_timestamp() - interval '1 min' from batchq.scheduled"
    )
    assert value(one, "select count(*) from batchq.leased") == 0


def test_a_place_is_not_to_be_had_without_an_xid(one: Connection) -> None:
    one.execute("begin; select batchq._next_place()")
    assert value(one, "select pg_current_xact_id_if_assigned()") is not None
    one.rollback()


def test_what_stands_below_a_hard_floor_is_served_and_counted(one: Connection) -> None:
    # belt and braces; it takes a bug of ours to get there, or a restored backup of half the tables
    job_id = value(one, "select batchq.enqueue('lost')")
    one.execute(
        "insert into batchq.floor (queue, line, floor, hard_floor) "
        "values ('default', 'ready', %s, %s)",
        (job_id + 1, job_id + 1),
    )
    assert lease(one) == []
    notices: list[str] = []
    one.add_notice_handler(lambda notice: notices.append(notice.message_primary or ""))
    one.execute("select batchq.maintain()")
    assert value(one, "select breaches from batchq.upkeep where task = 'floors'") == 1
    assert len(notices) == 1
    assert lease(one) == [job_id]


@pytest.mark.timeout(STRESS_S + 90)
async def test_stress(db: str) -> None:
    """BATCHQ_STRESS_SECONDS sets how long the enqueuers go on."""
    found = await Stress(db).run(STRESS_S)
    assert found.accepted, "nothing was enqueued"
    assert found.raised_floors > 0, "no hard floor ever moved: nothing was tested"
    assert found.missing == set()
    assert found.completed_more_than_once == set()
    assert found.never_committed == set()
    assert found.left == (0, 0, 0)
    assert found.breaches == 0
