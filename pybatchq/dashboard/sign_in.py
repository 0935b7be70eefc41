"""Signing in with a token of the API, and out."""

from __future__ import annotations

from typing import Final

from aiohttp import web
from msgspec import Struct

from pybatchq.dashboard.pages import HOME, SIGN_IN, Page, Visit, is_own
from pybatchq.dashboard.visitors import (
    MOST_SECRET,
    close_session,
    new_secret,
    open_session,
    set_cookie,
    stranger,
)

WRONG: Final = "This token is unknown, revoked or expired."


class SignInQuery(Struct, frozen=True):
    """next: where to go then."""

    next: str = HOME


async def show(visit: Visit) -> web.Response:
    return visit.page("sign_in.html", next=_own(visit.query(SignInQuery).next), wrong=None)


async def sign_in(visit: Visit) -> web.Response:
    token, where = visit.field("token").strip(), _own(visit.field("next"))
    secret = None
    if 0 < len(token) <= MOST_SECRET:
        secret = await open_session(visit.services, token)
    if secret is None:
        return visit.page("sign_in.html", status=401, next=where, wrong=WRONG)
    response = visit.lead(where)
    set_cookie(visit.request, response, secret)
    return response


async def sign_out(visit: Visit) -> web.Response:
    if visit.visitor.secret is not None:
        await close_session(visit.services, visit.visitor.secret)
    response = visit.lead(SIGN_IN)
    set_cookie(visit.request, response, new_secret())
    return response


def _own(where: str) -> str:
    """A path of ours: nobody is led to another site."""
    return where if is_own(where) else HOME


PAGES = (
    Page(path=SIGN_IN, handler=show, who=stranger),
    Page(method="POST", path=SIGN_IN, handler=sign_in, who=stranger),
    Page(method="POST", path="/ui/sign-out", handler=sign_out, who=stranger),
)
