"""A trace goes from the HTTP client through the API and the job's headers to the attempt."""

from __future__ import annotations

import asyncio
import sys

from tests.support.processes import ROOT, environment

# a tracer provider is the process's for good, so this one has a process of its own
PROGRAM = """
import asyncio, sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pybatchq import Registry, testing
from tests.support.api import serving

spans = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(spans))
trace.set_tracer_provider(provider)
registry = Registry()
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
HEADERS = {"traceparent": f"00-{TRACE}-{PARENT}-01"}


@registry.handler("k")
async def k(payload):
    pass


async def main(dsn):
    async with serving(dsn) as api:
        one = await api.post("/jobs", {"kind": "k", "headers": {"mine": 1}}, headers=HEADERS)
        keyed = await api.post("/jobs", {"kind": "k"}, headers={**HEADERS, "Idempotency-Key": "a"})
        many = await api.post("/jobs/bulk", [{"kind": "k"}] * 2, headers=HEADERS)
        await api.post("/jobs", {"kind": "k"})
        bad = await api.post("/jobs", {"kind": 5}, headers=HEADERS)
        await api.get("/jobs/999")
        told = (await api.get(f"/jobs/{one.json['id']}")).json["headers"]
        again = await api.post("/jobs", {"kind": "k"}, headers={"Idempotency-Key": "a"})
        assert again.json.get("duplicate"), again.text  # another trace is no other request
        await testing.drain(dsn, registry)
    assert told["mine"] == 1 and told["traceparent"].split("-")[1] == TRACE, told
    finished = spans.get_finished_spans()
    served = [one for one in finished if one.kind is trace.SpanKind.SERVER]
    assert {one.name for one in served} == {
        "POST /jobs", "POST /jobs/bulk", "GET /jobs/{id}"
    }, [one.name for one in served]
    assert served[0].attributes["http.response.status_code"] == 201
    assert served[0].parent.span_id == int(PARENT, 16)
    ran = [one for one in finished if one.name == "process k"]
    traces = [one.context.trace_id == int(TRACE, 16) for one in ran]
    assert sorted(traces) == [False, True, True, True, True], traces
    assert ran[0].parent.span_id == served[0].context.span_id
    print("traced")


asyncio.run(main(sys.argv[1]))
"""


async def test_a_trace_goes_through_the_api_to_the_attempt(db: str) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, db, cwd=ROOT, env=environment(None),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await process.communicate()
    assert out.decode().strip() == "traced", err.decode()
