"""Every page of the dashboard, by name, as it is for the scenery."""

from __future__ import annotations

from pybatchq import calls
from pybatchq.types import State
from tests.conftest import Connection

STATES: tuple[tuple[str, str, State], ...] = (
    ("running", "images", "leased"),
    ("failed", "billing", "failed"),
    ("completed", "default", "completed"),
    ("scheduled", "billing", "scheduled"),
    ("blocked", "webhooks", "blocked"),
)


async def addresses(conn: Connection) -> dict[str, str]:
    found = {
        "overview": "/",
        "queue": "/ui/queues/billing",
        "queue-groups": "/ui/queues/webhooks",
        "queue-paused": "/ui/queues/reports",
        "queue-settings": "/ui/queues/images?edit=yes",
        "jobs": "/ui/jobs",
        "jobs-none": "/ui/jobs?kind=nothing",
    }
    for name, queue, state in STATES:
        (job, *_) = await calls.list_jobs(conn, queue=queue, state=state, n=1)
        found[f"job-{name}"] = f"/ui/jobs/{job.id}"
    return {
        **found,
        "dead-letters": "/ui/dead",
        "throughput": "/ui/throughput?range=24h",
        "throughput-week": "/ui/throughput?range=7d&queue=mail&kind=send_email",
        "workers": "/ui/workers",
        "audit": "/ui/audit",
        "sign-in": "/ui/sign-in",
        "not-found": "/ui/jobs/999999",
    }
