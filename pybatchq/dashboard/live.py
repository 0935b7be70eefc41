"""What is live on pages: one statement a second for all browsers of this process, if any watches.

A page subscribes to a view: a function from what the database says to cells, pieces of HTML by
name. Views that are alike are rendered once. A browser is sent the cells that changed; one that
does not read is sent the newest of them when it does, and is dropped if it does not for long.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from time import monotonic
from typing import Final

from pybatchq import calls
from pybatchq.api.errors import as_api_error, unavailable
from pybatchq.api.pool import Database
from pybatchq.api.shared import Shared
from pybatchq.dashboard.rendering import Clock
from pybatchq.live import Live

EVERY_S: Final = 1.0
# What takes long is asked for the less often: watching takes at most a twentieth of a connection.
TIMES: Final = 20.0
AFTER_TROUBLE_S: Final = 2.0
MOST_WATCHERS: Final = 1_000
MOST_JOBS: Final = 100
TROUBLE: Final = "trouble"

Cells = Mapping[str, str]
Render = Callable[[Live], Cells]

log = logging.getLogger("pybatchq")


class Watcher:
    """One browser's stream. `wait` gives what changed since the last time, the newest only.

    proof: the hash that admits it, as of a Visitor. is_over: its stream has to end. wants_all: it
    was not told of everything yet.
    """

    def __init__(self, proof: bytes | None) -> None:
        self.proof = proof
        self.is_over = False
        self.wants_all = True
        self._changed: dict[str, str] = {}
        self._some = asyncio.Event()

    def tell(self, cells: Cells) -> None:
        self._changed.update(cells)
        self._some.set()

    def end(self) -> None:
        self.is_over = True
        self._some.set()

    async def wait(self, timeout_s: float) -> Cells:
        """Empty if nothing changed in that time."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._some.wait()
        except TimeoutError:
            return {}
        self._some.clear()
        changed, self._changed = self._changed, {}
        return changed


class _Group:
    """Those who watch the same view."""

    def __init__(self, render: Render, job_id: int | None) -> None:
        self.render = render
        self.job_id = job_id
        self.watchers: set[Watcher] = set()
        self._cells: Cells = {}

    def tell(self, live: Live) -> None:
        """Tell everybody what changed, and all of it to who has come or was told of trouble.

        Nobody is told what was before he came. A cell that is gone is told as empty.
        """
        before, cells = self._cells, {TROUBLE: "", **self.render(live)}
        gone = dict.fromkeys(before.keys() - cells.keys(), "")
        changed = {name: text for name, text in cells.items() if before.get(name) != text}
        self._cells = cells
        for watcher in self.watchers:
            told = cells if watcher.wants_all else changed
            watcher.wants_all = False
            if told or gone:
                watcher.tell({**told, **gone})

    def tell_trouble(self) -> None:
        for watcher in self.watchers:
            watcher.wants_all = True
            watcher.tell({TROUBLE: "the database cannot be reached, trying again"})


class Hub:
    """Asks for all who watch, from open() to close()."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._shared = Shared()
        self._groups: dict[Hashable, _Group] = {}
        self._wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._last: Live | None = None
        self._last_at = 0.0
        self.is_closing = False
        self.statements = 0  # asked by the loop, not by pages

    @property
    def watchers(self) -> int:
        return sum(len(group.watchers) for group in self._groups.values())

    async def open(self) -> None:
        self._task = asyncio.ensure_future(self._run())

    async def close(self) -> None:
        self.stop()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def stop(self) -> None:
        """Let every stream end."""
        self.is_closing = True
        for watcher in self._all():
            watcher.end()

    async def look(self) -> Live:
        """What is now, for a page; those who ask at once share an answer."""
        return await self._shared("all", lambda: self._ask(()))

    async def lately(self) -> Live:
        """What is now, or was a second ago."""
        if self._last is not None and self._last_at > monotonic() - EVERY_S:
            return self._last
        return await self.look()

    @contextlib.contextmanager
    def watch(
        self,
        view: Hashable,
        render: Render,
        *,
        job_id: int | None = None,
        proof: bytes | None = None,
    ) -> Iterator[Watcher]:
        """A watcher of this view; ApiError 503 if there are too many, or they watch too many jobs.

        view: what tells it from others; job_id: the job it is about, if it is. proof: of Watcher.
        """
        is_full = job_id is not None and len(self._job_ids() | {job_id}) > MOST_JOBS
        if is_full or self.is_closing or self.watchers >= MOST_WATCHERS:
            raise unavailable("too many pages are watched", hint="close some, or add a process")
        group = self._groups.setdefault(view, _Group(render, job_id))
        watcher = Watcher(proof)
        group.watchers.add(watcher)
        self._wanted.set()
        try:
            yield watcher
        finally:
            group.watchers.discard(watcher)
            if not group.watchers and self._groups.get(view) is group:
                del self._groups[view]

    def _all(self) -> list[Watcher]:
        return [watcher for group in self._groups.values() for watcher in group.watchers]

    def _job_ids(self) -> set[int]:
        return {group.job_id for group in self._groups.values() if group.job_id is not None}

    async def _ask(self, job_ids: Sequence[int], secret_hashes: Sequence[bytes] = ()) -> Live:
        live = await self._database(
            calls.live, job_ids=list(job_ids), secret_hashes=list(secret_hashes)
        )
        self._clock.set(live.at)
        self._last, self._last_at = live, monotonic()
        return live

    async def _run(self) -> None:
        while True:
            self._wanted.clear()
            if not self._groups:
                await self._wanted.wait()
            begun = monotonic()
            try:
                await self._look_for_all()
                took_s = monotonic() - begun
                pause_s = max(EVERY_S - took_s, TIMES * took_s)
            except Exception as error:  # who watches is told, and it goes on
                if as_api_error(error) is None:
                    log.exception("looking for the dashboard failed")
                for group in self._groups.values():
                    group.tell_trouble()
                pause_s = AFTER_TROUBLE_S
            await asyncio.sleep(pause_s)

    async def _look_for_all(self) -> None:
        """One statement, and what it says to everybody. Who may not watch any more is left."""
        proofs = {watcher.proof for watcher in self._all() if watcher.proof is not None}
        self.statements += 1
        live = await self._ask(sorted(self._job_ids()), list(proofs))
        admitted = {bytes.fromhex(proof) for proof in live.admitted}
        for watcher in self._all():
            # those who came meanwhile were admitted meanwhile
            if watcher.proof is None:
                is_over = live.has_tokens
            else:
                is_over = watcher.proof in proofs - admitted
            if is_over:
                watcher.end()
        for group in list(self._groups.values()):
            try:
                group.tell(live)
            except Exception:  # the others are not to suffer for it
                log.exception("a page of the dashboard cannot be shown")
