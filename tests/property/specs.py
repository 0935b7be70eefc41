"""What the rules of test_machine.py draw, and how it is written for PostgreSQL."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from tests.property.model import Spec
from tests.property.records import LIMITS, SECOND

EPOCH = datetime(2030, 1, 1, tzinfo=UTC)
QUEUES = ("a", "b", "default")
INTERVALS = {
    "delay", "timeout", "dedupe_for", "backoff_base", "backoff_cap", "lease_for", "rate_period",
    "group_period",
}  # fmt: skip


def seconds(*values: float) -> st.SearchStrategy[int]:
    return st.sampled_from([round(value * SECOND) for value in values])


queues = st.sampled_from(QUEUES)
groups = st.sampled_from(["g", "g", "h", "G"])
picks = st.integers(0, 40)
few_picks = st.lists(picks, max_size=4)
policies = st.fixed_dictionaries(
    {},
    optional={
        "backoff": st.sampled_from(["exponential", "fixed"]),
        "backoff_base": seconds(0, 1, 10),
        "backoff_factor": st.sampled_from([1, 2, 3]),
        "backoff_cap": seconds(0, 5, 3600),
        "backoff_jitter": st.sampled_from(["none", "full"]),
    },
)
NO_JITTER: Spec = {"backoff_jitter": "none"}
whens: st.SearchStrategy[Spec] = st.one_of(
    st.just({}),
    seconds(-5, 0, 1, 10, 60).map(lambda delay: {"delay": delay}),
    seconds(-60, 0, 1, 10, 600).map(lambda run_at: {"run_at": run_at}),
)
options_of_a_key: st.SearchStrategy[Spec] = st.fixed_dictionaries(
    {},
    optional={
        "dedupe_scope": st.sampled_from(["unfinished", "pending"]),
        "dedupe_for": seconds(0, 5, 90),
        "on_duplicate": st.sampled_from(["return", "replace"]),
    },
)
keys: st.SearchStrategy[Spec] = st.one_of(
    st.just({}),
    st.builds(
        lambda key, options: {"dedupe_key": key, **options},
        st.sampled_from(["k", "k", "K"]),
        options_of_a_key,
    ),
)
rest = st.fixed_dictionaries(
    {},
    optional={
        "queue": queues,
        "priority": st.sampled_from([-3, 0, 5]),
        "payload": st.integers(0, 9),
        "max_attempts": st.integers(1, 3),
        "timeout": seconds(5, 90),
        "group_key": groups,
    },
)
limits: st.SearchStrategy[Spec] = st.fixed_dictionaries(
    {},
    optional={
        "max_running": st.sampled_from([0, 1, 2, 3, 5]),
        "rate": st.sampled_from([0, 1, 2, 4]),
        "rate_period": seconds(1, 5, 40),
        "group_limit": st.sampled_from([1, 1, 3, 0]),
        "group_rate": st.sampled_from([1, 2]),
        "group_period": seconds(1, 5, 40),
        "group_retry": st.sampled_from(["hold", "yield"]),
        "fair": st.booleans(),
        "max_depth": st.sampled_from([2, 4, 8]),
        "on_full": st.sampled_from(["refuse", "delay"]),
    },
)
cleared = st.lists(st.sampled_from(LIMITS), max_size=4, unique=True)
group_settings: st.SearchStrategy[Spec] = st.fixed_dictionaries(
    {}, optional={"group_limit": st.sampled_from([0, 1, 2]), "weight": st.sampled_from([1, 3])}
)
specs: st.SearchStrategy[Spec] = st.builds(
    lambda *parts: {key: value for part in parts for key, value in part.items()},
    rest,
    whens,
    keys,
    st.one_of(st.just(NO_JITTER), policies),
)
lease_fors = st.one_of(st.none(), seconds(0.5, 5, 600))
delays = st.one_of(st.none(), seconds(-5, 0, 1, 30))


def span(micros: int | None) -> timedelta | None:
    return None if micros is None else timedelta(microseconds=micros)


def spans(micros: list[int | None]) -> list[timedelta | None]:
    return [span(value) for value in micros]


def instant(micros: int) -> datetime:
    return EPOCH + timedelta(microseconds=micros)


def micros(at: datetime) -> int:
    return (at - EPOCH) // timedelta(microseconds=1)


def arguments(spec: Spec) -> Spec:
    """A spec as the parameters of a call."""
    given = {key: span(v) if key in INTERVALS else v for key, v in spec.items()}
    if "run_at" in given:
        given["run_at"] = instant(spec["run_at"])
    if "payload" in given:
        given["payload"] = json.dumps(spec["payload"])
    return given


def json_object(spec: Spec) -> Spec:
    """A spec as enqueue_many takes it: spans in seconds, the rest as it is."""
    given = {key: v / SECOND if key in INTERVALS else v for key, v in spec.items()}
    if "run_at" in given:
        given["run_at"] = instant(spec["run_at"]).isoformat()
    return {"kind": "k", **given}
