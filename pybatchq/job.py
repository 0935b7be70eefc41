"""What a handler is told about its job, and what it can do with it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, MutableMapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from datetime import UTC, datetime, timedelta
from time import monotonic
from types import TracebackType
from typing import Any, NoReturn
from uuid import UUID

from pybatchq import calls, jsontext
from pybatchq.errors import Cancelled, InvalidArgumentError, Snooze
from pybatchq.types import JobId, LeaseId, WorkItem

MAX_PROGRESS_BYTES = 65_536

_log = logging.getLogger("pybatchq.job")

SaveProgress = Callable[[WorkItem, str], None]


class Job:
    """The job of a handler. Everything here may be used from a thread.

    `cancelled` becomes true when the job was asked to stop, its time is over, its lease is lost or
    the worker shuts down. A coroutine is cancelled as well; a thread or process has to look.
    """

    __slots__ = ("_item", "_log", "_save", "_started", "_uuids", "cancelled")

    def __init__(self, item: WorkItem, uuids: int, save: SaveProgress) -> None:
        """uuids: the number of the installation's UUID for job 0; see calls.job_uuid."""
        self._item = item
        self._uuids = uuids
        self._save = save
        self._started = monotonic()
        self._log: logging.LoggerAdapter[logging.Logger] | None = None
        self.cancelled = False

    @property
    def id(self) -> JobId:
        return self._item.job_id

    @property
    def uuid(self) -> UUID:
        return UUID(int=self._uuids | self._item.job_id)

    @property
    def lease_id(self) -> LeaseId:
        """Grows with every lease and never comes back: a fencing token for other systems."""
        return self._item.lease_id

    @property
    def queue(self) -> str:
        return self._item.queue

    @property
    def kind(self) -> str:
        return self._item.kind

    @property
    def attempt(self) -> int:
        """1 for the first. More than one attempt may have done its work: be idempotent."""
        return self._item.attempt

    @property
    def max_attempts(self) -> int:
        return self._item.max_attempts

    @property
    def headers(self) -> dict[str, Any]:
        headers = self._item.headers
        return {} if headers is None else dict(jsontext.decode(headers))

    @property
    def deadline(self) -> datetime | None:
        """When the job's timeout ends this attempt, by this machine's clock."""
        if self._item.timeout_s is None:
            return None
        left_s = self._started + self._item.timeout_s - monotonic()
        return datetime.now(UTC) + timedelta(seconds=left_s)

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        """A logger whose records carry job_id, kind, queue and attempt."""
        if self._log is None:
            item = self._item
            fields = {
                "job_id": item.job_id, "kind": item.kind, "queue": item.queue,
                "attempt": item.attempt,
            }  # fmt: skip
            self._log = _JobLog(_log, fields)
        return self._log

    def check(self) -> None:
        """Raise Cancelled if the job was asked to stop: for the loops of threads and processes."""
        if self.cancelled:
            raise Cancelled

    def progress(self, value: Any) -> None:
        """Say how far the job has come: any JSON value of at most 64 KiB.

        Cheap: it is written within about a second, and only the newest value. InvalidArgumentError
        if it is no JSON or too large.
        """
        text = jsontext.encode(value)
        if len(text) > MAX_PROGRESS_BYTES or len(text.encode()) > MAX_PROGRESS_BYTES:
            raise InvalidArgumentError("progress is over 64 KiB", hint="keep it short")
        self._save(self._item, text)

    def snooze(self, seconds: float) -> NoReturn:
        """End this attempt now: it is given back, and the job waits this long."""
        raise Snooze(seconds)

    def lease_guard(self, conn: Any) -> LeaseGuard:
        """A transaction that commits only while this attempt holds its lease.

            async with job.lease_guard(conn):        # psycopg.AsyncConnection
                await conn.execute("update account …")

        With a psycopg.Connection it is `with`. At the end of the block, before the commit, the
        lease is verified and held: if it is another's by now, LeaseLostError, and nothing is
        written. Until then it is not held, so that a worker that hangs in here can be replaced.
        Not together with calls.complete, which verifies the lease itself and ends it.
        """
        return LeaseGuard(conn, self)


class LeaseGuard:
    """A transaction that ends with assert_lease. For either kind of connection."""

    __slots__ = ("_conn", "_job", "_transaction")

    def __init__(self, conn: Any, job: Job) -> None:
        self._conn = conn
        self._job = job
        self._transaction: Any = None

    async def __aenter__(self) -> None:
        transaction: AbstractAsyncContextManager[Any] = self._conn.transaction()
        await transaction.__aenter__()
        self._transaction = transaction

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            try:
                lease = {"job_id": self._job.id, "lease_id": self._job.lease_id}
                await calls.assert_lease(self._conn, **lease)
            except BaseException as lost:
                await self._transaction.__aexit__(type(lost), lost, lost.__traceback__)
                raise
        await self._transaction.__aexit__(kind, error, trace)

    def __enter__(self) -> None:
        transaction: AbstractContextManager[Any] = self._conn.transaction()
        transaction.__enter__()
        self._transaction = transaction

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            try:
                lease = {"job_id": self._job.id, "lease_id": self._job.lease_id}
                calls.assert_lease_sync(self._conn, **lease)
            except BaseException as lost:
                self._transaction.__exit__(type(lost), lost, lost.__traceback__)
                raise
        self._transaction.__exit__(kind, error, trace)


class _JobLog(logging.LoggerAdapter[logging.Logger]):
    """Fields of a call win over the job's."""

    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        own: Mapping[str, Any] = kwargs.get("extra") or {}
        kwargs["extra"] = {**(self.extra or {}), **own}
        return msg, kwargs
