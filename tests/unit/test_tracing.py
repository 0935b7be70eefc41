"""Traces across the queue, with the real SDK, without a provider and without OpenTelemetry."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, TraceState

from pybatchq import tracing
from pybatchq.errors import PermanentError, RetryIn, Snooze
from tests.support.processes import ROOT

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """What was exported. The provider of a process can be set but once, and not be taken away."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    yield exporter
    provider.shutdown()


def attempt(headers: Any = None, kind: str = "send") -> Any:
    return tracing.attempt_span(kind, "mail", 7, 2, headers)


def context_of(span: ReadableSpan) -> SpanContext:
    context = span.get_span_context()
    assert context is not None
    return context


def only(spans: InMemorySpanExporter) -> ReadableSpan:
    (span,) = spans.get_finished_spans()
    return span


def test_the_producers_span_is_the_parent_of_the_attempt(spans: InMemorySpanExporter) -> None:
    with trace.get_tracer("shop").start_as_current_span("buy"):
        headers = tracing.current_headers(None)
    with attempt(headers):
        pass
    producer, consumer = spans.get_finished_spans()
    assert consumer.parent is not None
    assert consumer.parent.span_id == context_of(producer).span_id
    assert consumer.parent.is_remote
    assert context_of(consumer).trace_id == context_of(producer).trace_id


def test_the_span_says_what_ran_as_the_conventions_have_it(spans: InMemorySpanExporter) -> None:
    with attempt() as current:
        assert trace.get_current_span() is current
    span = only(spans)
    assert (span.name, span.kind) == ("process send", trace.SpanKind.CONSUMER)
    assert span.attributes == {
        "messaging.system": "batchq",
        "messaging.destination.name": "mail",
        "messaging.operation.type": "process",
        "messaging.operation.name": "process",
        "messaging.message.id": "7",
        "batchq.kind": "send",
        "batchq.attempt": 2,
    }
    assert span.status.status_code == trace.StatusCode.UNSET


def test_headers_are_added_to_a_copy(spans: InMemorySpanExporter) -> None:
    given = {"tenant": 3}
    with trace.get_tracer("shop").start_as_current_span("buy") as span:
        headers = tracing.current_headers(given)
    context = span.get_span_context()
    parent = f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
    assert headers == {"tenant": 3, "traceparent": parent}
    assert given == {"tenant": 3}


def test_headers_that_name_a_parent_stay_as_they_are(spans: InMemorySpanExporter) -> None:
    given = {"traceparent": PARENT}
    with trace.get_tracer("shop").start_as_current_span("buy"):
        assert tracing.current_headers(given) is given


@pytest.mark.parametrize("given", [None, {}, {"tenant": 3}])
def test_headers_stay_as_they_are_where_no_span_records(
    given: dict[str, Any] | None, spans: InMemorySpanExporter
) -> None:
    assert tracing.current_headers(given) is given
    quiet = TracerProvider(sampler=ALWAYS_OFF).get_tracer("quiet")
    with quiet.start_as_current_span("not sampled"):
        assert tracing.current_headers(given) is given


def test_the_tracestate_travels_too(spans: InMemorySpanExporter) -> None:
    before = SpanContext(1, 2, True, TraceFlags(1), TraceState([("vendor", "x")]))
    remote = trace.set_span_in_context(NonRecordingSpan(before))
    with trace.get_tracer("shop").start_as_current_span("buy", context=remote):
        headers = tracing.current_headers({})
    assert headers is not None
    assert headers["tracestate"] == "vendor=x"
    with attempt(headers):
        pass
    consumer = spans.get_finished_spans()[-1]
    assert context_of(consumer).trace_state["vendor"] == "x"


HOSTILE_HEADERS: dict[str, Any] = {
    "number": {"traceparent": 5},
    "list": {"traceparent": [5]},
    "none": {"traceparent": None},
    "garbage": {"traceparent": "x" * 100_000, "tracestate": "y"},
    "zeros": {"traceparent": f"00-{'0' * 32}-{'0' * 16}-01"},
    "newlines": {"traceparent": "\n" * 60},
    "empty": {},
}


@pytest.mark.parametrize("headers", HOSTILE_HEADERS.values(), ids=HOSTILE_HEADERS)
def test_f086_headers_that_name_no_parent_start_a_trace(
    headers: dict[str, Any], spans: InMemorySpanExporter
) -> None:
    with attempt(headers):
        pass
    assert only(spans).parent is None


