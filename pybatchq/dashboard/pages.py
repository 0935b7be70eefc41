"""One page: what it takes, who may see it, how it is rendered.

A handler gets a Visit, calls, and renders a template or leads elsewhere. A GET changes nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl, quote, unquote, urlencode

import msgspec
from aiohttp import web
from msgspec import Struct

from pybatchq.api import bodies
from pybatchq.api.answers import HEADERS
from pybatchq.api.auth import Caller
from pybatchq.api.decoding import parameters
from pybatchq.api.errors import ApiError, invalid, refused
from pybatchq.api.pool import Acting
from pybatchq.api.services import Services
from pybatchq.dashboard.rendering import Renderer
from pybatchq.dashboard.visitors import MARK, Visitor, set_cookie, visitor_of
from pybatchq.types import Scope

Q = TypeVar("Q", bound=Struct)
Handler = Callable[["Visit"], Awaitable[web.StreamResponse]]
Served = Callable[[web.Request], Awaitable[web.StreamResponse]]

HOME: Final = "/"
SIGN_IN: Final = "/ui/sign-in"
SAID: Final = "batchq_said"
KEPT: Final = "kept"
MOST_FORM: Final = 256 * 1024
MOST_FIELDS: Final = 2_000
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HTML_HEADERS: Final = {
    **HEADERS,
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "same-origin",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """method, path: as aiohttp has them. scope: what a POST needs; every visitor may look.

    who: finds the visitor; a page that strangers may see has another.
    """

    path: str
    handler: Handler
    method: str = "GET"
    scope: Scope = "monitor"
    who: Callable[[web.Request, Services], Awaitable[Visitor]] = visitor_of


class Visit:
    """One request, as its handler sees it. form: the fields of a POST, without its mark."""

    __slots__ = ("form", "renderer", "request", "services", "visitor")

    def __init__(
        self, request: web.Request, services: Services, visitor: Visitor, renderer: Renderer
    ) -> None:
        self.request = request
        self.services = services
        self.visitor = visitor
        self.renderer = renderer
        self.form: list[tuple[str, str]] = []

    @property
    def caller(self) -> Caller:
        return self.visitor.caller

    @property
    def path(self) -> Mapping[str, str]:
        """The parts of the path that its pattern names."""
        return self.request.match_info

    @property
    def here(self) -> str:
        """The address of this page, to come back to."""
        return self.request.rel_url.raw_path_qs

    def may(self, scope: Scope) -> bool:
        """Whether the visitor may do what needs this scope here."""
        return scope in self.caller.scopes and not self.services.settings.read_only

    def query(self, struct: type[Q]) -> Q:
        """The parameters of the address; empty ones are not given."""
        given = {name: value for name, value in self.request.query.items() if value != ""}
        return parameters(given, struct)

    def field(self, name: str) -> str:
        """A field of the form, `` if it is not there."""
        return next((value for field, value in self.form if field == name), "")

    def fields(self, name: str) -> list[str]:
        return [value for field, value in self.form if field == name]

    @property
    def acting(self) -> Acting:
        """To call functions in this visitor's name, which the audit will tell."""
        return self.services.db.acting(self.caller.actor)

    def page(self, template: str, *, status: int = 200, **values: Any) -> web.Response:
        """A page, with what every page shows."""
        said = unquote(self.request.cookies.get(SAID, ""))
        html = self.renderer.render(template, visit=self, said=said, **values)
        body = html.encode("utf-8", "replace")
        response = web.Response(body=body, status=status, headers=HTML_HEADERS)
        if said:
            response.del_cookie(SAID, path="/")
        return self.with_cookie(response)

    def lead(self, where: str, said: str = "", **query: str) -> web.Response:
        """Elsewhere, by GET; said: what is told there at the top, once."""
        if query:
            where += f"?{urlencode(query)}"
        response = web.Response(status=303, headers={**HTML_HEADERS, "Location": where})
        if said:
            response.set_cookie(
                SAID, quote(said[:500]), path="/", httponly=True, samesite="Lax", max_age=60
            )
        return self.with_cookie(response)

    def with_cookie(self, response: web.Response) -> web.Response:
        if self.visitor.is_new and self.visitor.secret is not None:
            set_cookie(self.request, response, self.visitor.secret)
        return response


def served(page: Page, services: Services, renderer: Renderer) -> Served:
    """A page as a handler of aiohttp."""

    async def serve(request: web.Request) -> web.StreamResponse:
        visit = Visit(request, services, await page.who(request, services), renderer)
        if request.method == "POST":
            await _admit_form(page, visit)
        return await page.handler(visit)

    return serve


def is_own(where: str) -> bool:
    """Whether this leads to one of our pages, whatever a browser makes of it."""
    return where == HOME or (
        where.startswith(("/ui/", "/?")) and "\\" not in where and where.isprintable()
    )


async def _admit_form(page: Page, visit: Visit) -> None:
    """Read the form; ApiError if it is not from our page, or the visitor may not send it."""
    request, site = visit.request, visit.request.headers.get("Sec-Fetch-Site", "same-origin")
    if site not in {"same-origin", "none"}:
        raise refused(403, "this form comes from another site")
    kind = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise refused(415, f"the body's type is {kind[:80] or 'none'}, not that of a form")
    body = await bodies.read(request, MOST_FORM)
    try:
        fields = parse_qsl(
            body.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict"
        )
    except ValueError:
        raise invalid("the form cannot be read") from None
    visit.form = [
        field
        for name, value in fields
        if name != MARK
        for field in (_kept(value) if name == KEPT else [(name, value)])
    ]
    visit.visitor.check_mark(next((value for name, value in fields if name == MARK), ""))
    if page.scope != "monitor" and not visit.may(page.scope):
        if visit.services.settings.read_only:
            raise refused(403, "this API is read-only", name="read_only")
        has = ", ".join(sorted(visit.caller.scopes))
        raise refused(403, f"this needs scope {page.scope}", hint=f"you are signed in with {has}")


def _kept(text: str) -> list[tuple[str, str]]:
    """What a page hid in its form, character by character: a browser changes ends of lines."""
    try:
        return list(msgspec.json.decode(text, type=dict[str, str]).items())
    except msgspec.MsgspecError:
        raise invalid("the form cannot be read") from None


def error_page(
    request: web.Request, services: Services, renderer: Renderer, error: ApiError
) -> web.Response:
    """An error for people. Whoever has to sign in is led there."""
    if error.status == 401 and "Authorization" not in request.headers:
        where = request.rel_url.raw_path_qs if request.method in {"GET", "HEAD"} else HOME
        location = f"{SIGN_IN}?{urlencode({'next': where})}"
        return web.Response(status=303, headers={**HTML_HEADERS, "Location": location})
    nobody = Visitor(Caller("", frozenset()), None)
    visit = Visit(request, services, nobody, renderer)
    response = visit.page("error.html", status=error.status, error=error.body)
    for name, value in error.headers.items():
        response.headers[name] = value
    return response
