"""The dashboard in a real browser, and everything that went wrong in it."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

import psycopg
from aiohttp import web
from playwright.async_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Dialog,
    Page,
    Request,
    async_playwright,
)

from pybatchq import calls
from pybatchq.api.auth import digest_of
from pybatchq.dashboard.context import HUB
from pybatchq.dashboard.live import Hub
from pybatchq.types import Scope
from tests.browser import scenery
from tests.conftest import Connection
from tests.support.api import running, url_of
from tests.support.servers import Databases

PATIENCE_MS: Final = 15_000
REFUSED: Final = "Failed to load resource: the server responded with a status of"
# A policy that was broken is told to nobody but the page.
WATCH: Final = """
    document.addEventListener("securitypolicyviolation", (event) => console.error(
        "CSP " + event.violatedDirective + " " + event.blockedURI + " " + event.sample));
"""


class NoBrowserError(Exception):
    """The text says what to install."""


def executable() -> str:
    """Debian's chromium, or another of that name; NoBrowserError if there is none."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        raise NoBrowserError("needs a chromium; Debian's package is chromium")
    return found


@contextlib.asynccontextmanager
async def browser() -> AsyncIterator[Browser]:
    program = executable()
    async with async_playwright() as playwright:
        options = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        chromium = await playwright.chromium.launch(executable_path=program, args=options)
        yield chromium
        await chromium.close()


@dataclass  # no slots: Playwright keeps its wrappers of our methods on it
class Dashboard:
    """One API with its dashboard, its database, and browsers that look at it.

    conn: a superuser's session, to set scenes and to look behind them. troubles: what a browser
    said that it should not have; a test must end with none.
    """

    chromium: Browser
    app: web.Application
    url: str
    dsn: str
    conn: Connection
    troubles: list[str] = field(default_factory=list)
    _contexts: list[BrowserContext] = field(default_factory=list)

    @property
    def hub(self) -> Hub:
        return self.app[HUB]

    async def open(self, path: str = "/", **options: Any) -> Page:
        """A browser of its own, with nothing kept from another, that is at this page."""
        context = await self.chromium.new_context(**{"locale": "en-GB", **options})
        context.set_default_timeout(PATIENCE_MS)
        self._contexts.append(context)
        await context.add_init_script(WATCH)
        context.on("console", self._heard)
        context.on("weberror", lambda error: self.troubles.append(f"threw {error.error}"))
        context.on("request", self._asked)
        context.on("dialog", self._dialog)
        page = await context.new_page()
        await page.goto(self.url + path)
        return page

    async def goto(self, page: Page, path: str) -> None:
        await page.goto(self.url + path)

    async def token(self, name: str, *scopes: Scope) -> str:
        """A new token of the API; from then on nobody does anything without one."""
        secret = f"bq_of_{'_'.join(scopes)}_{len(name)}_{'x' * 20}"
        await calls.create_token(self.conn, name=name, secret_hash=digest_of(secret), scopes=scopes)
        return secret

    async def sign_in(self, page: Page, token: str) -> None:
        await page.get_by_label("Token of the API").fill(token)
        await page.get_by_role("button", name="Sign in").click()
        await page.get_by_role("button", name="Sign out").wait_for()

    def forgive(self, part: str) -> None:
        """What is in a test's plan; it must have happened."""
        kept = [one for one in self.troubles if part not in one]
        assert len(kept) < len(self.troubles), f"nobody said {part}: {self.troubles}"
        self.troubles[:] = kept

    async def close(self) -> None:
        for context in self._contexts:
            await context.close()

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.troubles.append(f"{message.type}: {message.text}")

    def _asked(self, request: Request) -> None:
        if not request.url.startswith((self.url, "blob:", "data:")):
            self.troubles.append(f"asked {urlsplit(request.url).netloc}: {request.url}")

    async def _dialog(self, dialog: Dialog) -> None:
        self.troubles.append(f"a script ran: {dialog.message}")
        await dialog.dismiss()


@contextlib.asynccontextmanager
async def shown(chromium: Browser, dsn: str, **settings: str) -> AsyncIterator[Dashboard]:
    """The dashboard of a database, in this event loop."""
    conn: Connection = await psycopg.AsyncConnection.connect(dsn, autocommit=True)
    async with conn, running(dsn, **settings) as (app, server):
        dashboard = Dashboard(chromium, app, url_of(server), dsn, conn)
        try:
            yield dashboard
        finally:
            await dashboard.close()


def scene(server: Databases, template: str) -> str:
    """The name of a new database with the scenery in it, to be copied."""
    name = server.create(template)

    async def build() -> None:
        conn: Connection = await psycopg.AsyncConnection.connect(server.dsn(name), autocommit=True)
        async with conn:
            await scenery.build(conn)

    asyncio.run(build())
    return name
