"""Handlers: which functions can be one, and what they are told."""

from __future__ import annotations

import functools
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pybatchq import handlers
from pybatchq.errors import Cancelled, InvalidArgumentError, RetryIn, Snooze
from pybatchq.handlers import Registry
from pybatchq.job import Job
from pybatchq.types import JobId, LeaseId, WorkItem


class Callee:
    async def __call__(self, payload: Any) -> None: ...


def nothing() -> None: ...
def three(a: Any, b: Any, c: Any) -> None: ...
def only_named(*, payload: Any) -> None: ...
def more_named(payload: Any, *, extra: Any) -> None: ...
def packed(*arguments: Any) -> None: ...
def generator(payload: Any) -> Iterator[int]:
    yield 1


async def async_generator(payload: Any) -> AsyncIterator[int]:
    yield 1


REFUSED = [nothing, three, only_named, more_named, packed, generator, async_generator]


@pytest.mark.parametrize("function", REFUSED, ids=lambda function: function.__name__)
def test_a_function_that_can_be_no_handler_is_refused_when_it_is_registered(
    function: Callable[..., Any],
) -> None:
    registry = Registry()
    with pytest.raises(TypeError, match=function.__name__):
        registry.handler("kind")(function)
    assert registry.by_kind == {}


async def plain(payload: Any) -> None: ...
async def with_job(payload: Any, job: Job) -> None: ...
def in_thread(payload: Any) -> None: ...
def optional(payload: Any, limit: int = 3) -> None: ...
def named(payload: Any, *, limit: int = 3) -> None: ...
def two_and_more(payload: Any, job: Job, limit: int = 3) -> None: ...


@pytest.mark.parametrize(
    ("function", "is_async", "wants_job"),
    [
        (plain, True, False),
        (with_job, True, True),
        (in_thread, False, False),
        (optional, False, False),
        (named, False, False),
        (two_and_more, False, True),
        (lambda _payload: None, False, False),
        (functools.partial(two_and_more, limit=1), False, True),
        (functools.partial(with_job), True, True),
        (Callee(), True, False),
    ],
)
def test_what_a_function_is_and_wants_is_read_from_its_signature(
    function: Callable[..., Any], is_async: bool, wants_job: bool
) -> None:
    registry = Registry()
    assert registry.handler("kind")(function) is function
    handler = registry.by_kind["kind"]
    assert (handler.function, handler.is_async, handler.wants_job) == (
        function,
        is_async,
        wants_job,
    )


def test_a_kind_has_one_handler() -> None:
    registry = Registry()
    registry.handler("kind")(plain)
    with pytest.raises(ValueError, match="'kind' already has the handler plain"):
        registry.handler("kind")(with_job)
    assert registry.by_kind["kind"].function is plain


def test_a_kind_can_be_taken_twice_from_a_callable_without_a_name() -> None:
    registry = Registry()
    registry.handler("kind")(functools.partial(plain))
    with pytest.raises(ValueError, match="'kind' already has"):
        registry.handler("kind")(with_job)


@pytest.mark.parametrize("kind", ["", "x" * 256])
def test_d6_a_kind_has_1_to_255_characters(kind: str) -> None:
    with pytest.raises(ValueError, match="1 to 255"):
        Registry().handler(kind)
    Registry().handler("x" * 255)(plain)


def test_registries_do_not_share_their_handlers() -> None:
    one, other = Registry(), Registry()
    one.handler("kind")(plain)
    assert "kind" not in other.by_kind


def test_a_job_tells_what_it_is() -> None:
    item = WorkItem(
        event="leased", job_id=JobId(7), lease_id=LeaseId(8), lease_s=1.0, queue="q", kind="k",
        payload=b"{}", attempt=2, max_attempts=5, timeout_s=None, headers=b'{"trace": "x"}',
    )  # fmt: skip
    saved: list[tuple[WorkItem, str]] = []
    job = Job(item, 1 << 100, lambda item, text: saved.append((item, text)))
    assert (job.id, job.lease_id, job.queue, job.kind) == (7, 8, "q", "k")
    assert (job.attempt, job.max_attempts, job.headers) == (2, 5, {"trace": "x"})
    assert job.cancelled is False
    job.progress({"done": 1})
    assert saved == [(item, '{"done":1}')]
    assert job.uuid.int == (1 << 100) + 7
    assert job.deadline is None
    job.check()
    job.cancelled = True
    with pytest.raises(Cancelled):
        job.check()
    with pytest.raises(Snooze):
        job.snooze(3)
    with pytest.raises(InvalidArgumentError, match="64 KiB"):
        job.progress("x" * 70_000)


def test_modules_are_loaded_and_one_that_is_not_there_is_an_import_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "import pybatchq\n@pybatchq.handler('of a module')\ndef run(payload): ...\n"
    (tmp_path / "some_handlers.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(handlers.handlers, "by_kind", {})
    handlers.load(["some_handlers"])
    assert list(handlers.handlers.by_kind) == ["of a module"]
    del sys.modules["some_handlers"]
    with pytest.raises(ImportError):
        handlers.load(["no_such_handlers"])


def nested() -> Any:
    def inside(payload: Any) -> None: ...

    return inside


async def hook(job: Job) -> None: ...


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"backoff": 3}, "backoff of 'k' is no function"),
        ({"before": hook}, "before of 'k' must be a plain function"),
        ({"after": hook}, "after of 'k' must be a plain function"),
        ({"permanent": [1]}, "classes of exceptions"),
        ({"retry": "OSError"}, "classes of exceptions"),
    ],
)
def test_options_that_cannot_work_are_refused_at_once(options: dict[str, Any], says: str) -> None:
    with pytest.raises(TypeError, match=says):
        Registry().handler("k", **options)(plain)


def test_one_class_of_exceptions_needs_no_list() -> None:
    registry = Registry()
    registry.handler("k", permanent=ValueError)(plain)
    assert registry.by_kind["k"].policy.is_permanent(ValueError())


def test_a_process_cannot_import_what_stands_inside_a_function() -> None:
    with pytest.raises(TypeError, match="inside a function"):
        Registry().handler("k", runs_in="process")(nested())


@pytest.mark.parametrize("request_", [Snooze, RetryIn])
def test_a_wait_is_a_number(request_: Any) -> None:
    with pytest.raises(TypeError, match="takes a number of seconds, not str"):
        request_("5s")


def test_f067_a_job_cannot_be_snoozed_into_the_past() -> None:
    with pytest.raises(ValueError, match="give 0 or more"):
        Snooze(-1)
