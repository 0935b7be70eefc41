"""Handlers: which function runs a kind of job, and what it is told about the job.

    @handler("send_email")
    async def send_email(payload): ...

    @handler("resize")
    def resize(payload, job): ...      # a plain function runs in a thread

The value a handler returns is the job's result. What it raises ends the attempt: PermanentError for
good, RetryIn and Snooze with a time of its own, anything else with the job's backoff.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pybatchq import jsontext
from pybatchq.types import JobId, LeaseId, WorkItem

F = TypeVar("F", bound=Callable[..., Any])


class Job:
    """What a handler is told about its job. Safe to read from a thread.

    `cancelled` becomes true when the job was asked to stop, its time is over, its lease is lost
    or the worker shuts down; a coroutine is cancelled as well, a thread has to look.
    """

    __slots__ = ("_item", "_save", "cancelled")

    def __init__(self, item: WorkItem, save: Callable[[Job, Any], Awaitable[None]]) -> None:
        self._item = item
        self._save = save
        self.cancelled = False

    @property
    def id(self) -> JobId:
        return self._item.job_id

    @property
    def lease_id(self) -> LeaseId:
        return self._item.lease_id

    @property
    def queue(self) -> str:
        return self._item.queue

    @property
    def kind(self) -> str:
        return self._item.kind

    @property
    def attempt(self) -> int:
        """1 for the first. More than one attempt may have done its work: be idempotent."""
        return self._item.attempt

    @property
    def max_attempts(self) -> int:
        return self._item.max_attempts

    @property
    def headers(self) -> dict[str, Any]:
        headers = self._item.headers
        return {} if headers is None else dict(jsontext.decode(headers))

    async def progress(self, value: Any) -> None:
        """Save how far the job has come: any JSON value. LeaseLostError if the lease is lost."""
        await self._save(self, value)


@dataclass(frozen=True, slots=True)
class Handler:
    kind: str
    function: Callable[..., Any]
    is_async: bool
    wants_job: bool


@dataclass(slots=True)
class Registry:
    """Handlers by kind. One registry is the module's own; a Worker can be given another."""

    by_kind: dict[str, Handler] = field(default_factory=dict)

    def handler(self, kind: str) -> Callable[[F], F]:
        """Register a function of `(payload)` or `(payload, job)` for a kind of job."""
        if not 1 <= len(kind) <= 255:
            raise ValueError(f"kind {kind[:40]!r} must have 1 to 255 characters")

        def register(function: F) -> F:
            if kind in self.by_kind:
                other = _name(self.by_kind[kind].function)
                raise ValueError(f"kind {kind!r} already has the handler {other}")
            self.by_kind[kind] = Handler(kind, function, _is_async(function), _wants_job(function))
            return function

        return register


handlers = Registry()
handler = handlers.handler


def load(modules: Iterable[str]) -> None:
    """Import the modules that register handlers. ImportError as it comes."""
    for module in modules:
        importlib.import_module(module)


def _name(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__qualname__", repr(function)))


def _is_async(function: Callable[..., Any]) -> bool:
    """TypeError for a generator: calling it would run nothing."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"{_name(function)} is a generator; a handler returns its result")
    call = getattr(function, "__call__", None)  # noqa: B004  # of an object that can be called
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def _wants_job(function: Callable[..., Any]) -> bool:
    parameters = inspect.signature(function).parameters.values()
    positional = [p for p in parameters if p.kind in {p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD}]
    needed = [p for p in positional if p.default is p.empty]
    named = [p for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    if not positional or len(needed) > 2 or named:
        raise TypeError(f"{_name(function)} must take (payload) or (payload, job)")
    return len(needed) == 2
