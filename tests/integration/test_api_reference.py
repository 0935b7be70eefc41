"""GET /reference: one page with every route, and nothing from outside."""

from __future__ import annotations

import base64
import hashlib
import re
import shlex
from html.parser import HTMLParser
from typing import Any

import msgspec
import pytest

from pybatchq.api import openapi, reference
from pybatchq.api.routes import Call, NoQuery, Route
from pybatchq.api.table import TABLE
from tests.support.api import Answer, Api, serving

# Elements that have no end tag.
VOID = {"meta", "link", "br", "hr", "img", "input"}
# Attributes that make a browser ask for something, or do something.
URLS = {"href", "src", "action", "srcset", "poster", "data", "background", "formaction"}
PAGE, POLICY = reference.rendered(TABLE)
IDS = openapi.operation_ids(TABLE)


class Page(HTMLParser):
    """A page's elements, text by element id, and what does not fit together."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.curls: list[str] = []
        self.styles: list[str] = []
        self.articles: dict[str, str] = {}
        self.wrong: list[str] = []
        self._open: list[str] = []
        self._article = ""
        self.feed(html)
        self.close()
        self.wrong += [f"<{tag}> is not closed" for tag in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.elements.append((tag, given))
        if tag not in VOID:
            self._open.append(tag)
        if tag == "article":
            self._article = given["id"]
            self.articles[self._article] = ""

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.wrong.append(f"</{tag}> at {self.getpos()}")
        if tag == "article":
            self._article = ""

    def handle_data(self, data: str) -> None:
        if self._article:
            self.articles[self._article] += data
        if self._open[-2:] == ["pre", "code"] and data.startswith("curl "):
            self.curls.append(data)
        if self._open[-1:] == ["style"]:
            self.styles.append(data)


SHOWN = Page(PAGE)


async def page(db: str) -> Answer:
    async with serving(db) as api:
        return await api.get("/reference")


async def test_the_page_is_served_with_a_policy_of_its_own(db: str) -> None:
    answer = await page(db)
    assert (answer.status, answer.text) == (200, PAGE)
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    policy = dict(part.strip().split(" ", 1) for part in POLICY.split(";"))
    assert answer.headers["Content-Security-Policy"] == POLICY
    assert policy.pop("style-src").startswith("'sha256-")
    assert set(policy.values()) == {"'none'"}
    assert set(policy) == {"default-src", "base-uri", "form-action", "frame-ancestors"}


def test_the_only_style_is_the_one_that_the_policy_allows() -> None:
    (style,) = SHOWN.styles
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in POLICY
    assert not [attrs for _, attrs in SHOWN.elements if "style" in attrs]


def test_the_page_is_sound_html() -> None:
    assert PAGE.startswith("<!doctype html>")
    assert SHOWN.wrong == []
    ids = [attrs["id"] for _, attrs in SHOWN.elements if "id" in attrs]
    assert len(set(ids)) == len(ids)
    assert ("html", {"lang": "en"}) in SHOWN.elements
    viewport = {"name": "viewport", "content": "width=device-width, initial-scale=1"}
    assert ("meta", viewport) in SHOWN.elements


def test_nothing_comes_from_outside_and_nothing_runs() -> None:
    tags = {tag for tag, _ in SHOWN.elements}
    assert not tags & {"script", "link", "img", "iframe", "object", "embed", "form", "base"}
    for tag, attrs in SHOWN.elements:
        assert not [name for name in attrs if name.startswith("on")], tag
        for name in URLS & attrs.keys():
            assert re.fullmatch(r"#[\w-]+|openapi\.json", attrs[name]), (tag, attrs)
    assert "url(" not in SHOWN.styles[0]
    assert "@import" not in SHOWN.styles[0]


def test_every_link_within_the_page_leads_somewhere() -> None:
    ids = {attrs["id"] for _, attrs in SHOWN.elements if "id" in attrs}
    links = {attrs["href"][1:] for _, attrs in SHOWN.elements if attrs.get("href", "")[:1] == "#"}
    assert links <= ids


@pytest.mark.parametrize(
    "route", TABLE, ids=lambda route: f"{route.method} {openapi.path_of(route)}"
)
def test_every_route_is_on_the_page_with_all_it_takes(route: Route) -> None:
    operation = openapi.document(TABLE)["paths"][openapi.path_of(route)][route.method.lower()]
    text = SHOWN.articles[operation["operationId"]]
    assert route.method in text
    assert openapi.path_of(route) in text
    assert route.summary in text
    assert f"scope {route.scope}" in text if route.scope else "no token" in text
    for status in operation["responses"]:
        assert re.search(rf"\b{status}\b", text)
    for one in operation["parameters"]:
        assert one["name"] in text
        assert one.get("description", "") in text
    fields = getattr(openapi.alternatives(route.body or NoQuery)[0], "__struct_fields__", ())
    assert [name for name in fields if name not in text] == []
    assert "curl" in text
    assert [a for t, a in SHOWN.elements if a.get("href") == f"#{IDS[route]}"]


def test_fields_have_their_bounds() -> None:
    text = SHOWN.articles["enqueue"]
    assert "an integer from -32768 to 32767" in text
    assert re.search(r"kind\s+string\s+a text of 1 to 255 characters", text)
    assert re.search(r"limit\s+integer\s+a number from 1 to 500; if it is left out: 50",
                     SHOWN.articles["list_jobs"])  # fmt: skip


def test_dark_and_light_are_both_there() -> None:
    assert "color-scheme: light dark" in SHOWN.styles[0]
    assert "prefers-color-scheme: dark" in SHOWN.styles[0]


def test_what_routes_say_is_text_not_html() -> None:
    class Query(msgspec.Struct, forbid_unknown_fields=True):
        """A `<b>` of a query."""

        a: str = '<script>alert("x")</script>'

    async def handler(_call: Call[Query, None]) -> Any:
        raise NotImplementedError

    summary = "<img src=x onerror=alert(1)> & `<i>`"
    bad = Route(
        method="GET", path="/<b>", handler=handler, summary=summary, scope=None, query=Query
    )
    shown = Page(reference.rendered((bad,))[0])
    assert not {"img", "script", "i"} & {tag for tag, _ in shown.elements}
    assert "<img src=x onerror=alert(1)> & <i>" in shown.articles["handler"]
    assert shown.wrong == []


async def ask(api: Api, line: str) -> Answer:
    """What a shell would have curl do."""
    words = shlex.split(line.replace("\\\n", " "))
    assert words.pop(0) == "curl"
    method, headers, body, url = "GET", {}, None, ""
    while words:
        match words.pop(0):
            case "-X":
                method = words.pop(0)
            case "-H":
                name, _, value = words.pop(0).partition(": ")
                headers[name] = value
            case "-d":
                body, method = words.pop(0).encode(), "POST" if method == "GET" else method
            case other:
                url = other
    headers.pop("Authorization", None)
    path = url.removeprefix(reference.HERE)
    assert path.startswith("/")
    return await api.ask(method, path, data=body, headers=headers)


async def test_every_curl_line_works(db: str) -> None:
    assert len(SHOWN.curls) == len(TABLE)
    async with serving(db) as api:
        for line in SHOWN.curls:
            answer = await ask(api, line)
            assert answer.status in {200, 201, 202, 204, 404, 409}, (line, answer.text)
            assert answer.json["code"][:2] == "JQ" if answer.status >= 400 else True, line
