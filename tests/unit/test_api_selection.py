"""What lists and bulk routes have in common: cursors, steps, and hints that are not SQL's."""

from __future__ import annotations

import pytest

from pybatchq.api.errors import ApiError, as_api_error
from pybatchq.api.models import MOST_ID
from pybatchq.api.selection import AFTER, BEFORE, bulk, cursor, cursor_id
from pybatchq.errors import QueueNotFoundError


@pytest.mark.parametrize("job_id", [0, 1, 10**12, MOST_ID])
def test_a_cursor_holds_its_id_and_its_direction(job_id: int) -> None:
    text = cursor(BEFORE, job_id)
    assert text is not None
    assert cursor_id(BEFORE, text) == job_id
    with pytest.raises(ApiError, match="invalid cursor"):
        cursor_id(AFTER, text)


def test_no_cursor_is_no_id() -> None:
    assert cursor(AFTER, None) is None
    assert cursor_id(AFTER, None) is None


@pytest.mark.parametrize(
    "text", ["", "x", "é", "YmVmb3JlOg", "YmVmb3JlOi0x", "YmVmb3JlOjk5OTk5OTk5OTk5OTk5OTk5OTk"]
)
def test_f091_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(ApiError, match="invalid cursor") as refused:
        cursor_id(BEFORE, text)
    assert refused.value.status == 400


@pytest.mark.parametrize(
    ("is_dry", "steps", "expected"),
    [
        (False, [(0, 5), (0, 9), (3, 12), (9, None)], (3, 12)),  # until something is done
        (True, [(0, 5), (2, 9), (3, None)], (5, None)),  # until all are counted
        (True, [(6, 5), (4, 9), (3, None)], (10, 9)),  # or enough are
        (False, [(0, None)], (0, None)),
    ],
)
async def test_a_bulk_call_goes_on_where_nothing_matched(
    is_dry: bool, steps: list[tuple[int, int | None]], expected: tuple[int, int | None]
) -> None:
    asked: list[tuple[int, int | None]] = []

    async def step(n: int, after_id: int | None) -> tuple[int, int | None]:
        asked.append((n, after_id))
        return steps[len(asked) - 1]

    assert await bulk(step, limit=10, after_id=1, is_dry=is_dry) == expected
    assert asked[0] == (10, 1)
    assert [after for _, after in asked[1:]] == [last for _, last in steps[: len(asked) - 1]]


def test_a_hint_about_queues_names_the_route_and_no_function() -> None:
    hint = "check the name; select queue from batchq.list_queues() lists the queues"
    error = as_api_error(QueueNotFoundError("no queue 'x'", hint=hint))
    assert error is not None
    assert error.body.hint == "check the name; GET /queues lists the queues"
