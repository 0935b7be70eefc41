"""Queues: how deep they are, what is set for them, pausing and resuming."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from datetime import datetime, timedelta
from time import monotonic
from typing import Annotated, Any, Final, Literal, TypeVar

from aiohttp import web
from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import asdict

from pybatchq import calls
from pybatchq.api.answers import answer
from pybatchq.api.cursors import after, cursor
from pybatchq.api.models import Attempts, Factor, Name, Reason, Timeout, Wait, shown
from pybatchq.api.routes import Call, NoQuery, Route
from pybatchq.api.work_models import LeaseFor
from pybatchq.calls import Connection
from pybatchq.types import QueueSettings as Record
from pybatchq.types import QueueStats

LOOK_S: Final = 10.0
# Any name at all, where aiohttp's own pattern refuses braces.
PATH: Final = "/queues/{queue:[^/]+}"

Backoff = Literal["exponential", "fixed"]
Jitter = Literal["full", "none"]
