"""Handlers: which function runs a kind of job, where, and what its exceptions mean.

    @handler("send_email")
    async def send_email(payload: Email): ...      # in the worker's event loop

    @handler("resize")
    def resize(payload, job): ...                  # a plain function runs in a thread

    @handler("train", runs_in="process", concurrency=2, permanent=[ValueError])
    def train(payload: Model): ...                 # CPU-bound: in a process of its own

The value a handler returns is the job's result. What it raises ends the attempt: PermanentError for
good, RetryIn and Snooze with a time of its own, anything else with the job's backoff.
"""

from __future__ import annotations

import importlib
import inspect
import logging
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, get_args

from pybatchq import payloads
from pybatchq.errors import PermanentError
from pybatchq.job import Job

F = TypeVar("F", bound=Callable[..., Any])

RunsIn = Literal["loop", "thread", "process"]
Errors = Iterable[type[BaseException]] | type[BaseException]
Backoff = Callable[[int, BaseException], float | None]
Before = Callable[[Job], Any]
After = Callable[[Job, BaseException | None], Any]

log = logging.getLogger("pybatchq")


class HandlerError(TypeError):
    """A handler cannot work as it was registered."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What the exceptions of a handler mean."""

    permanent: tuple[type[BaseException], ...] = ()
    retry: tuple[type[BaseException], ...] | None = None
    backoff: Backoff | None = None

    def is_permanent(self, error: BaseException) -> bool:
        if isinstance(error, (PermanentError, *self.permanent)):
            return True
        return self.retry is not None and not isinstance(error, self.retry)

    def wait_s(self, attempt: int, error: BaseException) -> float | None:
        """Seconds until the next attempt; None: the job's own backoff."""
        if self.backoff is None:
            return None
        try:
            wait_s = self.backoff(attempt, error)
        except BaseException:  # noqa: BLE001  # the attempt failed anyway; its backoff will do
            return None
        return wait_s if isinstance(wait_s, int | float) and math.isfinite(wait_s) else None


@dataclass(frozen=True, slots=True)
class Handler:
    """`concurrency`: at most so many jobs of this kind at once in one worker process."""

    kind: str
    function: Callable[..., Any]
    runs_in: RunsIn
    wants_job: bool
    concurrency: int | None = None
    policy: Policy = Policy()
    before: tuple[list[Before], ...] = ()
    after: tuple[list[After], ...] = ()
    # resolved at first use: an annotation may name what its module defines further down
    decoders: list[payloads.Decode] = field(default_factory=list, repr=False, compare=False)

    @property
    def is_async(self) -> bool:
        return self.runs_in == "loop"

    def decode(self, data: bytes) -> Any:
        """The payload as the handler wants it. PayloadError if it is not."""
        if not self.decoders:
            self.resolve()
        return self.decoders[0](data)

    def enter(self, job: Job) -> None:
        """Run the hooks before an attempt. What they raise fails it."""
        for hooks in self.before:
            for hook in hooks:
                hook(job)

    def leave(self, job: Job, error: BaseException | None) -> None:
        """Run the hooks after an attempt. What they raise changes nothing."""
        for hooks in self.after:
            for hook in hooks:
                try:
                    hook(job, error)
                except BaseException:  # whatever it is, the work is done
                    log.exception("hook failed", extra={"kind": self.kind, "job_id": job.id})

    def resolve(self) -> None:
        """Find out what payloads to decode into. TypeError if that cannot be."""
        try:
            annotation = payloads.annotation_of(self.function)
            self.decoders[:] = [payloads.decoder(annotation)]
        except (NameError, TypeError) as error:
            raise HandlerError(f"handler of kind {self.kind!r}: {error}") from error


