"""The files that pages load. Their addresses change with them, so browsers may keep them."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from pybatchq.api.answers import HEADERS
from pybatchq.dashboard.pages import Page, Visit
from pybatchq.dashboard.visitors import stranger

KEPT_S: Final = 31_536_000


async def asset(visit: Visit) -> web.Response:
    found = visit.renderer.assets.get(visit.path["name"])
    if found is None:
        raise web.HTTPNotFound
    kept = visit.request.query.get("v") == found.version
    caching = f"public, max-age={KEPT_S}, immutable" if kept else "no-cache"
    headers = {**HEADERS, "Content-Type": found.content_type, "Cache-Control": caching}
    return web.Response(body=found.body, headers=headers)


PAGES = (Page(path="/ui/static/{name}", handler=asset, who=stranger),)
