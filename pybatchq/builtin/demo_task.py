"""The kind demo_task: waits, then logs a message. For trying things out."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from msgspec import Meta, Struct

from pybatchq.job import Job


class DemoTask(Struct, frozen=True):
    message: str = ""
    delay_ms: Annotated[int, Meta(ge=0, le=3_600_000)] = 0


async def demo_task(payload: DemoTask, job: Job) -> dict[str, Any]:
    """Sleep `delay_ms`, log `[demo_task] <message>`, return both."""
    await asyncio.sleep(payload.delay_ms / 1000)
    job.log.info("[demo_task] %s", payload.message)
    return {"message": payload.message, "delay_ms": payload.delay_ms}
