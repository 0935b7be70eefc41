"""Pages of the dashboard as a browser without scripts has them: parsed, followed, submitted."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html.parser import HTMLParser
from http.cookies import Morsel, SimpleCookie
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

from pybatchq import calls
from tests.conftest import Connection
from tests.support.api import Api

VOID = frozenset({"area", "base", "br", "col", "hr", "img", "input", "link", "meta", "wbr"})
# What ends an open <p> by itself, so that what follows is outside it.
BLOCKS = frozenset(
    {"article", "details", "div", "dl", "fieldset", "form", "h1", "h2", "ol", "p", "pre",
     "section", "table", "ul"}
)  # fmt: skip
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
SESSION = "batchq_session"
SAID = "batchq_said"
Fields = Mapping[str, str] | Sequence[tuple[str, str]]


@dataclass(eq=False, slots=True)
class Element:
    """parents: from the outermost; text: of everything in it."""

    tag: str
    attributes: dict[str, str]
    parents: tuple[Element, ...]
    text: str = ""

    def get(self, name: str) -> str:
        return self.attributes.get(name, "")

    def within(self, tag: str) -> Element | None:
        return next((one for one in reversed(self.parents) if one.tag == tag), None)


class Document(HTMLParser):
    """faults: what a strict reader minds."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[Element] = []
        self.faults: list[str] = []
        self._open: list[Element] = []
        self.feed(text)
        self.close()
        self.faults += [f"<{one.tag}> is never closed" for one in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        if len(set(names)) != len(names):
            self.faults.append(f"<{tag}> has an attribute twice: {names}")
        here = Element(tag, {k: v or "" for k, v in attrs}, tuple(self._open))
        if tag in BLOCKS and here.within("p"):
            self.faults.append(f"<{tag}> within <p>")
        self.elements.append(here)
        if tag not in VOID:
            self._open.append(here)

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open[-1].tag != tag:
            self.faults.append(f"</{tag}> closes {[one.tag for one in self._open[-3:]]}")
        else:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        for one in self._open:
            one.text += data

    def all(self, *tags: str, **attributes: str) -> list[Element]:
        return [
            one
            for one in self.elements
            if (not tags or one.tag in tags)
            and all(one.get(name.replace("_", "-")) == v for name, v in attributes.items())
        ]

    @property
    def links(self) -> list[str]:
        """Where its links lead, those within the page left out."""
        return [a.get("href").partition("#")[0] for a in self.all("a") if a.get("href")[:1] != "#"]

    def audit(self) -> list[str]:
        """The faults, those of what is said to users of a screen reader too."""
        return [*self.faults, *self._strays(), *self._nameless(), *self._loaded()]

    def _strays(self) -> Iterator[str]:
        ids = [one.get("id") for one in self.elements if "id" in one.attributes]
        yield from (f"id {name!r} twice" for name in set(ids) if ids.count(name) > 1)
        for one in self.elements:
            for name in ("for", "aria-labelledby", "aria-describedby"):
                for target in one.get(name).split():
                    if target not in ids:
                        yield f"<{one.tag} {name}={target!r}> names nothing"

    def _nameless(self) -> Iterator[str]:
        labels = {label.get("for") for label in self.all("label")}
        for one in self.all("input", "select", "textarea"):
            is_named = "aria-label" in one.attributes or one.get("id") in labels - {""}
            if one.get("type") != "hidden" and not is_named and one.within("label") is None:
                yield f"<{one.tag} name={one.get('name')!r}> has no label"
        for one in self.all("button", "a", "label", "summary", "title", "h1", "h2", "th"):
            images = [img.get("alt") for img in self.all("img", "input") if one in img.parents]
            if not (one.text.strip() or any(images) or one.get("aria-label") or images):
                yield f"<{one.tag} {one.attributes}> says nothing"
        for one in self.all("img"):
            if "alt" not in one.attributes:
                yield "<img> without alt"
        titles = [one for one in self.all("title") if one.within("svg") is None]
        if not len(self.all("h1")) == len(self.all("main")) == len(titles) == 1:
            yield "not one h1, main and title"

    def _loaded(self) -> Iterator[str]:
        """What the policy forbids, or comes from elsewhere."""
        for one in self.elements:
            yield from (f"<{one.tag} {name}>" for name in one.attributes if name[:2] == "on")
            if "style" in one.attributes or one.tag in {"style", "iframe", "object", "base"}:
                yield f"<{one.tag}> has a style or is one"
            if one.tag == "script" and not one.get("src"):
                yield "a script within the page"
            for name in ("href", "src", "action"):
                where = one.get(name)
                if name in one.attributes and (where[:1] not in {"/", "#"} or where[:2] == "//"):
                    yield f"<{one.tag} {name}={where!r}> leads elsewhere"


@dataclass(frozen=True)
class Shown:
    """An answer, as a page."""

    status: int
    headers: Mapping[str, str]
    text: str
    path: str
    set_cookies: dict[str, Morsel[str]] = field(default_factory=dict)

    @cached_property
    def document(self) -> Document:
        return Document(self.text)

    @property
    def location(self) -> str:
        return self.headers.get("Location", "")

    @property
    def said(self) -> str:
        """The message at the top that is told once."""
        return "".join(p.text for p in self.document.all("p") if p.get("class") == "said")

    def form(self, action: str, *, of: str = "", value: str = "") -> dict[str, str]:
        """The fields of the form that leads there, as they stand; of, value: and has this field."""
        for form in self.document.all("form", action=action):
            fields = [one for one in self.document.all("input", "select") if form in one.parents]
            given = {one.get("name"): self._value(one) for one in fields if one.get("name")}
            kept = [json.loads(one.get("value")) for one in fields if one.get("name") == "kept"]
            if kept:
                given["kept"] = json.dumps({k: v for values in kept for k, v in values.items()})
            if not of or opened(given).get(of) == value:
                return given
        raise AssertionError(f"{self.path} has no form to {action} with {of} {value}")

    def _value(self, one: Element) -> str:
        if one.tag == "input":
            return one.get("value")
        options = [option for option in self.document.all("option") if one in option.parents]
        chosen = [option for option in options if "selected" in option.attributes]
        return (chosen or options)[0].get("value")


def filled(pattern: str, job: int = 1, queue: str = "q") -> str:
    """A path of the table of pages."""
    parts = {"queue": queue, "id": str(job), "part": "payload", "name": "style.css",
             "worker_id": "01890a5d-ac96-774b-bcce-b302099a8057"}  # fmt: skip
    return re.sub(r"\{(\w+)(?::[^}]*)?\}", lambda found: parts[found[1]], pattern)


def opened(fields: Mapping[str, str]) -> dict[str, str]:
    """The fields of a form, those too that it carries in one, as JSON."""
    kept = json.loads(fields.get("kept", "{}"))
    return {**kept, **{name: value for name, value in fields.items() if name != "kept"}}


class Browser:
    """Keeps cookies, follows no redirect by itself. headers: sent with everything."""

    def __init__(self, api: Api, headers: Mapping[str, str] | None = None) -> None:
        self.api = api
        self.headers = dict(headers or {})
        self.cookies: dict[str, str] = {}

    async def ask(self, method: str, path: str, **options: Any) -> Shown:
        headers = {**self.headers, **options.pop("headers", {})}
        if self.cookies:
            headers.setdefault("Cookie", "; ".join(f"{k}={v}" for k, v in self.cookies.items()))
        answer = await self.api.ask(method, path, headers=headers, **options)
        set_cookies: SimpleCookie = SimpleCookie()
        for line in getattr(answer.headers, "getall")("Set-Cookie", []):  # noqa: B009
            set_cookies.load(line)
        for name, morsel in set_cookies.items():
            if morsel["max-age"] in {"0", 0}:
                self.cookies.pop(name, None)
            else:
                self.cookies[name] = morsel.value
        return Shown(answer.status, answer.headers, answer.text, path, dict(set_cookies))

    async def get(self, path: str, **options: Any) -> Shown:
        return await self.ask("GET", path, **options)

    async def page(self, path: str) -> Shown:
        """A page that is there and has no fault."""
        shown = await self.get(path)
        assert shown.status == 200, (path, shown.status, shown.location, shown.text[-600:])
        assert shown.document.audit() == [], path
        return shown

    async def send(
        self, path: str, fields: Fields = (), *, headers: Mapping[str, str] | None = None
    ) -> Shown:
        """Post a form, with the mark of this session unless one is among the fields."""
        items = list(fields.items() if isinstance(fields, Mapping) else fields)
        if not any(name == "mark" for name, _ in items):
            items.append(("mark", await self.mark()))
        sent = {**FORM, **(headers or {})}
        return await self.ask("POST", path, data=urlencode(items).encode(), headers=sent)

    async def mark(self) -> str:
        shown = await self.get("/ui/jobs")
        if shown.status != 200:
            shown = await self.get("/ui/sign-in")
        return shown.document.all("input", name="mark")[0].get("value")

    async def submit(
        self, page: Shown, to: str, *, of: str = "", value: str = "", **fields: str
    ) -> Shown:
        """Send a form of a page, with some fields changed."""
        return await self.send(to, {**page.form(to, of=of, value=value), **fields})

    async def follow(self, shown: Shown) -> Shown:
        """Where an answer leads; it has to lead."""
        assert shown.status == 303, (shown.status, shown.text[-600:])
        return await self.page(shown.location)

    async def sign_in(self, secret: str, where: str = "/") -> Shown:
        page = await self.get("/ui/sign-in?" + urlencode({"next": where}))
        return await self.submit(page, "/ui/sign-in", token=secret)


async def token(
    conn: Connection, *scopes: Any, queues: Iterable[str] | None = None, name: str = "", **more: Any
) -> str:
    """The secret of a new token."""
    secret = f"bq_{uuid4().hex}"
    digest = hashlib.sha256(secret.encode()).digest()
    await calls.create_token(
        conn, name=name or f"token {uuid4()}", secret_hash=digest, scopes=list(scopes),
        queues=None if queues is None else list(queues), **more,
    )  # fmt: skip
    return secret


async def dead(conn: Connection, error: str = "boom", **more: Any) -> int:
    """A new dead letter."""
    queue = more.pop("queue", "default")
    job_id = await calls.enqueue(conn, more.pop("kind", "k"), queue=queue, **more)
    (job,) = await calls.lease(conn, queue=queue, worker="w1")
    await calls.fail(conn, job_id=job_id, lease_id=job.lease_id, error=error, permanent=True)
    return job_id
