"""How long the property tests search: short for every run, BATCHQ_HYPOTHESIS=long for a night."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

LONG = os.environ.get("BATCHQ_HYPOTHESIS") == "long"
# a test with a database is slow now and then, and shares that database between its examples
UNHURRIED = (HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large)


def profile(short: int, long: int, steps: int = 50) -> settings:
    """Settings with so many examples. The short run is the same each time, so it stays green."""
    return settings(
        max_examples=long if LONG else short,
        stateful_step_count=steps,
        derandomize=not LONG,
        database=settings.default.database if LONG and settings.default else None,
        deadline=None,
        print_blob=True,
        suppress_health_check=UNHURRIED,
    )
