"""Write docs/screenshots: each page in light, in dark and on a phone.

python -m tests.browser.screenshots
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.browser import scenery
from tests.browser.addresses import addresses
from tests.browser.dashboard import Dashboard, browser, scene, shown
from tests.support import servers

FOLDER: Final = Path(__file__).parents[2] / "docs/screenshots"
TAKEN: Final = (
    "overview", "queue", "queue-groups", "queue-settings", "jobs", "job-running", "job-failed",
    "dead-letters", "throughput", "workers", "audit", "sign-in",
)  # fmt: skip
PLACES: Final = {"queue-settings": "#settings", "queue-groups": "#groups"}
WIDE: Final = {"width": 1280, "height": 720}
PHONE: Final = {"width": 390, "height": 780}
LOOKS: Final[dict[str, dict[str, Any]]] = {
    "light": {"viewport": WIDE, "color_scheme": "light"},
    "dark": {"viewport": WIDE, "color_scheme": "dark"},
    "phone": {"viewport": PHONE, "color_scheme": "light", "is_mobile": True, "has_touch": True},
}


def take_all() -> None:
    with _world() as dsn:
        asyncio.run(_take_all(dsn))
    sizes = [path.stat().st_size for path in FOLDER.glob("*.png")]
    print(f"{len(sizes)} pictures, {sum(sizes) / 1e6:.2f} MB, in {FOLDER}")


@contextlib.contextmanager
def _world() -> Iterator[str]:
    with servers.chosen(None, None) as databases:
        template = databases.installed()
        yield databases.dsn(scene(databases, template))


async def _take_all(dsn: str) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    async with browser() as chromium, shown(chromium, dsn) as dashboard:
        await scenery.wake(dashboard.conn)
        paths = await addresses(dashboard.conn)
        for look, options in LOOKS.items():
            await _take(dashboard, paths, look, options)


async def _take(
    dashboard: Dashboard, paths: dict[str, str], look: str,
    options: dict[str, Any],
) -> None:  # fmt: skip
    page = await dashboard.open(**options, reduced_motion="reduce")
    for name in TAKEN:
        await dashboard.goto(page, paths[name] + PLACES.get(name, ""))
        if await page.locator("body[data-watch]").count():
            await page.locator("#live-state.on").wait_for()
        await page.screenshot(path=FOLDER / f"{name}-{look}.png", animations="disabled")


if __name__ == "__main__":
    take_all()
