"""The queues of a worker: in which order they are asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import pytest

from pybatchq.exchange import Queues


def test_a46_names_alone_are_always_asked_in_their_order() -> None:
    queues = Queues(["high", "low", "idle"])
    assert {tuple(queues.order()) for _ in range(100)} == {("high", "low", "idle")}


def test_by_weight_each_queue_comes_first_as_often_as_its_weight_says() -> None:
    weights = {"a": 6.0, "b": 3.0, "c": 1.0}
    queues = Queues(weights)
    draws = 20_000
    orders = [queues.order() for _ in range(draws)]
    assert all(sorted(order) == ["a", "b", "c"] for order in orders)  # none is left out
    first = Counter(order[0] for order in orders)
    for name, weight in weights.items():
        assert first[name] / draws == pytest.approx(weight / 10, abs=0.02)
    # and so on among those that are left
    second = Counter(order[1] for order in orders if order[0] == "a")
    assert second["b"] / second.total() == pytest.approx(3 / 4, abs=0.02)


@pytest.mark.parametrize("weights", [{"a": 1e-9, "b": 999_999.0}, {"a": 1e-300, "b": 1e-300}])
def test_extreme_weights_spoil_no_order(weights: Mapping[str, float]) -> None:
    queues = Queues(weights)
    assert all(sorted(queues.order()) == ["a", "b"] for _ in range(100))


def test_one_queue_with_a_weight_is_one_queue() -> None:
    assert Queues({"a": 7}).order() == ["a"]


def test_names_are_the_queues_whether_they_have_weights_or_not() -> None:
    assert Queues(("a", "b")).names == Queues({"a": 1, "b": 2}).names == ["a", "b"]


@pytest.mark.parametrize(
    "queues",
    ["default", "", [], {}, {"a": 0}, {"a": -1}, {"a": 1, "b": float("nan")}, {"a": 1e6}],
    ids=repr,
)
def test_f065_queues_that_make_no_sense_are_refused(
    queues: Sequence[str] | Mapping[str, float],
) -> None:
    with pytest.raises(ValueError, match="queues"):
        Queues(queues)
