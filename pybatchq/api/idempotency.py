"""Idempotency-Key: a request that is sent again is answered again, and does nothing again.

The key becomes the job's dedupe key, under a name of its own, for 24 hours and as long as the job
is not finished. What the request asked for travels in the job's headers as a fingerprint, so key,
fingerprint and job are stored in one transaction. Keys count per queue, as dedupe keys do.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw

from pybatchq import calls
from pybatchq.api.errors import invalid, refused
from pybatchq.api.models import NewJob, encode_spec
from pybatchq.api.pool import Database
from pybatchq.errors import JobNotFoundError

HEADER: Final = "Idempotency-Key"
KEEP_S: Final = 24 * 3600.0
FINGERPRINT: Final = "idempotency-fingerprint"

_KEY = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]{0,253}[\x21-\x7e])?")
_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode


def claim(job: NewJob, key: str) -> str:
    """Give a checked job the key; its fingerprint."""
    if not _KEY.fullmatch(key):
        raise invalid(f"invalid {HEADER}", hint="give 1 to 255 visible ASCII characters")
    if job.dedupe_key is not UNSET:
        hint = "a job has one key: send the header or dedupe_key"
        raise invalid(f"{HEADER} and dedupe_key are both given", hint=hint)
    fingerprint = hashlib.sha256(encode_spec(job)).hexdigest()[:32]
    job.dedupe_key = f"{HEADER}: {key}"
    job.dedupe_for = KEEP_S
    add_headers(job, {FINGERPRINT: fingerprint})
    return fingerprint


async def check_same(db: Database, job_id: int, fingerprint: str) -> None:
    """ApiError 409 unless the job that holds the key was asked for in the same words."""
    try:
        record = await db(calls.get_job, job_id=job_id)
    except JobNotFoundError:
        return  # forgotten, though its key is not
    headers = {} if record.headers is None else msgspec.json.decode(record.headers)
    if headers.get(FINGERPRINT) != fingerprint:
        hint = f"the key stands for job {job_id}; another request needs a key of its own"
        raise refused(409, f"this {HEADER} was used for another request", hint=hint)


def add_headers(job: NewJob, more: Mapping[str, Any]) -> None:
    """Add to a job's headers; what it has of these names already stays."""
    given = {} if job.headers is UNSET else _decode_object(job.headers)
    job.headers = Raw(msgspec.json.encode({**more, **given}))