@dataclass(slots=True)
class Registry:
    """Handlers by kind. One registry is the module's own; a Worker can be given another.

    before, after: hooks around every attempt, where its handler runs; plain functions.
    """

    by_kind: dict[str, Handler] = field(default_factory=dict)
    before: list[Before] = field(default_factory=list)
    after: list[After] = field(default_factory=list)

    def resolve(self) -> None:
        """Find out what payloads to decode into. TypeError for the first handler that cannot be."""
        for one in self.by_kind.values():
            one.resolve()

    def handler(
        self,
        kind: str,
        *,
        runs_in: RunsIn | None = None,
        concurrency: int | None = None,
        permanent: Errors = (),
        retry: Errors | None = None,
        backoff: Backoff | None = None,
        before: Before | None = None,
        after: After | None = None,
    ) -> Callable[[F], F]:
        """Register a function of `(payload)` or `(payload, job)` for a kind of job.

        runs_in: `loop` for a coroutine function, else `thread` or `process`.
        permanent: exceptions after which the job is not tried again; retry: if given, the only
        ones after which it is. backoff: (attempt, exception) to seconds, or None for the job's own.
        before(job) and after(job, exception or None) run around every attempt; what `before`
        raises fails the attempt, what `after` raises is logged.
        """
        if not 1 <= len(kind) <= 255:
            raise ValueError(f"kind {kind[:40]!r} must have 1 to 255 characters")
        if concurrency is not None and concurrency < 1:
            raise ValueError(f"concurrency of {kind!r} is {concurrency}; give at least 1")
        policy = Policy(_types(permanent), None if retry is None else _types(retry), backoff)
        for name, function in (("backoff", backoff), ("before", before), ("after", after)):
            if function is not None and not callable(function):
                raise TypeError(f"{name} of {kind!r} is no function")
            if inspect.iscoroutinefunction(function):
                raise TypeError(f"{name} of {kind!r} must be a plain function")

        def register(function: F) -> F:
            if kind in self.by_kind:
                other = name_of(self.by_kind[kind].function)
                raise ValueError(f"kind {kind!r} already has the handler {other}")
            self.by_kind[kind] = Handler(
                kind,
                function,
                _runs_in(function, runs_in),
                _wants_job(function),
                concurrency,
                policy,
                (self.before, [] if before is None else [before]),
                (self.after, [] if after is None else [after]),
            )
            return function

        return register


handlers = Registry()
handler = handlers.handler


def load(modules: Iterable[str]) -> None:
    """Import the modules that register handlers. ImportError as it comes."""
    for module in modules:
        importlib.import_module(module)


def _types(errors: Errors) -> tuple[type[BaseException], ...]:
    given: tuple[Any, ...] = (errors,) if isinstance(errors, type) else tuple(errors)
    if not all(isinstance(one, type) and issubclass(one, BaseException) for one in given):
        raise TypeError("permanent and retry take classes of exceptions")
    return given


def name_of(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__qualname__", repr(function)))


def _runs_in(function: Callable[..., Any], chosen: str | None) -> RunsIn:
    """TypeError for a generator: calling it would run nothing."""
    name = name_of(function)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"{name} is a generator; a handler returns its result")
    if chosen is not None and chosen not in get_args(RunsIn):
        raise ValueError(f"runs_in is {chosen!r}; allowed: loop, thread, process")
    if chosen == "process" and "<locals>" in name:
        raise TypeError(f"{name} is inside a function: a process cannot import it from there")
    call = getattr(function, "__call__", None)  # noqa: B004  # of an object that can be called
    is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)
    if is_async and chosen in {"thread", "process"}:
        raise TypeError(f"{name} is a coroutine function: it runs in the loop, not in a {chosen}")
    if not is_async and chosen == "loop":
        raise TypeError(f"{name} is a plain function: in the loop it would block all other jobs")
    if is_async:
        return "loop"
    return "process" if chosen == "process" else "thread"


def _wants_job(function: Callable[..., Any]) -> bool:
    parameters = inspect.signature(function).parameters.values()
    positional = [p for p in parameters if p.kind in {p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD}]
    needed = [p for p in positional if p.default is p.empty]
    named = [p for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    if not positional or len(needed) > 2 or named:
        raise TypeError(f"{name_of(function)} must take (payload) or (payload, job)")
    return len(needed) == 2
