"""Traces across the queue, where the program has set up OpenTelemetry; nothing where it has not.

The HTTP API's requests are spans, too: servers of the caller's trace, and producers of their jobs.

The producer's span travels in the job's headers as `traceparent` and `tracestate` (W3C Trace
Context) and becomes the parent of the span of every attempt. Payloads, results and texts of errors
are not recorded.

OpenTelemetry is never imported from here before somebody else has: a program that traces has.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Literal

from pybatchq.errors import Snooze

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer, TracerProvider

PARENT = "traceparent"
STATE = "tracestate"

_tracers: list[tuple[TracerProvider, Tracer]] = []


def is_on() -> bool:
    """Whether a tracer provider is set. Ask once, when the worker starts: it is set by then."""
    return _tracer() is not None


def current_headers(headers: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The headers of a job with the present span in them, in a new mapping.

    The argument itself if no span records here, or if it names a parent already.
    """
    trace: Any = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return headers
    if not trace.get_current_span().is_recording():
        return headers
    if headers is not None and PARENT in headers:
        return headers
    carrier: dict[str, str] = {}
    _propagator().inject(carrier)
    return {**(headers or {}), **carrier}


def attempt_span(
    kind: str, queue: str, job_id: int, attempt: int, headers: Mapping[str, Any] | None
) -> AbstractContextManager[Span] | None:
    """The span of one attempt, current inside the `with`; None where nothing is traced.

    An exception that passes through makes it an error of that type. Snooze is none.
    """
    tracer = _tracer()
    if tracer is None:
        return None
    attributes: dict[str, str | int] = {
        "messaging.system": "batchq",
        "messaging.destination.name": queue,
        "messaging.operation.type": "process",
        "messaging.operation.name": "process",
        "messaging.message.id": str(job_id),
        "batchq.kind": kind,
        "batchq.attempt": attempt,
    }
    return _span(tracer, f"process {kind}", attributes, headers)


def request_span(
    method: str, route: str, headers: Mapping[str, str]
) -> AbstractContextManager[Span] | None:
    """The span of one HTTP request, current inside the `with`; None where nothing is traced.

    route: the pattern of its path. headers: the request's, which may name a parent.
    """
    tracer = _tracer()
    if tracer is None:
        return None
    attributes: dict[str, str | int] = {"http.request.method": method}
    if route:
        attributes["http.route"] = route
    return _span(tracer, f"{method} {route}".strip(), attributes, headers, kind="SERVER")


def answered(span: Span, status: int) -> None:
    """The request of this span has its answer; a fault of ours makes it an error."""
    span.set_attribute("http.response.status_code", status)
    if status >= 500:
        failed(span, str(status))


@contextlib.contextmanager
def _span(
    tracer: Tracer,
    name: str,
    attributes: Mapping[str, str | int],
    headers: Mapping[str, Any] | None,
    *,
    kind: Literal["CONSUMER", "SERVER"] = "CONSUMER",
) -> Iterator[Span]:
    from opentelemetry import trace  # noqa: PLC0415

    # only these two, and only as text: headers are the producer's, and may be anything
    given = headers or {}
    carrier = {name: given[name] for name in (PARENT, STATE) if type(given.get(name)) is str}
    with tracer.start_as_current_span(
        name,
        # without a parent the span starts a trace, whatever is current in this process
        context=_propagator().extract(carrier),
        kind=trace.SpanKind[kind],
        attributes=attributes,
        record_exception=False,  # its text may hold what the job holds
        set_status_on_exception=False,
    ) as span:
        try:
            yield span
        except Snooze:
            raise
        except BaseException as error:
            span.set_attribute("error.type", _type_name(error))
            span.set_status(trace.StatusCode.ERROR)
            raise


def failed(span: Span, what: str) -> None:
    """The attempt failed, though no exception passes through its span."""
    from opentelemetry import trace  # noqa: PLC0415

    span.set_attribute("error.type", what)
    span.set_status(trace.StatusCode.ERROR)


def _tracer() -> Tracer | None:
    """The provider's tracer, made once; None if there is no provider but the API's stand-in."""
    trace: Any = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return None
    provider = trace.get_tracer_provider()
    if _tracers and _tracers[0][0] is provider:
        return _tracers[0][1]
    if isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
        return None
    tracer: Tracer = provider.get_tracer("pybatchq")
    _tracers[:] = [(provider, tracer)]
    return tracer


def _propagator() -> Any:
    from opentelemetry.trace.propagation import tracecontext  # noqa: PLC0415

    return tracecontext.TraceContextTextMapPropagator()


def _type_name(error: BaseException) -> str:
    cls = type(error)
    return (
        cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
    )
