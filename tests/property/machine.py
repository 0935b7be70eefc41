"""The ground of test_machine.py: a session on batchq beside the model, and how they compare."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest
from hypothesis.stateful import RuleBasedStateMachine, invariant

from tests.property.model import STATUS, Model, Pair, RefusedError
from tests.property.records import SECOND, Job
from tests.property.specs import QUEUES, micros, span

CLOCK = """
    create or replace function batchq._now() returns timestamptz language sql volatile
    return timestamptz '2030-01-01 00:00:00+00'
           + current_setting('test.micros')::bigint * interval '1 microsecond'"""
# setseed: jitter is the same in each run of an example, so hypothesis can repeat and shrink it
EMPTY = """
    truncate batchq.job, batchq.outcome, batchq.error, batchq.ready, batchq.scheduled,
             batchq.leased, batchq.dead, batchq.dedupe, batchq.queue, batchq.floor,
             batchq.permit, batchq.blocked, batchq.call, batchq.group_state,
             batchq.group_setting;
    select setval('batchq.position', 1, false), setval('batchq.lease_number', 1, false),
           setval('batchq.floor_generation', 1, false), set_config('test.micros', '0', false),
           setseed(0);
    insert into batchq.floor (queue, line) values ('', 'leased');
    update batchq.upkeep set next_at = '-infinity', done = 0, breaches = 0"""
A_MOMENT = 10_000
OVER = ("completed", "cancelled")
MICROS = "(extract(epoch from {} - timestamptz '2030-01-01 00:00:00+00') * 1000000)::bigint"
JOBS = f"""
    select coalesce(jsonb_object_agg(j.id, jsonb_build_array(
        j.queue, j.priority, j.status, j.state, j.attempts, j.max_attempts,
        {MICROS.format("j.run_at")}, {MICROS.format("j.locked_until")}, j.locked_by,
        j.dedupe_key, j.payload, j.result, j.progress, j.last_error,
        j.cancel_requested_at is not null, j.group_key)), '{{}}'), count(*)
    from batchq.jobs j"""
PLACES = """
    select job_id, array_agg(state)
    from (select job_id, 'ready' as state from batchq.ready
          union all select job_id, 'scheduled' from batchq.scheduled
          union all select job_id, 'blocked' from batchq.blocked
          union all select job_id, 'leased' from batchq.leased
          union all select job_id, 'failed' from batchq.dead
          union all select job_id, state from batchq.outcome) p
    group by job_id"""
HOLDS = f"select queue, dedupe_key, job_id, {MICROS.format('held_until')} from batchq.dedupe"
BELOW_FLOOR = """
    with line as (
        select distinct on (f.queue, f.line, f.priority) f.*
        from batchq.floor f
        order by f.queue, f.line, f.priority, f.generation desc)
    select l.queue, l.line, l.priority, l.hard_floor
    from line l
    where exists (select from batchq.ready r
                  where l.line = 'ready' and r.queue = l.queue and r.priority = l.priority
                    and r.pos < l.hard_floor)
       or exists (select from batchq.scheduled s
                  where l.line = 'scheduled' and s.queue = l.queue
                    and s.run_at < batchq._instant(l.hard_floor))
       or exists (select from batchq.leased d
                  where l.line = 'leased' and d.lease_until < batchq._instant(l.hard_floor))
       or exists (select from batchq.call c
                  where l.line = 'round' and c.queue = l.queue
                    and c.due_at < batchq._instant(l.hard_floor))
       or exists (select from batchq.permit p
                  where p.line = l.line and p.queue = l.queue and p.place < l.hard_floor)
    union all
    select '', u.task, 0, u.breaches from batchq.upkeep u where u.breaches > 0"""

# of each queue: permits to run that are there or in use, without what is owed; permits to start
PERMITS = """
    select q.queue,
           coalesce(sum(p.n) filter (where p.line = 'cap'), 0)::integer - q.slots_owed
           + (select count(*) from batchq.leased l where l.queue = q.queue)::integer,
           coalesce(sum(p.n) filter (where p.line = 'rate'), 0)::integer
    from batchq.queue q left join batchq.permit p on p.queue = q.queue
    group by q.queue"""
SEATS = """
    select s.queue, t.group_key, t.taken, t.believed
    from (select distinct f.queue from batchq.floor f where f.line = 'round') s
    cross join lateral batchq._seats(s.queue) t"""
STARTED = """
    select s.queue, s.group_key,
           s.started - coalesce((select sum(c.starts) from batchq.call c
                                 where c.queue = s.queue and c.group_key = s.group_key
                                   and c.due_at <= batchq._now()), 0)::integer
    from (select distinct on (g.queue, g.group_key) g.* from batchq.group_state g
          order by g.queue, g.group_key, g.generation desc) s"""


class Beside(RuleBasedStateMachine):
    conn: psycopg.Connection[tuple[Any, ...]]

    def __init__(self) -> None:
        super().__init__()
        for statement in EMPTY.split(";"):
            self.conn.execute(statement.encode())
        tasks = "select task, (extract(epoch from every) * 1000000)::bigint from batchq.upkeep"
        self.model = Model(every=dict(self.conn.execute(tasks).fetchall()))
        self.leases: list[Pair] = []
        self.last_lease = 0
        self.ran: dict[str, int] = {}
        self.sat: dict[tuple[str, str], int] = {}

    # how calls are made and compared

    def call(self, name: str, **given: Any) -> list[tuple[Any, ...]]:
        """The rows of a batchq function; RefusedError with its SQLSTATE when it raises."""
        names = ", ".join(f"{key} => %({key})s" for key in given)
        statement = f"select f.* from batchq.{name}({names}) f"
        try:
            return self.conn.execute(statement.encode(), given).fetchall()
        except psycopg.Error as error:
            if error.sqlstate is None or not error.sqlstate.startswith("JQ"):
                raise
            raise RefusedError(error.sqlstate) from error

    def value(self, name: str, **given: Any) -> Any:
        return self.call(name, **given)[0][0]

    def pair(self, pick: int) -> Pair:
        """A lease: mostly one that is held; else an old, a foreign or a made-up one."""
        live = self.model.live_leases()
        if live and pick < 30:
            return live[pick % len(live)]
        other_jobs_lease = [(job, lease) for job, _ in live[:2] for _, lease in live[1:3]]
        jobs_other_lease = [(job, lease - 1) for job, lease in live[:2]]
        if pick < 35:
            known = [*other_jobs_lease, *jobs_other_lease, (1, 999_999), (999_999, 1)]
        else:
            known = self.leases or [(1, 1)]
        return known[pick % len(known)]

    def pairs(self, chosen: list[int]) -> tuple[list[Pair], list[int], list[int]]:
        pairs = list(dict.fromkeys(self.pair(pick) for pick in chosen))
        return pairs, [job for job, _ in pairs], [lease for _, lease in pairs]

    def job_id(self, pick: int, *states: str) -> int:
        """A job, mostly one in these states; those that hold a key first."""
        holders = {hold.job_id for hold in self.model.holds.values()}
        known = [job.id for job in self.model.in_state(*states)]
        known.sort(key=lambda job_id: job_id not in holders)
        if not known or pick >= 30:
            known = [*self.model.jobs, 999_999]
        return known[pick % len(known)]

    def last_place(self) -> int:
        row = self.conn.execute(
            "select case when is_called then last_value else 0 end from batchq.position"
        ).fetchone()
        assert row is not None
        return int(row[0])

    def check_leased(self, rows: list[tuple[Any, ...]], expected: list[Job]) -> None:
        """Rows of leased_job against the jobs the model leased, in order."""
        assert [row[0] for row in rows] == [job.id for job in expected]
        for row, job in zip(rows, expected, strict=True):
            _, lease_id, until, queue, kind, payload, priority, attempt, most, timeout, _ = row
            assert lease_id > self.last_lease
            self.last_lease = job.lease_id = lease_id
            self.leases.append((job.id, lease_id))
            assert kind == "k"
            assert (queue, payload, priority, attempt, most, timeout, micros(until)) == (
                job.queue,
                job.payload,
                job.priority,
                job.attempts,
                job.max_attempts,
                span(job.timeout),
                job.lease_until,
            )

    def unsettled(self, pairs: list[Pair], *settle: Any) -> set[tuple[int, int, str]]:
        """What an array form must report when the model settles each pair by itself."""
        lost = set()
        for pair, one in zip(pairs, settle, strict=True):
            try:
                one(pair)
            except RefusedError:
                lost.add((*pair, "lost"))
        return lost

    def same(self, name: str, predict: Any, **given: Any) -> None:
        """A call that returns one value or row, or is refused, as the model says."""
        try:
            expected = predict()
        except RefusedError as refused:
            with pytest.raises(RefusedError, match=refused.code):
                self.call(name, **given)
        else:
            (row,) = self.call(name, **given)
            assert (row if isinstance(expected, tuple) else row[0]) == expected

    def lease_model(self, names: list[str], n: int, lease_for: int | None) -> list[Job]:
        expected: list[Job] = []
        for queue in names:
            if len(expected) < n:
                expected += self.model.lease(queue, n - len(expected), lease_for, "w")
        return expected

    def check_wait(self, found: timedelta | None, names: list[str]) -> None:
        """A worker of these queues may sleep so long: exactly until a job is due where no limit
        is; nowhere longer than until the next chance, a moment aside."""
        awake = [name for name in names if not self.model.queue(name).paused]
        jobs = [job for name in awake for job in self.model.in_state("scheduled", queue=name)]
        if None in {job.due for job in jobs}:
            return
        dues = [job.due or 0 for job in jobs]
        if any(self.model.queue(name).limited for name in awake):
            chances = [self.model.chance(name) for name in awake]
            waits = [at - self.model.now for at in (*dues, *chances) if at is not None]
            if waits:
                assert found is not None
                assert found // timedelta(microseconds=1) <= max(min(waits), A_MOMENT)
        else:
            waits = [max(due - self.model.now, 0) for due in dues]
            assert found == span(min(waits, default=None))

    def set_clock(self, now: int) -> None:
        self.model.now = max(now, self.model.now)
        self.conn.execute("select set_config('test.micros', %s, false)", [str(self.model.now)])

    # what holds after every step

    @invariant()
    def all_is_as_the_model_says(self) -> None:
        self.every_job_is_where_the_model_has_it()
        self.dedupe_keys_are_held_as_the_model_says()
        self.no_row_stands_below_its_floor()
        self.permits_and_seats_are_as_many_as_there_should_be()
        self.no_limit_is_exceeded()

    def every_job_is_where_the_model_has_it(self) -> None:
        shown, count = self.one(JOBS)
        for job in self.model.in_state("scheduled"):
            if job.due is None:
                job.due = shown[str(job.id)][6]
                assert job.due_from <= job.due - self.model.now <= job.due_within
                if job.runs_when_due:
                    job.run_at = job.due
        expected = {str(job.id): self.view(job) for job in self.model.jobs.values()}
        assert shown == expected
        assert count == len(expected)
        places = dict(self.conn.execute(PLACES).fetchall())
        assert places == {job.id: [job.state] for job in self.model.jobs.values()}

    def one(self, query: str) -> tuple[Any, ...]:
        row = self.conn.execute(query.encode()).fetchone()
        assert row is not None
        return row

    def view(self, job: Job) -> list[Any]:
        last_error = job.errors[-1] if job.errors else None
        if job.state == "cancelled" and last_error is None:
            last_error = job.reason
        return [
            job.queue,
            job.first_priority if job.state in OVER else job.priority,
            STATUS.get(job.state, job.state),
            job.state,
            job.attempts,
            job.max_attempts,
            job.shown_run_at(),
            job.lease_until,
            job.worker,
            job.dedupe_key,
            job.payload,
            job.result,
            job.progress,
            last_error,
            job.stopping,
            job.group_key,
        ]

    def dedupe_keys_are_held_as_the_model_says(self) -> None:
        holds = self.conn.execute(HOLDS.encode()).fetchall()
        assert sorted(holds, key=str) == sorted(
            ((*key, hold.job_id, hold.until) for key, hold in self.model.holds.items()), key=str
        )

    def no_row_stands_below_its_floor(self) -> None:
        assert self.conn.execute(BELOW_FLOOR).fetchall() == []

    def permits_and_seats_are_as_many_as_there_should_be(self) -> None:
        permits = {name: (cap, rate) for name, cap, rate in self.conn.execute(PERMITS.encode())}
        for name, queue in self.model.queues.items():
            cap, rate = permits[name]
            if queue.max_running is not None:
                assert cap == queue.max_running - queue.missing
            assert rate == (queue.rate or 0)
        seats = self.conn.execute(SEATS.encode()).fetchall()
        assert [row for row in seats if row[2] != row[3]] == []
        taken = {(queue, group): n for queue, group, n, _ in seats if n > 0}
        assert taken == self.model.seats()
        for queue_name, group, started in self.conn.execute(STARTED.encode()):
            assert started == self.model.started(queue_name, group)

    def no_limit_is_exceeded(self) -> None:
        """Where more run, or have seats, than the limit says, it was lowered, and none is added."""
        for name in QUEUES:
            running = len(self.model.in_state("leased", queue=name))
            most = self.model.queue(name).max_running
            if most is not None:
                assert running <= max(most, self.ran.get(name, 0))
            self.ran[name] = running
        seats = self.model.seats()
        for (name, group), taken in seats.items():
            limit = self.model.seats_of(name, group)
            assert taken <= max(limit, self.sat.get((name, group), 0))
        self.sat = seats
        for (name, key), starts in self.model.starts.items():
            queue = self.model.queue(name)
            most = queue.rate if key is None else queue.group_rate
            period = queue.period if key is None else queue.group_period or SECOND
            if most is not None:
                later = starts[most:]
                assert all(b - a >= period for a, b in zip(starts, later, strict=False))
