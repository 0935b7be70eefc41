"""`/ui/queues/{queue}`: one queue, what holds it back, what is set for it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

from aiohttp import web
from msgspec import Struct
from msgspec.structs import asdict

from pybatchq import calls
from pybatchq.api.decoding import descriptions, parameters
from pybatchq.api.errors import ApiError, as_api_error
from pybatchq.api.queue_models import SetGroup, SetQueue
from pybatchq.api.queues import arguments, settings_of
from pybatchq.calls import Connection
from pybatchq.dashboard import charts, views
from pybatchq.dashboard.context import HUB
from pybatchq.dashboard.pages import Page, Visit
from pybatchq.dashboard.rendering import link
from pybatchq.errors import BatchqError
from pybatchq.live import Live, live_gate
from pybatchq.rates import ThroughputPoint, WatchedQueue
from pybatchq.types import BreakerInfo, DeadErrors, Gate, GroupInfo, QueueSettings

MINUTE_S: Final = 60.0
HOUR: Final = timedelta(hours=1)
GROUPS: Final = 25
ERRORS: Final = 5
PATH: Final = "/ui/queues/{queue:[^/]+}"
# What is set, in the order in which people look for it.
SECTIONS: Final = (
    ("Limits", ("max_running", "rate", "rate_period", "max_depth", "on_full", "age_every")),
    ("Groups", ("group_limit", "group_rate", "group_period", "group_retry", "fair")),
    ("Retries", ("max_attempts", "backoff", "backoff_base", "backoff_factor", "backoff_cap",
                 "backoff_jitter")),
    ("Times", ("timeout", "lease_for")),
    ("Circuit breaker", ("breaker_share", "breaker_min", "breaker_window", "breaker_pause")),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Setting:
    """One field of the form. choices: the only values it takes; empty: any text."""

    name: str
    label: str
    value: str
    takes: str
    choices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Facts:
    """What the page shows beside what is live."""

    settings: QueueSettings
    gates: list[Gate]
    groups: list[GroupInfo]
    breakers: list[BreakerInfo]
    errors: DeadErrors
    points: list[ThroughputPoint]


class QueueQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """edit: show the settings as a form."""

    edit: Literal["yes", "no"] = "no"


async def show(visit: Visit) -> web.Response:
    return await _page(visit, is_edited=visit.query(QueueQuery).edit == "yes")


async def change(visit: Visit) -> web.Response:
    """All settings of the form at once: an empty field is one that is not set."""
    queue = _queue(visit)
    given = {name: value for name, value in visit.form if value != ""}
    try:
        wanted = parameters(given, SetQueue)
        await visit.acting(calls.set_queue, queue=queue, reset=True, **arguments(asdict(wanted)))
    except (ApiError, BatchqError) as error:
        shown = as_api_error(error)
        return await _page(visit, is_edited=True, error=shown, given=dict(visit.form))
    return visit.lead(link("/ui/queues", queue), f"The settings of queue {queue} were changed.")


async def pause(visit: Visit) -> web.Response:
    queue = _queue(visit)
    reason = visit.field("reason").strip() or None
    await visit.acting(calls.pause, queue=queue, reason=reason)
    return visit.lead(link("/ui/queues", queue), f"Queue {queue} is paused: nothing starts in it.")


async def resume(visit: Visit) -> web.Response:
    queue = _queue(visit)
    await visit.acting(calls.resume, queue=queue)
    return visit.lead(link("/ui/queues", queue), f"Queue {queue} goes on.")


async def reset_breaker(visit: Visit) -> web.Response:
    queue, kind = _queue(visit), visit.field("kind")
    await visit.acting(calls.reset_breaker, queue=queue, kind=kind)
    return visit.lead(link("/ui/queues", queue), f"Jobs of kind {kind} run again.")


async def set_group(visit: Visit) -> web.Response:
    """What is different for one group: an empty field is nothing."""
    queue, group_key = _queue(visit), visit.field("group_key")
    given = {name: visit.field(name) for name in ("group_limit", "weight") if visit.field(name)}
    wanted = parameters(given, SetGroup)
    await visit.acting(
        calls.set_group, queue=queue, group_key=group_key, reset=True, **asdict(wanted)
    )
    return visit.lead(link("/ui/queues", queue), f"Group {group_key} was changed.")


async def _page(
    visit: Visit,
    *,
    is_edited: bool,
    error: ApiError | None = None,
    given: dict[str, str] | None = None,
) -> web.Response:
    queue = _queue(visit)
    facts = await visit.services.db.run(lambda conn: _facts(conn, queue))
    live = await visit.request.app[HUB].lately()
    chart = charts.figure(charts.throughput(facts.points, MINUTE_S))
    return visit.page(
        "queue.html",
        status=200 if error is None else error.status,
        queue=queue,
        depth=_depth(live, visit, queue),
        facts=facts,
        gates=[live_gate(gate) for gate in facts.gates],
        chart=chart,
        alerts=[a for a in views.alerts_of(live, visit.caller) if a.queue in {None, queue}],
        sections=_sections(facts.settings, given),
        is_edited=is_edited,
        error=None if error is None else error.body,
    )


async def _facts(conn: Connection, queue: str) -> Facts:
    return Facts(
        settings=await calls.get_queue(conn, queue=queue),
        gates=await calls.explain_queue(conn, queue=queue),
        groups=await calls.list_groups(conn, queue=queue, n=GROUPS),
        breakers=await calls.list_breakers(conn, queue=queue),
        errors=await calls.list_errors(conn, queue=queue, n=ERRORS),
        points=await calls.throughput(conn, queue=queue, since=HOUR, step=timedelta(minutes=1)),
    )


def _depth(live: Live, visit: Visit, queue: str) -> WatchedQueue | None:
    return next((one for one in views.queues_of(live, visit.caller) if one.queue == queue), None)


def _sections(
    record: QueueSettings, given: dict[str, str] | None
) -> list[tuple[str, list[Setting]]]:
    """given: what was typed and refused; it is shown again."""
    values = asdict(settings_of(record)) if given is None else given
    takes, hints = descriptions(SetQueue), get_type_hints(SetQueue)
    return [
        (title, [
            Setting(
                name, name.replace("_", " "), _text(values.get(name)), takes.get(name, ""),
                _choices(hints[name]),
            )
            for name in names
        ])
        for title, names in SECTIONS
    ]  # fmt: skip


def _choices(hint: Any) -> tuple[str, ...]:
    """What a Literal or a bool among the types of a setting may be."""
    if hint is bool:
        return ("true", "false")
    if get_origin(hint) is Literal:
        return tuple(map(str, get_args(hint)))
    return next(filter(None, map(_choices, getattr(hint, "__args__", ()))), ())


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value).removesuffix(".0")


def _queue(visit: Visit) -> str:
    """The queue of the path, if it is the visitor's."""
    queue = visit.path["queue"]
    visit.caller.check_queue(queue)
    return queue


PAGES = (
    Page(path=PATH, handler=show),
    Page(method="POST", path=PATH, handler=change, scope="operate"),
    Page(method="POST", path=f"{PATH}/pause", handler=pause, scope="operate"),
    Page(method="POST", path=f"{PATH}/resume", handler=resume, scope="operate"),
    Page(method="POST", path=f"{PATH}/group", handler=set_group, scope="operate"),
    Page(method="POST", path=f"{PATH}/breaker", handler=reset_breaker, scope="operate"),
)
