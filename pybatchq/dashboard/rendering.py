"""Templates into HTML: every value is escaped, times are told twice, numbers are readable.

What a payload, an error or a name says is text, control characters included.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cached_property
from importlib.resources import files
from typing import Any, Final, TypeGuard
from urllib.parse import quote, urlencode

import jinja2
import msgspec
from markupsafe import Markup, escape

from pybatchq import words
from pybatchq.dashboard import jsontree

TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


class Clock:
    """The database's clock, as far as it was heard of."""

    def __init__(self) -> None:
        self._ahead = timedelta()

    def set(self, at: datetime) -> None:
        self._ahead = at - datetime.now(UTC)

    def now(self) -> datetime:
        return datetime.now(UTC) + self._ahead


class Asset:
    """A file that pages load; its address changes with what is in it."""

    def __init__(self, name: str, body: bytes) -> None:
        self.body = body
        self.content_type = TYPES[name.rpartition(".")[2]]
        self.version = hashlib.sha256(body).hexdigest()[:12]
        self.address = f"/ui/static/{name}?v={self.version}"


class Renderer:
    """The templates and assets of one application."""

    def __init__(self) -> None:
        self.clock = Clock()
        self._is_live = False
        folder = files("pybatchq.dashboard") / "static"
        self.assets = {
            file.name: Asset(file.name, file.read_bytes())
            for file in folder.iterdir()
            if file.name.rpartition(".")[2] in TYPES
        }

    def render(self, template: str, **values: Any) -> str:
        return self._environment.get_template(template).render(now=self.clock.now(), **values)

    def part(self, template: str, macro: str, *values: Any) -> Markup:
        """What one macro of a template makes of these."""
        made: Markup = getattr(self._environment.get_template(template).module, macro)(*values)
        return made

    def cell(self, template: str, macro: str, *values: Any) -> Markup:
        """As part, for what is live: it is the same as long as the values are.

        Relative times are left to the page's script.
        """
        self._is_live = True
        try:
            return self.part(template, macro, *values)
        finally:
            self._is_live = False

    @cached_property
    def _environment(self) -> jinja2.Environment:
        environment = jinja2.Environment(
            loader=jinja2.PackageLoader("pybatchq.dashboard"),
            autoescape=True,
            trim_blocks=True,
            lstrip_blocks=True,
            undefined=jinja2.StrictUndefined,
            finalize=_plain,
            auto_reload=False,
        )
        environment.filters.update(
            iso=words.iso,
            when=self._when,
            waits=self._waits,
            span=_span,
            seconds=lambda s: _span(timedelta(seconds=s)),
            number=lambda n: "–" if n is None else f"{n:,}",
            per_second=lambda rate: "–" if rate is None else words.per_second(rate),
            first_line=words.first_line,
            counted=words.counted,
            json=jsontree.tree,
            part_done=part_done,
            says=says,
            kept=lambda values: json.dumps(values, default=str),
            exact=lambda text: Markup(escape(text)),  # noqa: S704  # it is escaped
            megabytes=lambda n: "–" if n is None else f"{n / 1e6:,.0f} MB",
        )
        environment.globals.update(
            asset=lambda name: self.assets[name].address,
            link=link,
            quote=lambda text: quote(text, safe=""),
        )
        return environment

    def _when(self, at: datetime | None) -> Markup:
        """A time, relative and absolute; the page's script keeps the former up to date."""
        if at is None:
            return Markup("–")
        now = self.clock.now()
        told = f"in {words.age(now, at)}" if at > now else f"{words.age(at, now)} ago"
        return self._time(at, told)

    def _waits(self, since: datetime) -> Markup:
        """How long something waits, and since when."""
        return self._time(since, words.age(since, self.clock.now()), Markup(" data-bare"))

    def _time(self, at: datetime, told: str, more: str = "") -> Markup:
        """The absolute part is short where it is of today; the attributes have all of it."""
        text, today = words.iso(at), words.iso(self.clock.now())[:10]
        short = f"{text[11:19]}Z" if text[:10] == today else f"{text[:10]} {text[11:16]}Z"
        return Markup(
            '<time datetime="{0}" title="{0}"{1}><span class="rel">{2}</span>'
            " <small>{3}</small></time>"
        ).format(text, more, "" if self._is_live else told, short)


def says(text: str, data: Mapping[str, Any]) -> Markup:
    """A sentence in which the jobs that its data name are links."""
    shown = str(escape(words.visible(text)))
    ids = [str(job_id) for job_id in data.get("job_ids") or ()]
    if data.get("probe_job_id") is not None:
        ids.append(str(data["probe_job_id"]))
    if not ids:
        return Markup(shown)  # noqa: S704  # it is escaped
    pattern = re.compile(rf"(?<![\w:.-])({'|'.join(ids)})(?![\w:-])")
    head, colon, tail = shown.rpartition(": ")
    linked = pattern.sub(lambda found: f'<a href="/ui/jobs/{found[1]}">{found[1]}</a>', tail)
    return Markup(head + colon + linked)  # noqa: S704  # it is escaped


def part_done(data: bytes | None) -> float | None:
    """From 0 to 1, where a progress says that: `0.4`, `{"done": 2, "count": 5}`, `{"percent": 40}`.

    A count may be named total.
    """
    try:
        value = None if data is None else msgspec.json.decode(data)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, dict):
        done, count = value.get("done"), value.get("count", value.get("total"))
        percent = value.get("percent")
        value = None
        if _is_number(done) and _is_number(count) and count > 0:
            value = done / count
        elif _is_number(percent):
            value = percent / 100
    return value if _is_number(value) and 0 <= value <= 1 else None


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def link(path: str, *parts: object, **query: object) -> str:
    """An address: `link('/ui/queues', 'a b', state='ready')`. What is None is left out."""
    where = "/".join([path, *(quote(str(part), safe="") for part in parts)])
    given = {name: value for name, value in query.items() if value is not None and value != ""}
    return f"{where}?{urlencode(given)}" if given else where


def _plain(value: object) -> object:
    """Text without what a reader could not see, such as escape sequences."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return words.visible(value, lines=True)
    return value


def _span(length: timedelta | None) -> str:
    return "–" if length is None else words.span(length)
