"""Traces go from the producer through the job's headers to the attempt, in this process."""

from __future__ import annotations

import subprocess
import sys

from tests.support.processes import ROOT, environment

# a tracer provider is the process's for good, so this one has a process of its own
PROGRAM = """
import asyncio, sys
import psycopg
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pybatchq import Registry, calls, testing

spans = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(spans))
trace.set_tracer_provider(provider)
tracer = trace.get_tracer("test")
registry = Registry()
seen = []


@registry.handler("loop")
async def loop(payload):
    seen.append(trace.get_current_span().get_span_context().trace_id)


@registry.handler("thread")
def thread(payload):
    seen.append(trace.get_current_span().get_span_context().trace_id)
    raise ValueError("no")


async def main(dsn):
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as conn:
        with tracer.start_as_current_span("produce") as span:
            await calls.enqueue(conn, "loop", headers={"mine": "kept"})
            await calls.enqueue_many(conn, jobs=[{"kind": "thread", "max_attempts": 1}])
    await testing.drain(dsn, registry)
    trace_id = span.get_span_context().trace_id
    assert seen == [trace_id] * 2, (seen, trace_id)
    names = {one.name: one for one in spans.get_finished_spans()}
    assert set(names) == {"produce", "process loop", "process thread"}, set(names)
    assert names["process loop"].status.is_ok or names["process loop"].status.is_unset
    assert not names["process thread"].status.is_ok
    assert names["process thread"].attributes["error.type"] == "ValueError"
    assert names["process thread"].parent.span_id == span.get_span_context().span_id
    print("traced")


asyncio.run(main(sys.argv[1]))
"""


def test_an_attempt_continues_the_trace_of_its_producer(db: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, db],
        cwd=ROOT, env=environment(None), capture_output=True, text=True, timeout=50, check=False,
    )  # fmt: skip
    assert ran.stdout == "traced\n", ran.stderr
