"""What the routes and the types cannot say of themselves, for the OpenAPI document."""

from __future__ import annotations

from typing import Any, Final

from pybatchq.api import bodies, idempotency
from pybatchq.api.errors import RETRY_AFTER_S, ErrorBody
from pybatchq.api.middleware import REQUEST_ID
from pybatchq.api.services import MOST_ID

Json = dict[str, Any]

SCHEMA: Final = "#/components/schemas/"
ABOUT: Final = """\
A durable job queue inside PostgreSQL, by HTTP.

A request that was answered with 2xx is committed. One that was answered with 503 may or may not
have been done where its hint says so; an `Idempotency-Key` makes sending it again safe. Every error
has one shape. Times are RFC 3339 with a zone, durations are seconds.

While no token exists, an API that only its own machine can reach is open."""

# By the first part of the path; any other is its own tag.
TAGS: Final = {
    "jobs": "Enqueue jobs, look at them, cancel them, try them again",
    "queues": "Depths, rates, settings, pause and resume",
    "dead": "Dead letters: jobs that failed for good",
    "workers": "Who is alive, running what",
    "work": "The worker's side, for languages without a PostgreSQL driver",
    "operation": "For whoever watches over this process",
    "documents": "For people and programs that want to know what there is",
}
TAG_OF: Final = {
    "health": "operation",
    "ready": "operation",
    "metrics": "operation",
    "throughput": "queues",
    "audit": "operation",
    "openapi.json": "documents",
    "reference": "documents",
    "": "documents",
}

SECURITY: Final[Json] = {
    "type": "http",
    "scheme": "bearer",
    "description": "A token: `batchq token create NAME --scope produce`. The scopes are produce,"
    " work, operate and monitor; whoever has any of them may use what takes monitor.",
}
HEADERS: Final[Json] = {
    REQUEST_ID: {
        "description": "The request's, or one made for it; the log has it, too",
        "schema": {"type": "string", "maxLength": 100},
    },
    "Retry-After": {
        "description": "Seconds after which to try again",
        "schema": {"type": "integer", "minimum": 1},
    },
    "WWW-Authenticate": {
        "description": "How to authenticate",
        "schema": {"type": "string"},
    },
}
# The statuses a header comes with; none: all.
HEADER_OF: Final[dict[str, frozenset[int]]] = {
    REQUEST_ID: frozenset(),
    "Retry-After": frozenset(RETRY_AFTER_S),
    "WWW-Authenticate": frozenset({401}),
}

# Version 8, see RFC 9562: what is in them is ours.
OUR_UUID: Final = (
    "^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-8[0-9A-Fa-f]{3}-[89ABab][0-9A-Fa-f]{3}-[0-9A-Fa-f]{12}$"
)

# Parts of paths, by their names.
PARTS: Final[dict[str, Json]] = {
    "id": {
        "description": "a job's number or UUID",
        "schema": {
            "anyOf": [
                {"type": "integer", "minimum": 0, "maximum": MOST_ID},
                {"type": "string", "format": "uuid", "pattern": OUR_UUID},
            ]
        },
        "example": 4711,
    },
    "queue": {
        "description": "a queue's name, percent-encoded",
        "schema": {"type": "string", "minLength": 1, "maxLength": 255},
        "example": "default",
    },
    "group_key": {
        "description": "a group's key, percent-encoded",
        "schema": {"type": "string", "minLength": 1, "maxLength": 255},
        "example": "customer-7",
    },
    "kind": {
        "description": "a kind of job, percent-encoded",
        "schema": {"type": "string", "minLength": 1, "maxLength": 255},
        "example": "send_email",
    },
    "worker_id": {
        "description": "a UUID that the worker process made when it started",
        "schema": {"type": "string", "format": "uuid"},
        "example": "0f8fad5b-d9cb-469f-a165-70867728950e",
    },
}

WHY: Final[dict[int, str]] = {
    400: "What was sent makes no sense; `message` names the field",
    401: "No token, or one that is unknown or revoked",
    403: "Not with this token, not from this origin, or the API is read-only",
    404: "There is no such thing",
    408: "The body came too slowly",
    409: "Not in the state it is in, or the `Idempotency-Key` stands for another request",
    413: "The body is too long, or holds too many jobs",
    415: "The body is not JSON, or is compressed",
    429: "Too much is waiting already",
    500: "A fault of ours; the log has more under the request id",
    503: "The database is away or busy, or this process is shutting down",
}