@pytest.mark.parametrize("state", [5, "=", "a" * 100_000, "a=1," * 1000, "ä=ö\0"])
def test_f086_a_tracestate_that_is_none_does_no_harm(
    state: Any, spans: InMemorySpanExporter
) -> None:
    with attempt({"traceparent": PARENT, "tracestate": state}):
        pass
    assert only(spans).name == "process send"


def test_without_a_parent_it_starts_a_trace_whatever_runs_in_the_worker(
    spans: InMemorySpanExporter,
) -> None:
    with trace.get_tracer("worker").start_as_current_span("loop"), attempt():
        pass
    assert spans.get_finished_spans()[0].parent is None


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (ValueError("secret"), "ValueError"),
        (PermanentError("secret"), "pybatchq.errors.PermanentError"),
        (RetryIn(5, "secret"), "pybatchq.errors.RetryIn"),
        (asyncio.CancelledError("secret"), "asyncio.exceptions.CancelledError"),
        (SystemExit("secret"), "SystemExit"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_error_is_recorded_by_its_type_and_never_by_its_text(
    error: BaseException, name: str, spans: InMemorySpanExporter
) -> None:
    with pytest.raises(type(error)), attempt():
        raise error
    span = only(spans)
    assert span.status.status_code == trace.StatusCode.ERROR
    assert (span.attributes or {})["error.type"] == name
    assert "secret" not in span.to_json()


def test_a_snoozed_attempt_is_no_error(spans: InMemorySpanExporter) -> None:
    with pytest.raises(Snooze), attempt():
        raise Snooze(5)
    assert only(spans).status.status_code == trace.StatusCode.UNSET


async def test_attempts_side_by_side_have_spans_of_their_own(spans: InMemorySpanExporter) -> None:
    both_run = asyncio.Barrier(2)

    async def run(kind: str) -> None:
        with attempt({"traceparent": PARENT}, kind):
            await both_run.wait()
            with trace.get_tracer("handler").start_as_current_span(f"of {kind}"):
                await both_run.wait()

    async with asyncio.TaskGroup() as group:
        for kind in ("a", "b"):
            group.create_task(run(kind))
    by_name = {span.name: span for span in spans.get_finished_spans()}
    for kind in ("a", "b"):
        inner = by_name[f"of {kind}"]
        assert inner.parent is not None
        assert inner.parent.span_id == context_of(by_name[f"process {kind}"]).span_id


def run(program: str) -> str:
    """What a process of its own prints, which imports nothing but what it says."""
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    ).stdout


def test_where_opentelemetry_cannot_be_imported_nothing_is_traced_at_no_cost() -> None:
    cost_s = run("""
import sys, timeit

class Absent:
    def find_spec(self, name, *_):
        if name.partition(".")[0] == "opentelemetry":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
from pybatchq import tracing
given = {"a": 1}
assert tracing.current_headers(given) is given
assert tracing.current_headers(None) is None
assert tracing.attempt_span("k", "q", 1, 1, given) is None
assert not tracing.is_on()
print(min(timeit.repeat(lambda: tracing.current_headers(given), number=2000, repeat=50)) / 2000)
""")
    assert float(cost_s) < 1e-6  # alone on a machine it is 0.1 us


def test_importing_it_does_not_import_opentelemetry() -> None:
    run("import sys, pybatchq.tracing; assert 'opentelemetry' not in sys.modules")


def test_tracing_is_off_until_a_provider_is_set() -> None:
    run("""
from pybatchq import tracing
from opentelemetry import trace
assert not tracing.is_on()
assert tracing.attempt_span("k", "q", 1, 1, None) is None
with trace.get_tracer("none").start_as_current_span("x"):
    assert tracing.current_headers(None) is None
trace.set_tracer_provider(trace.NoOpTracerProvider())
assert not tracing.is_on()
""")
    run("""
from pybatchq import tracing
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
assert not tracing.is_on()
trace.set_tracer_provider(TracerProvider())
assert tracing.is_on()
with tracing.attempt_span("k", "q", 1, 1, None) as span:
    assert span.is_recording()
    assert "traceparent" in tracing.current_headers(None)
""")
