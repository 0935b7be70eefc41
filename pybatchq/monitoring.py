"""What a worker shows on its health port."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pybatchq.health import HealthServer
    from pybatchq.worker import Worker


def monitoring(worker: Worker, host: str, port: int | None) -> HealthServer | None:
    """The health server of a worker, not started; None without a port."""
    if port is None:
        return None
    # not at the top: aiohttp takes 0.3 s to import, and most workers have no port
    from pybatchq.health import HealthServer, HealthState  # noqa: PLC0415
    from pybatchq.metrics import Exposition  # noqa: PLC0415

    exposition = Exposition(
        worker.metrics,
        info={"worker": worker.name},
        gauges={
            "running": lambda: worker.running,
            "slots": lambda: worker.concurrency,
            "idle_processes": lambda: worker.idle_processes,
            "unsettled": lambda: worker.unsettled,
            "connected": lambda: worker.is_connected,
            "parked": lambda: worker.is_parked,
            "stopping": lambda: worker.is_stopping,
            "loop_blocked": worker.loop_blocked_s,
        },
    )

    def state() -> HealthState:
        return HealthState(worker.is_connected, worker.is_stopping, worker.loop_blocked_s())

    return HealthServer(port, host=host, state=state, metrics=exposition.render)