ERROR_EXAMPLES: Final[dict[int, ErrorBody]] = {
    400: ErrorBody(
        "JQ001",
        "invalid_argument",
        "priority: expected int <= 32767",
        hint="give an integer from -32768 to 32767, higher first",
    ),
    401: ErrorBody(
        "HTTP401", "unauthorized", "a token is required", hint="Authorization: Bearer bq_…"
    ),
    404: ErrorBody("JQ003", "job_not_found", "no job 4711"),
    413: ErrorBody("HTTP413", "body_too_large", "the body is longer than 1,048,576 bytes"),
    409: ErrorBody("JQ005", "wrong_state", "job 4711 is completed"),
    503: ErrorBody("HTTP503", "service_unavailable", "the database cannot be reached"),
}

# Fields of queries whose text has a form of its own.
QUERIES: Final[dict[str, Json]] = {
    "JobQuery.wait": {"pattern": r"^(([0-5]?[0-9](\.[0-9]{1,9})?|60)s?|[0-5]?[0-9]{1,4}ms)$"},
    "ThroughputQuery.since": {"pattern": r"^([1-9][0-9]{0,3}m|([1-9][0-9]?|1[0-5][0-9])h)$"},
    "ThroughputQuery.step": {"pattern": r"^([1-9][0-9]{0,2}m|([1-9]|1[0-9]|2[0-4])h)$"},
    "ListQuery.cursor": {"minLength": 1, "pattern": "^[0-9A-Za-z_-]+$"},
}


def _some_of(*names: str) -> Json:
    """One of these has a value."""
    given = [{"required": [n], "properties": {n: {"not": {"type": "null"}}}} for n in names]
    return {"anyOf": given}


# What the checks of a type refuse besides what its fields say.
CHECKS: Final[dict[str, Json]] = {
    "NewJob": {
        "properties": {
            "payload": {"not": {"type": "null"}},
            "headers": {"type": "object"},
        },
        **_some_of("kind", "type"),
        "not": {
            "anyOf": [
                {"required": ["delay", "run_at"]},
                {"required": ["delay", "available_at"]},
            ]
        },
        "dependentRequired": {
            name: ["dedupe_key"] for name in ("dedupe_scope", "dedupe_for", "on_duplicate")
        },
    },
    "SetJob": {
        "anyOf": [
            _some_of("priority", "run_at"),
            {"required": ["run_now"], "properties": {"run_now": {"const": True}}},
        ],
        "not": {
            "required": ["run_at", "run_now"],
            "properties": {"run_at": {"not": {"type": "null"}}, "run_now": {"const": True}},
        },
    },
    "CancelJobs": _some_of(
        "ids", "queue", "kind", "type", "state", "created_after", "created_before"
    ),
    "PurgeDead": {
        "oneOf": [
            _some_of("ids", "queue", "kind", "type", "error", "failed_before"),
            {"required": ["all"], "properties": {"all": {"const": True}}},
        ]
    },
    "ExtendLeases": {
        "anyOf": [{"required": ["job_id", "lease_id"]}, {"required": ["leases"]}],
        "not": {
            "anyOf": [
                {"required": ["leases", "job_id"]},
                {"required": ["leases", "lease_id"]},
            ]
        },
    },
}

_LINKS: Final[Json] = {
    name: {"operationId": operation, "parameters": {"id": "$response.body#/id"}}
    for name, operation in (("job", "get_job"), ("cancel", "cancel"))
}
_BULK: Final[Json] = {
    "requestBody": {
        "content": {
            bodies.JSON: {
                "schema": {
                    "anyOf": [
                        {"$ref": SCHEMA + "NewJobs"},
                        {"type": "array", "items": {"$ref": SCHEMA + "NewJob"}},
                    ]
                }
            },
            bodies.NDJSON[0]: {
                "schema": {"type": "string", "description": "lines, each of them a NewJob"},
                "example": '{"kind": "send_email"}\n{"kind": "send_email"}\n',
            },
        }
    },
    "responses": {
        "201": {
            "content": {
                bodies.JSON: {
                    "schema": {
                        "anyOf": [
                            {"$ref": SCHEMA + "BulkAccepted"},
                            {"$ref": SCHEMA + "StreamAccepted"},
                        ]
                    }
                }
            }
        }
    },
}
# What a route has besides what Route says of it.
MORE: Final[dict[str, Json]] = {
    "POST /jobs": {
        "parameters": [
            {
                "name": idempotency.HEADER,
                "in": "header",
                "description": "1 to 255 visible ASCII characters. The request may be sent again"
                " with it for 24 hours: 200 and the first job, or 409 if it asks for another one",
                "schema": {
                    "type": "string",
                    "maxLength": 255,
                    "pattern": "^[!-~]([ -~]*[!-~])?$",
                },
            }
        ],
        "responses": {"201": {"links": _LINKS}},
    },
    "POST /jobs/bulk": _BULK,
    "POST /jobs:bulk": _BULK,
}
# Statuses of errors besides those that follow from a route's scope, body and codes.
ERRORS: Final[dict[str, tuple[int, ...]]] = {
    "GET /ready": (503,),
    "POST /jobs": (409,),
}
