"""The built-in kinds of job: demo_task, http_get and batch_range.

    builtin.register(registry, allow=settings.http_get_allow, deny=settings.http_get_deny)

Nothing is registered by importing this.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pybatchq.addresses import HostRule, Rules
from pybatchq.builtin.batch_range import batch_range
from pybatchq.builtin.demo_task import demo_task
from pybatchq.handlers import Registry

KINDS = ("demo_task", "http_get", "batch_range")


def register(
    registry: Registry, *, allow: Sequence[HostRule] = (), deny: Sequence[HostRule] = ()
) -> None:
    """Add the three kinds. One that the registry has already keeps its handler.

    allow, deny: where http_get may go besides public addresses, and where it may not; deny wins.
    """
    # an HTTP client takes longer to import than all the rest, and the settings come by here
    from pybatchq.builtin.http_get import Client  # noqa: PLC0415

    client = Client(Rules(tuple(allow), tuple(deny)))
    functions: list[Callable[..., Any]] = [demo_task, client.http_get, batch_range]
    for kind, function in zip(KINDS, functions, strict=True):
        if kind not in registry.by_kind:
            registry.handler(kind)(function)
