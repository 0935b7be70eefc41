"""One chromium for all; a database with scenery, an API and browsers without a past for each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from tests.browser import scenery
from tests.browser.dashboard import (
    PATIENCE_MS,
    Dashboard,
    NoBrowserError,
    browser,
    executable,
    scene,
    shown,
)
from tests.support.servers import Databases

expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="session")
def program() -> str:
    try:
        return executable()
    except NoBrowserError as error:
        pytest.skip(str(error))


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chromium(program: str) -> AsyncIterator[Browser]:
    async with browser() as chromium:
        yield chromium


@pytest.fixture(scope="session")
def scene_name(server: Databases, template: str) -> Iterator[str]:
    name = scene(server, template)
    yield name
    server.drop(name)


@pytest.fixture
def world(server: Databases, scene_name: str) -> Iterator[str]:
    """The connection string of a fresh database with the scenery."""
    with server.fresh(scene_name) as dsn:
        yield dsn


@pytest_asyncio.fixture(loop_scope="session")
async def shop(chromium: Browser, world: str) -> AsyncIterator[Dashboard]:
    """The dashboard of the scenery."""
    async with shown(chromium, world) as dashboard:
        await scenery.wake(dashboard.conn)
        yield dashboard
    assert not dashboard.troubles


@pytest_asyncio.fixture(loop_scope="session")
async def bare(chromium: Browser, db: str) -> AsyncIterator[Dashboard]:
    """The dashboard of a database in which nothing happened yet."""
    async with shown(chromium, db) as dashboard:
        yield dashboard
    assert not dashboard.troubles
