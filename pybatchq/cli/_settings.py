"""What is set for a queue, in a line."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from pybatchq.cli._show import Cell, Column, cell
from pybatchq.types import QueueSettings
from pybatchq.words import span

COLUMNS = (
    Column("QUEUE", 10, least=8),
    Column("RUNNING", 9, justify="right"),
    Column("RATE", 8, justify="right"),
    Column("GROUPS", 7, least=6),
    Column("DEPTH", 6, justify="right"),
    Column("AGE", 5, justify="right"),
    Column("TRIES", 4, justify="right"),
    Column("BACKOFF", 3, least=7),
    Column("BREAKER", 2, justify="right"),
    Column("TIMEOUT", 2, justify="right"),
    Column("LEASE", 1, justify="right"),
)


def shown(settings: QueueSettings) -> Sequence[Cell]:
    retries = [
        settings.backoff,
        _span(settings.backoff_base),
        None if settings.backoff_factor is None else f"x{settings.backoff_factor:g}",
        None if settings.backoff_cap is None else f"to {_span(settings.backoff_cap)}",
        None if settings.backoff_jitter is None else f"jitter {settings.backoff_jitter}",
    ]
    depth = None if settings.max_depth is None else f"{settings.max_depth:,}"
    if depth is not None and settings.on_full == "delay":
        depth += " delay"
    return (
        cell(settings.queue), cell(_number(settings.max_running)),
        cell(_rate(settings.rate, settings.rate_period)), cell(_groups(settings)), cell(depth),
        cell(_span(settings.age_every)), cell(settings.max_attempts),
        cell(" ".join(filter(None, retries))), cell(_share(settings.breaker_share)),
        cell(_span(settings.timeout)), cell(_span(settings.lease_for)),
    )  # fmt: skip


def _groups(settings: QueueSettings) -> str:
    parts = [
        _number(settings.group_limit),
        _rate(settings.group_rate, settings.group_period),
        "fair" if settings.fair else None,
        settings.group_retry,
    ]
    return ", ".join(filter(None, parts))


def _rate(rate: int | None, period: timedelta | None) -> str | None:
    return None if rate is None else f"{rate:,}/{span(period or timedelta(seconds=1))}"


def _share(share: float | None) -> str | None:
    return None if share is None else f"{share:.0%}"


def _number(number: int | None) -> str | None:
    return None if number is None else f"{number:,}"


def _span(length: timedelta | None) -> str | None:
    return None if length is None else span(length)
