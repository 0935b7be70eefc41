"""Outcomes on their way into the database: nothing is lost, each can be told apart."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pybatchq.endings import Ending
from pybatchq.outcomes import Outcomes
from pybatchq.types import JobId, LeaseId, WorkItem


def item(**changes: Any) -> WorkItem:
    fields: dict[str, Any] = {
        "event": "leased", "job_id": JobId(7), "lease_id": LeaseId(8), "lease_s": 60.0,
        "queue": "q", "kind": "k", "payload": b"{}", "attempt": 1, "max_attempts": 3,
        "timeout_s": None, "headers": None,
    }  # fmt: skip
    return WorkItem(**{**fields, **changes})


def done(text: str | None = None) -> Ending:
    return Ending("completed", text)


def failure(wait_s: float | None = None) -> Ending:
    return Ending("failed", "e", wait_s=wait_s)


def test_f067_a_wait_in_the_past_means_now_and_a_huge_one_is_the_databases_to_refuse() -> None:
    outcomes = Outcomes()
    outcomes.add(item(), failure(-5))
    outcomes.add(item(), failure(1e300))
    past, huge = (one[4] for one in outcomes.failed)
    assert past == timedelta(0)
    assert huge is not None
    assert huge > timedelta(days=3653)


def test_f013_what_got_no_answer_is_kept_in_front_of_what_came_since() -> None:
    outcomes = Outcomes()
    outcomes.add(item(), done("1"))
    taken = outcomes.take()
    assert len(outcomes) == 0
    outcomes.add(item(job_id=9), done("2"))
    outcomes.put_back(taken)
    assert [one[0] for one in outcomes.completed] == [7, 9]


def test_f047_outcomes_can_be_tried_one_by_one_and_turned_into_failures() -> None:
    outcomes = Outcomes()
    outcomes.add(item(job_id=1), done("1"))
    outcomes.add(item(job_id=2), failure())
    outcomes.release(item(job_id=3), 4)
    singles = outcomes.singly()
    assert [len(single) for single in singles] == [1, 1, 1]
    assert [single.is_failure() for single in singles] == [False, True, False]
    assert not Outcomes(failed=[(1, 8, "e", False, timedelta(1))]).is_failure()
    refused = singles[0].as_failure("refused\0")
    assert refused.failed == [(1, 8, "refused\ufffd", True, None)]
    assert refused.is_failure()
    assert outcomes.only(2, 8).failed == [(2, 8, "e", False, None)]
    assert len(outcomes.only(2, 9)) == 0


def test_arguments_leave_out_what_is_empty() -> None:
    outcomes = Outcomes()
    assert outcomes.arguments() == {}
    outcomes.add(item(), done(None))
    assert outcomes.arguments() == {"completed_ids": (7,), "completed_leases": (8,)}
    outcomes.add(item(), done("1"))
    assert outcomes.arguments()["results"] == [None, "1"]
