"""Errors as clients see them: one shape, no SQL, no stack.

`code` is that of the function of batchq that refused, or HTTP and the status where none was
reached; see CATALOGUE for the statuses of the former.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus

import psycopg
from aiohttp import web
from msgspec import Struct
from msgspec.structs import replace

from pybatchq.connections import is_connection_loss
from pybatchq.errors import BatchqError, QueueNotFoundError, VersionMismatchError

# What batchq.errors() says, for when there is no database to ask.
CATALOGUE: dict[str, tuple[int, str]] = {
    "JQ001": (400, "invalid_argument"),
    "JQ002": (404, "queue_not_found"),
    "JQ003": (404, "job_not_found"),
    "JQ004": (409, "lease_lost"),
    "JQ005": (409, "wrong_state"),
    "JQ006": (429, "queue_full"),
    "JQ007": (400, "schedule_invalid"),
    "JQ008": (404, "schedule_not_found"),
    "JQ009": (503, "version_mismatch"),
}
RETRY_AFTER_S = {429: 5, 503: 2}
WHICH_QUEUE = "check the name; GET /queues lists the queues"
MAYBE_STORED = "it may or may not have been done; POST again with the same Idempotency-Key"

# How enqueue_many ends its message about one of many.
_PLACE = re.compile(r" \(job (\d+)\)$")
_WORD = re.compile(r"[^a-z]+")


class ErrorBody(Struct, frozen=True):
    """An error. `message` says what is wrong, `hint` what to do, `detail` where."""

    code: str
    name: str
    message: str
    detail: str | None = None
    hint: str | None = None


class ApiError(Exception):
    """Ends a request with this answer."""

    def __init__(
        self, status: int, body: ErrorBody, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(body.message)
        self.status = status
        self.body = body
        self.headers = dict(headers or {})
        if status in RETRY_AFTER_S:
            self.headers.setdefault("Retry-After", str(RETRY_AFTER_S[status]))

    def copy(self) -> ApiError:
        """The same for another request: an exception that is raised twice keeps both stacks."""
        return ApiError(self.status, self.body, self.headers)

    def changed(self, **fields: str | None) -> ApiError:
        """The same with other fields in its body."""
        return ApiError(self.status, replace(self.body, **fields), self.headers)


class TimedOutError(ApiError):
    """The database did not answer in time."""

    def __init__(self) -> None:
        body = unavailable("the database did not answer in time", hint=MAYBE_STORED).body
        super().__init__(503, body)


def refused(
    status: int,
    message: str,
    *,
    hint: str | None = None,
    name: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> ApiError:
    """An error no function of batchq was asked for: `HTTP413` and the like."""
    name = name or _WORD.sub("_", HTTPStatus(status).phrase.lower())
    return ApiError(status, ErrorBody(f"HTTP{status}", name, message, hint=hint), headers)


def invalid(message: str, *, hint: str | None = None, detail: str | None = None) -> ApiError:
    """A value that no function of batchq would take, refused before it is asked."""
    return ApiError(400, ErrorBody("JQ001", "invalid_argument", message, detail, hint))


def unavailable(message: str, *, hint: str | None = None, retry_after_s: int = 2) -> ApiError:
    return refused(503, message, hint=hint, headers={"Retry-After": str(retry_after_s)})


def as_api_error(error: BaseException) -> ApiError | None:
    """What a client reads of an error; None for a fault of ours."""
    match error:
        case ApiError():
            return error
        case BatchqError():
            return _refusal(error)
        case web.HTTPException():
            return _http(error)
        case psycopg.Error():
            return _database(error)
    return None


def place_of(error: BatchqError) -> int | None:
    """Which of the jobs of enqueue_many is at fault, from 1; None if it does not say."""
    found = _PLACE.search(str(error))
    return None if found is None else int(found[1])


def without_place(error: BatchqError) -> str:
    """Its message, where the place is told otherwise or is no place of the client's."""
    return _PLACE.sub("", str(error))


def _refusal(error: BatchqError) -> ApiError:
    """Of a function of batchq. What its message or hint has to say in SQL is not for clients."""
    status, name = CATALOGUE.get(error.code, (500, "internal_error"))
    message, hint = str(error), error.hint
    if isinstance(error, VersionMismatchError):
        message = "batchq in the database does not fit this API"
    if isinstance(error, QueueNotFoundError):
        hint = WHICH_QUEUE
    elif hint is not None and "batchq." in hint:
        hint = None
    return ApiError(status, ErrorBody(error.code, name, message, hint=hint))


def _http(error: web.HTTPException) -> ApiError:
    """Of aiohttp's own: an unknown path, a method a path does not have, a body that breaks off."""
    headers = {k: v for k, v in error.headers.items() if k in {"Allow", "Location"}}
    hint = None
    if isinstance(error, web.HTTPMethodNotAllowed):
        hint = f"this path takes {', '.join(sorted(error.allowed_methods))}"
    elif isinstance(error, web.HTTPNotFound):
        hint = "GET /openapi.json names every path"
    return refused(
        error.status, HTTPStatus(error.status).phrase.lower(), hint=hint, headers=headers
    )


def _database(error: psycopg.Error) -> ApiError | None:
    if error.sqlstate == "25006":
        return unavailable("the database is read-only at the moment")
    if is_connection_loss(error) or isinstance(error, psycopg.OperationalError):
        return unavailable("the database cannot be used at the moment", hint=MAYBE_STORED)
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        hint = "grant its database user the role that the call needs, see the reference"
        return refused(500, "this API may not do that in its database", hint=hint)
    return None
