"""Values that the OpenAPI document shows: written for requests, made up for answers.

An answer's example follows from its schema, so a new field needs a line here only where `text` or
1 would tell nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

Schema = Mapping[str, Any]

JOB_UUID: Final = "5f0c7a1e-93b4-8d52-8000-000000001267"
AT: Final = "2030-01-31T12:00:00Z"

# Request bodies, by the names of their types. Each one is taken as it is: a test sends them all.
REQUESTS: Final[dict[str, Any]] = {
    "NewJob": {"kind": "send_email", "payload": {"to": "ada@example.com"}, "delay": 60},
    "NewJobs": {
        "jobs": [
            {"kind": "send_email", "payload": {"to": "ada@example.com"}},
            {"kind": "send_email", "payload": {"to": "alan@example.com"}, "priority": 10},
        ]
    },
    "SetJob": {"priority": 10, "run_now": True},
    "CancelJob": {"reason": "the order was withdrawn"},
    "CancelJobs": {"kind": "send_email", "state": "scheduled", "dry_run": True},
    "RedriveDead": {"kind": "send_email", "per_second": 50, "dry_run": True},
    "PurgeDead": {"kind": "send_email", "failed_before": AT, "dry_run": True},
    "SetQueue": {"max_attempts": 5, "timeout": 60, "max_running": 20, "rate": 100},
    "ChangeQueue": {"timeout": 120, "clear": ["rate"]},
    "SetGroup": {"weight": 5},
    "PauseQueue": {"reason": "the mail server is away"},
    "TellWorker": {
        "worker": "mail-1",
        "host": "mail-1.example.com",
        "queues": ["default"],
        "kinds": ["send_email"],
        "concurrency": 10,
        "running": 3,
    },
    "LeaseJobs": {"queues": ["default"], "n": 10, "worker": "mail-1"},
    "SettleAndLease": {
        "n": 10,
        "completed": [{"job_id": 4711, "lease_id": 9001, "result": {"sent": True}}],
        "failed": [{"job_id": 4712, "lease_id": 9002, "error": "TimeoutError: no answer"}],
    },
    "Completion": {"job_id": 4711, "lease_id": 9001, "result": {"sent": True}},
    "Snoozing": {"job_id": 4711, "lease_id": 9001, "delay": 60},
    "ProgressReport": {"job_id": 4711, "lease_id": 9001, "progress": {"percent": 40}},
    "ExtendLeases": {"leases": [{"job_id": 4711, "lease_id": 9001}], "lease_for": 60},
}

# Fields, by their names, wherever they are.
FIELDS: Final[dict[str, Any]] = {
    "id": 4711,
    "job_id": 4711,
    "ids": [4711, 4712],
    "uuid": JOB_UUID,
    "kind": "send_email",
    "type": "send_email",
    "queue": "default",
    "payload": {"to": "ada@example.com"},
    "headers": None,
    "result": None,
    "progress": None,
    "reason": "the order was withdrawn",
    "pause_reason": None,
    "dedupe_key": None,
    "group_key": "customer-7",
    "status": "pending",
    "state": "scheduled",
    "max_attempts": 20,
    "attempt": 1,
    "lease_id": 9001,
    "priority": 0,
    "timeout": None,
    "next_cursor": None,
    "cursor": None,
    "started_at": None,
    "finished_at": None,
    "worker": "mail-1:4711",
    "locked_by": None,
    "locked_until": None,
    "cancel_requested_at": None,
    "last_error": None,
    "error": "TimeoutError: no answer within 30 s",
    "host": "mail-1",
    "version": "0.1.0",
    "code": "JQ001",
    "name": "invalid_argument",
    "message": "kind: expected str of length >= 1",
    "detail": None,
    "hint": "give a text of 1 to 255 characters",
    "wait": "30s",
    "since": "24h",
    "step": "5m",
    "gate": "due",
    "holds": True,
    "says": "it is not due until 2030-01-31 12:00:00Z",
    "data": {"run_at": AT},
    "audit_id": 42,
    "actor": "mail-team",
    "db_user": "batchq",
    "action": "pause",
    "target": "queue default",
    "details": {"reason": "the mail server is away"},
}

SIMPLE: Final[dict[Any, Any]] = {"string": "text", "boolean": False}


def request(schema: Schema, schemas: Mapping[str, Schema]) -> Any:
    """A body: the one written for its type, else what it requires, or one field if nothing is."""
    if "anyOf" in schema:
        return request(schema["anyOf"][0], schemas)
    name = _name(schema)
    if name in REQUESTS:
        return REQUESTS[name]
    schema = resolved(schema, schemas)
    if schema.get("type") != "object":
        return answer(schema, schemas)
    fields: Schema = schema.get("properties", {})
    wanted = schema.get("required") or [field for field in fields if field in FIELDS][:1]
    return {field: _field(field, fields[field], schemas) for field in wanted}


def answer(schema: Schema, schemas: Mapping[str, Schema]) -> Any:
    """A value of a schema, with all of its fields."""
    schema = resolved(schema, schemas)
    if "anyOf" in schema and "type" not in schema:
        return answer(schema["anyOf"][0], schemas)
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type")
    if kind == "object":
        fields = schema.get("properties", {}).items()
        return {name: _field(name, field, schemas) for name, field in fields}
    if kind == "array":
        return [answer(schema.get("items", {}), schemas)]
    if kind in {"integer", "number"}:
        return schema.get("minimum", 1)
    return {"date-time": AT, "uuid": JOB_UUID}.get(schema.get("format", ""), SIMPLE.get(kind))


def resolved(schema: Schema, schemas: Mapping[str, Schema]) -> Schema:
    """What a reference leads to; any other schema as it is."""
    while "$ref" in schema:
        schema = schemas[_name(schema)]
    return schema


def _name(schema: Schema) -> str:
    return str(schema.get("$ref", "")).rpartition("/")[2]


def _field(name: str, schema: Schema, schemas: Mapping[str, Schema]) -> Any:
    """Of a known name, if its type has such values, too."""
    if name in FIELDS and _takes(schema, FIELDS[name], schemas):
        return FIELDS[name]
    return answer(schema, schemas)


def _takes(schema: Schema, value: Any, schemas: Mapping[str, Schema]) -> bool:
    """Whether a value is roughly of a schema's type."""
    schema = resolved(schema, schemas)
    if "anyOf" in schema and "type" not in schema:
        return any(_takes(one, value, schemas) for one in schema["anyOf"])
    if "enum" in schema:
        return value in schema["enum"]
    kinds: dict[Any, tuple[type, ...]] = {
        "string": (str,), "integer": (int,), "number": (int, float), "array": (list,),
        "object": (dict,), "null": (type(None),), None: (object,),
    }  # fmt: skip
    return isinstance(value, kinds.get(schema.get("type"), ()))
