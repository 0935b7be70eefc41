"""A job's whole life, call by call, against the model of tests/property/model.py.

Limits and groups too: caps, rates, groups of one and of three, turns, sizes, all of them changed
while jobs wait and run.

For one session: A-07, A-13, A-17, A-18, A-20, A-21, A-22, A-23, A-41, A-42, A-46, A-52, A-56,
A-84, B-24, B-26, B-27, B-28, B-29, B-34, B-36 and the cases F001, F002, F003, F009, F010, F012,
F014, F016, F017, F018, F024, F025, F067, F070.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import TypeVar

import psycopg
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule, run_state_machine_as_test

from tests.property.machine import CLOCK, Beside
from tests.property.model import TASKS, Pair, RefusedError, Spec
from tests.property.records import Policy
from tests.property.specs import (
    NO_JITTER,
    QUEUES,
    arguments,
    cleared,
    delays,
    few_picks,
    group_settings,
    groups,
    instant,
    json_object,
    lease_fors,
    limits,
    micros,
    options_of_a_key,
    picks,
    policies,
    queues,
    seconds,
    span,
    spans,
    specs,
)
from tests.support.profiles import LONG, profile

Rule = TypeVar("Rule", bound=Callable[..., None])


def when_any(*states: str) -> Callable[[Rule], Rule]:
    """The rule is for machines with a job in one of these states: else it would say little."""
    decorate: Callable[[Rule], Rule] = precondition(lambda self: self.model.in_state(*states))
    return decorate


class Life(Beside):
    # producer

    @initialize(
        many=st.lists(specs, min_size=4, max_size=9),
        limited=st.dictionaries(queues, limits, max_size=2),
    )
    def begin(self, many: list[Spec], limited: dict[str, Spec]) -> None:
        for queue, values in limited.items():
            self.set_limits(queue, values, [])
        for spec in many:
            self.enqueue(spec)

    @rule(spec=specs)
    def enqueue_one(self, spec: Spec) -> None:
        self.enqueue(spec)

    def enqueue(self, spec: Spec) -> None:
        fresh = self.last_place() + 1
        self.same("enqueue", lambda: self.model.enqueue(spec, fresh), kind="k", **arguments(spec))

    @precondition(lambda self: self.model.holds)
    @rule(pick=picks, at_the_end=st.sampled_from([None, 0, 1]), spec=specs, key=options_of_a_key)
    def enqueue_a_held_key(self, pick: int, at_the_end: int | None, spec: Spec, key: Spec) -> None:
        """Again with the key of a job, mostly one that runs; at the end of its window, or a
        microsecond before."""
        by_state = sorted(
            self.model.holds.items(),
            key=lambda item: self.model.jobs[item[1].job_id].state != "leased",
        )
        (queue, dedupe_key), hold = by_state[pick % len(by_state) if pick >= 30 else 0]
        if at_the_end is not None and hold.until is not None:
            self.set_clock(hold.until - at_the_end)
        of_a_key = {"dedupe_scope", "dedupe_for", "on_duplicate"}
        others = {name: value for name, value in spec.items() if name not in of_a_key}
        self.enqueue({**others, "queue": queue, "dedupe_key": dedupe_key, **key})

    @rule(many=st.lists(specs, max_size=5))
    def enqueue_many(self, many: list[Spec]) -> None:
        first = self.last_place() + 1
        fresh = list(range(first, first + len(many)))
        given = json.dumps([json_object(spec) for spec in many])
        try:
            holders = self.model.enqueue_many(many, fresh)
        except RefusedError as refused:
            with pytest.raises(RefusedError, match=refused.code):
                self.call("enqueue_many", jobs=given)
            return
        rows = self.call("enqueue_many", jobs=given)
        assert rows == [
            (place + 1, holder, holder == fresh[place]) for place, holder in enumerate(holders)
        ]

    @rule(spec=specs, bad=st.sampled_from([{"priority": 32768}, {"kind": ""}, {"other": 1}]))
    def enqueue_many_refused(self, spec: Spec, bad: Spec) -> None:
        jobs = [json_object(spec), {**json_object(spec), **bad}]
        with pytest.raises(RefusedError, match="JQ001"):
            self.call("enqueue_many", jobs=json.dumps(jobs))

    @when_any("ready", "scheduled", "blocked", "leased", "failed")
    @rule(pick=picks, reason=st.sampled_from([None, "r"]))
    def cancel(self, pick: int, reason: str | None) -> None:
        job_id = self.job_id(pick, "ready", "scheduled", "blocked", "leased")
        self.same("cancel", lambda: self.model.cancel(job_id, reason), job_id=job_id, reason=reason)

    @when_any("ready", "scheduled", "blocked", "leased")
    @rule(
        chosen=st.one_of(st.none(), few_picks),
        queue=st.one_of(st.none(), queues),
        state=st.sampled_from(
            [None, None, "ready", "scheduled", "blocked", "leased", "pending", "running"]
        ),
        n=st.integers(1, 5),
        dry_run=st.booleans(),
    )
    def cancel_many(
        self,
        chosen: list[int] | None,
        queue: str | None,
        state: str | None,
        n: int,
        dry_run: bool,
    ) -> None:
        ids = None
        if chosen is not None:
            ids = [self.job_id(pick, "ready", "scheduled", "blocked", "leased") for pick in chosen]
        given = {"job_ids": ids, "queue": queue, "state": state, "n": n, "dry_run": dry_run}
        try:
            expected = self.model.cancel_many(ids, queue, state, n, dry_run)
        except RefusedError as refused:
            with pytest.raises(RefusedError, match=refused.code):
                self.call("cancel_many", **given)
        else:
            assert self.call("cancel_many", reason="r", **given) == [expected]

    # worker

    @when_any("ready", "scheduled", "blocked")
    @rule(queue=queues, n=st.integers(1, 5), lease_for=lease_fors, worker=st.sampled_from("vw"))
    def lease(self, queue: str, n: int, lease_for: int | None, worker: str) -> None:
        expected = self.model.lease(queue, n, lease_for, worker)
        rows = self.call("lease", queue=queue, n=n, lease_for=span(lease_for), worker=worker)
        self.check_leased(rows, expected)

    @when_any("ready", "scheduled", "blocked")
    @rule(names=st.permutations(QUEUES), n=st.integers(1, 6), lease_for=lease_fors)
    def lease_from_rule(self, names: list[str], n: int, lease_for: int | None) -> None:
        self.lease_from(names, n, lease_for)

    def lease_from(self, names: list[str], n: int, lease_for: int | None) -> None:
        expected = self.lease_model(names, n, lease_for)
        rows = self.call("lease_from", queues=names, n=n, worker="w", lease_for=span(lease_for))
        self.check_leased(rows, expected)

    @rule(
        names=st.lists(queues, min_size=1, max_size=3, unique=True),
        n=st.integers(0, 4),
        completed=few_picks,
        failed=few_picks,
        released=few_picks,
        delay=delays,
    )
    def settle_and_lease(  # noqa: PLR0917
        self,
        names: list[str],
        n: int,
        completed: list[int],
        failed: list[int],
        released: list[int],
        delay: int | None,
    ) -> None:
        done, done_ids, done_leases = self.pairs(completed)
        bad, bad_ids, bad_leases = self.pairs(failed)
        back, back_ids, back_leases = self.pairs(released)
        lost = self.unsettled(done, *[lambda pair: self.model.complete(pair, None)] * len(done))
        lost_too = self.unsettled(
            bad, *[lambda pair: self.model.fail(pair, "e", False, None)] * len(bad)
        )
        lost_last = self.unsettled(back, *[lambda pair: self.model.snooze(pair, delay)] * len(back))
        expected = self.lease_model(names, n, None)
        rows = self.call(
            "settle_and_lease",
            queues=names,
            n=n,
            worker="w",
            completed_ids=done_ids,
            completed_leases=done_leases,
            failed_ids=bad_ids,
            failed_leases=bad_leases,
            errors=["e"] * len(bad),
            released_ids=back_ids,
            released_leases=back_leases,
            delays=spans([delay] * len(back)),
        )
        self.check_leased([row[1:] for row in rows if row[0] == "leased"], expected)
        lost_rows = [row for row in rows if row[0] not in ("leased", "sleep")]
        events = sorted((row[1], row[2], row[0]) for row in lost_rows)
        assert events == sorted([*lost, *lost_too, *lost_last])
        sleeps = [row for row in rows if row[0] == "sleep"]
        assert len(sleeps) == (n > 0 and not expected)
        if sleeps:
            self.check_wait(sleeps[0][10], names)

    @when_any("leased")
    @rule(pick=picks, result=st.one_of(st.none(), st.integers(0, 9)))
    def complete(self, pick: int, result: int | None) -> None:
        pair = self.pair(pick)
        self.same(
            "complete",
            lambda: self.model.complete(pair, result),
            job_id=pair[0],
            lease_id=pair[1],
            result=None if result is None else json.dumps(result),
        )

    @when_any("leased")
    @rule(chosen=few_picks, twice=st.booleans())
    def complete_many(self, chosen: list[int], twice: bool) -> None:
        pairs, jobs, leases = self.pairs(chosen)
        lost = self.unsettled(pairs, *[lambda pair: self.model.complete(pair, None)] * len(pairs))
        times = 2 if twice else 1
        rows = self.call("complete_many", job_ids=jobs * times, lease_ids=leases * times)
        assert sorted(rows) == sorted([*lost] * times)

    @when_any("leased")
    @rule(pick=picks, error=st.sampled_from("ef"), permanent=st.booleans(), retry_in=delays)
    def fail(self, pick: int, error: str, permanent: bool, retry_in: int | None) -> None:
        self.fail_pair(self.pair(pick), error, permanent, retry_in)

    def fail_pair(self, pair: Pair, error: str, permanent: bool, retry_in: int | None) -> None:
        self.same(
            "fail",
            lambda: self.model.fail(pair, error, permanent, retry_in),
            job_id=pair[0],
            lease_id=pair[1],
            error=error,
            permanent=permanent,
            retry_in=span(retry_in),
        )

    @when_any("leased")
    @rule(chosen=few_picks, choices=st.lists(st.tuples(st.booleans(), delays), min_size=4))
    def fail_many_rule(self, chosen: list[int], choices: list[tuple[bool, int | None]]) -> None:
        self.fail_many(chosen, choices)

    def fail_many(self, chosen: list[int], choices: list[tuple[bool, int | None]]) -> None:
        pairs, jobs, leases = self.pairs(chosen)
        choices = choices[: len(pairs)]
        texts = [f"e{place}" for place in range(len(pairs))]
        lost = set()
        for pair, error, (permanent, retry_in) in zip(pairs, texts, choices, strict=True):
            try:
                self.model.fail(pair, error, permanent, retry_in)
            except RefusedError:
                lost.add((*pair, "lost"))
        rows = self.call(
            "fail_many",
            job_ids=jobs,
            lease_ids=leases,
            errors=texts,
            permanents=[permanent for permanent, _ in choices],
            retry_ins=spans([retry_in for _, retry_in in choices]),
        )
        assert sorted(rows) == sorted(lost)

    @when_any("leased")
    @rule(pick=picks)
    def release(self, pick: int) -> None:
        pair = self.pair(pick)
        self.same(
            "release", lambda: self.model.snooze(pair, None), job_id=pair[0], lease_id=pair[1]
        )

    @when_any("leased")
    @rule(pick=picks, delay=delays)
    def snooze(self, pick: int, delay: int | None) -> None:
        pair = self.pair(pick)
        self.same(
            "snooze",
            lambda: self.model.snooze(pair, delay),
            job_id=pair[0],
            lease_id=pair[1],
            delay=span(delay),
        )

    @when_any("leased")
    @rule(chosen=few_picks, delay=delays)
    def snooze_many(self, chosen: list[int], delay: int | None) -> None:
        pairs, jobs, leases = self.pairs(chosen)
        lost = self.unsettled(pairs, *[lambda pair: self.model.snooze(pair, delay)] * len(pairs))
        if delay is None:
            rows = self.call("release_many", job_ids=jobs, lease_ids=leases)
        else:
            waits = spans([delay] * len(pairs))
            rows = self.call("snooze_many", job_ids=jobs, lease_ids=leases, delays=waits)
        assert sorted(rows) == sorted(lost)

    @when_any("leased")
    @rule(chosen=few_picks, lease_for=lease_fors)
    def extend_rule(self, chosen: list[int], lease_for: int | None) -> None:
        self.extend(chosen, lease_for)

    def extend(self, chosen: list[int], lease_for: int | None) -> None:
        pairs, jobs, leases = self.pairs(chosen)
        expected = [(*pair, *self.model.extend(pair, lease_for)) for pair in pairs]
        rows = self.call("extend", job_ids=jobs, lease_ids=leases, lease_for=span(lease_for))
        shown = [(job, lease, at and micros(at), state) for job, lease, at, state in rows]
        assert sorted(shown, key=str) == sorted(expected, key=str)

    @when_any("leased")
    @rule(pick=picks, done=st.integers(0, 9))
    def progress(self, pick: int, done: int) -> None:
        pair = self.pair(pick)
        self.same(
            "progress",
            lambda: self.model.progress(pair, done),
            job_id=pair[0],
            lease_id=pair[1],
            progress=json.dumps(done),
        )

    @when_any("leased")
    @rule(chosen=few_picks)
    def progress_many(self, chosen: list[int]) -> None:
        pairs, jobs, leases = self.pairs(chosen)
        values = list(range(len(pairs)))
        settle = [lambda pair, v=v: self.model.progress(pair, v) for v in values]
        lost = self.unsettled(pairs, *settle)
        rows = self.call(
            "progress_many",
            job_ids=jobs,
            lease_ids=leases,
            progress=[json.dumps(v) for v in values],
        )
        assert sorted(rows) == sorted(lost)

    @when_any("leased")
    @rule(pick=picks)
    def assert_lease(self, pick: int) -> None:
        pair = self.pair(pick)
        job = self.model.leased(pair)
        if job is None:
            with pytest.raises(RefusedError, match="JQ004"):
                self.call("assert_lease", job_id=pair[0], lease_id=pair[1])
        else:
            until = self.value("assert_lease", job_id=pair[0], lease_id=pair[1])
            assert micros(until) == job.lease_until

    # operator

    @rule(
        queue=queues,
        reset=st.booleans(),
        limits=st.fixed_dictionaries(
            {},
            optional={
                "max_attempts": st.integers(1, 3),
                "timeout": seconds(5, 90),
                "lease_for": seconds(0.5, 5, 600),
            },
        ),
        policy=policies,
    )
    def set_queue(self, queue: str, reset: bool, limits: Spec, policy: Spec) -> None:
        values = {**limits, **policy, **NO_JITTER}
        self.model.set_queue(queue, reset, values)
        self.call("set_queue", queue=queue, reset=reset, **arguments(values))

    @rule(queue=queues, values=limits, clear=cleared)
    def set_limits(self, queue: str, values: Spec, clear: list[str]) -> None:
        clear = [name for name in clear if name not in values]
        self.model.set_queue(queue, reset=False, values=values, clear=clear)
        self.call("set_queue", queue=queue, clear=clear or None, **arguments(values))

    @rule(queue=queues, key=groups, values=group_settings, reset=st.booleans())
    def set_group(self, queue: str, key: str, values: Spec, reset: bool) -> None:
        self.model.set_group(queue, key, values, reset)
        self.call("set_group", queue=queue, group_key=key, reset=reset, **values)

    @rule(queue=queues)
    def pause(self, queue: str) -> None:
        self.model.pause(queue, paused=True)
        self.call("pause", queue=queue, reason="r")

    @rule(queue=queues)
    def resume(self, queue: str) -> None:
        if queue in self.model.queues:
            self.model.pause(queue, paused=False)
            self.call("resume", queue=queue)
        elif queue not in self.model.used:
            with pytest.raises(RefusedError, match="JQ002"):
                self.call("resume", queue=queue)

    @when_any("ready", "scheduled", "blocked")
    @rule(
        pick=picks,
        priority=st.sampled_from([None, -1, 0, 0, 3]),
        wait=seconds(-60, 0, 1, 30),
        states=st.sampled_from([("ready", "scheduled", "blocked"), ("blocked",), ("ready",)]),
        is_timed=st.booleans(),
    )
    def set_job(
        self, pick: int, priority: int | None, wait: int, states: tuple[str, ...], is_timed: bool
    ) -> None:
        job_id = self.job_id(pick, *states)
        run_at = self.model.now + wait if is_timed else None
        self.same(
            "set_job",
            lambda: self.model.set_job(job_id, priority, run_at),
            job_id=job_id,
            priority=priority,
            run_at=None if run_at is None else instant(run_at),
        )

    @when_any("failed")
    @rule(
        chosen=st.one_of(st.none(), few_picks),
        queue=st.one_of(st.none(), queues),
        n=st.integers(1, 5),
        per_second=st.sampled_from([None, None, 2, 0.25]),
    )
    def redrive_rule(
        self, chosen: list[int] | None, queue: str | None, n: int, per_second: float | None
    ) -> None:
        self.redrive(chosen, queue, n, per_second)

    def redrive(
        self, chosen: list[int] | None, queue: str | None, n: int, per_second: float | None
    ) -> None:
        ids = None if chosen is None else [self.job_id(pick, "failed") for pick in chosen]
        self.same(
            "redrive",
            lambda: self.model.redrive(ids, queue, n, per_second),
            job_ids=ids,
            queue=queue,
            n=n,
            per_second=per_second,
        )

    @when_any("failed", "completed", "cancelled")
    @rule(
        status=st.sampled_from(["failed", "completed", "cancelled"]),
        chosen=st.one_of(st.none(), few_picks),
        queue=st.one_of(st.none(), queues),
        n=st.integers(1, 3),
    )
    def purge(self, status: str, chosen: list[int] | None, queue: str | None, n: int) -> None:
        ids = None if chosen is None else [self.job_id(pick, status) for pick in chosen]
        self.same(
            "purge",
            lambda: self.model.purge(status, ids, queue, n),
            status=status,
            job_ids=ids,
            queue=queue,
            n=n,
        )

    @when_any("leased")
    @rule()
    def reap_rule(self) -> None:
        self.reap()

    def reap(self) -> None:
        self.same("reap", self.model.reap)

    @rule()
    def maintain(self) -> None:
        rows, expected = self.call("maintain"), self.model.maintain()
        assert [row[0] for row in rows] == [row[0] for row in expected]
        modelled = [
            (row, other) for row, other in zip(rows, expected, strict=True) if row[0] in TASKS
        ]
        assert [row for row, _ in modelled] == [other for _, other in modelled]

    # monitor

    @rule(names=st.lists(queues, min_size=1, max_size=3))
    def look(self, names: list[str]) -> None:
        self.check_wait(self.value("next_due", queues=names), names)
        rows = self.call("stats")
        assert {row[0] for row in rows} >= {job.queue for job in self.model.in_state("ready")}
        for row in rows:
            queue, paused_at, _, *counts, is_exact, oldest, next_run, blocked = row
            model = self.model
            assert (paused_at is not None, is_exact) == (model.queue(queue).paused, True)
            states = ("ready", "scheduled", "leased", "failed", "blocked")
            assert [*counts, blocked] == [
                len(model.in_state(state, queue=queue)) for state in states
            ]
            ready = {job.place: job.shown_run_at() for job in model.in_state("ready", queue=queue)}
            assert (oldest is None) == (not ready)
            dues = [job.due or 0 for job in model.in_state("scheduled", queue=queue)]
            assert (next_run and micros(next_run)) == min(dues, default=None)

    # the world

    @rule(step=seconds(0.25, 1, 5, 30, 100, 4000))
    def advance(self, step: int) -> None:
        self.set_clock(self.model.now + step)

    @when_any("scheduled")
    @rule(early=st.sampled_from([0, 1]), names=st.permutations(QUEUES), n=st.integers(1, 6))
    def advance_to_the_first_due_job(self, early: int, names: list[str], n: int) -> None:
        """A job is due at its very microsecond, and not before."""
        dues = [job.due for job in self.model.in_state("scheduled") if job.due is not None]
        self.set_clock(min(dues) - early)
        self.lease_from(names, n, None)

    @when_any("leased")
    @rule(early=st.sampled_from([0, 1]), extended=few_picks, late=picks)
    def advance_to_the_last_leases_end(self, early: int, extended: list[int], late: int) -> None:
        """A lease has run out at its very microsecond, and not before; then it is lost."""
        untils = [job.lease_until for job in self.model.in_state("leased") if job.lease_until]
        pair = self.pair(late)
        self.set_clock(max(untils) - early)
        self.extend(extended, None)
        self.reap()
        self.fail_pair(pair, "late", permanent=False, retry_in=None)

    @when_any("ready", "scheduled", "blocked")
    @rule(names=st.permutations(QUEUES))
    def bury_what_is_ready_rule(self, names: list[str]) -> None:
        self.bury_what_is_ready(names)

    def bury_what_is_ready(self, names: list[str]) -> None:
        """Dead letters pile up, among them several of one dedupe key."""
        self.lease_from(names, 10, None)
        live = range(len(self.model.live_leases()))
        self.fail_many([*live][:30], [(True, None)] * 30)

    @rule(queue=queues, policy=policies, jitter=st.booleans(), times=st.integers(1, 3))
    def fail_again_and_again(self, queue: str, policy: Spec, jitter: bool, times: int) -> None:
        """The backoff of later attempts."""
        exact = {} if jitter else NO_JITTER
        self.enqueue({"queue": queue, "max_attempts": 4, **policy, **exact})
        for _ in range(times):
            self.lease_from([queue], 10, None)
            live = range(len(self.model.live_leases()))
            self.fail_many([*live][:30], [(False, None)] * 30)
            self.all_is_as_the_model_says()
            scheduled = self.model.in_state("scheduled", queue=queue)
            self.set_clock(max((job.due or 0 for job in scheduled), default=0))

    @rule(queue=queues, per_second=st.sampled_from([None, 2]))
    def redrive_two_of_one_key(self, queue: str, per_second: float | None) -> None:
        """The first of them has the key again."""
        for _ in range(2):
            self.enqueue({"queue": queue, "dedupe_key": "k"})
            self.bury_what_is_ready([queue])
        self.redrive(None, queue, 5, per_second)

    @when_any("ready", "scheduled", "blocked", "leased")
    @rule(places=st.sampled_from([600, 5000]))
    def other_traffic(self, places: int) -> None:
        """Places go to other queues, so that floors have somewhere to move."""
        self.conn.execute("select setval('batchq.position', %s)", [self.last_place() + places])

    @when_any("ready", "scheduled", "blocked", "leased")
    @rule()
    def force_sweeps(self) -> None:
        self.conn.execute(
            "update batchq.floor set sweep_after = '-infinity', deep_after = '-infinity'"
        )


@pytest.fixture
def life(db: str) -> Iterator[type[Life]]:
    with psycopg.connect(db, autocommit=True, prepare_threshold=0) as conn:
        conn.execute("set timezone to 'UTC'")
        conn.execute("set plan_cache_mode to force_generic_plan")
        conn.execute(CLOCK)

        class ConnectedLife(Life):
            pass

        ConnectedLife.conn = conn
        yield ConnectedLife


@pytest.mark.timeout(0 if LONG else 240)
def test_a_jobs_life_is_the_models(life: type[Life]) -> None:
    run_state_machine_as_test(life, settings=profile(short=60, long=3000, steps=50))


def test_policy_has_the_backoff_settings_of_a_spec() -> None:
    assert {f.name for f in fields(Policy)} == {
        "backoff",
        "backoff_base",
        "backoff_factor",
        "backoff_cap",
        "backoff_jitter",
    }
