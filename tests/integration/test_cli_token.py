"""`batchq token`: made, listed and revoked; the secret is shown once and stored nowhere."""

from __future__ import annotations

import asyncio
import hashlib

from tests.support.api import serving
from tests.support.console import batchq, done, query, records


def secret(dsn: str, *arguments: str) -> str:
    """Of a new token."""
    return done("token", "create", *arguments, dsn=dsn).strip()


async def test_a_made_token_opens_the_api_until_it_is_revoked(db: str) -> None:
    made = await asyncio.to_thread(secret, db, "shop", "--scope", "produce")
    assert made.startswith("bq_")
    headers = {"Authorization": f"Bearer {made}"}
    async with serving(db) as api:
        assert (await api.post("/jobs", {"kind": "k"}, headers=headers)).status == 201
        assert (await api.post("/jobs", {"kind": "k"})).status == 401
    told = await asyncio.to_thread(done, "token", "revoke", "shop", dsn=db)
    assert told == "token shop is revoked.\n"
    await asyncio.to_thread(secret, db, "other", "--scope", "monitor")
    async with serving(db) as api:
        assert (await api.post("/jobs", {"kind": "k"}, headers=headers)).status == 401


def test_the_database_knows_its_hash_only(db: str) -> None:
    made = secret(db, "shop", "--scope", "produce")
    ((stored,),) = query(db, "select hash from batchq.token")
    assert bytes(stored) == hashlib.sha256(made.encode()).digest()
    ((text,),) = query(db, "select t::text from batchq.token t")
    assert made not in text
    assert secret(db, "shop2", "--scope", "produce") != made


def test_tokens_are_listed_without_secrets(db: str) -> None:
    made = secret(
        db, "shop", "--scope", "produce", "--scope", "work", "--queue", "a", "--queue", "b",
        "--expires", "2d",
    )  # fmt: skip
    listed = done("token", "list", "--json", dsn=db)
    assert made not in listed
    (one,) = records(listed)
    assert (one["name"], one["scopes"], one["queues"]) == ("shop", ["produce", "work"], ["a", "b"])
    assert one["expires_at"] > one["created_at"]
    done("token", "revoke", "shop", dsn=db)
    assert batchq("token", "list", dsn=db).stderr == "no tokens\n"
    assert records(done("token", "list", "--all", "--json", dsn=db))[0]["revoked_at"]


def test_what_cannot_be_is_refused(db: str) -> None:
    assert batchq("token", "create", "shop", dsn=db).exit_code == 2
    assert batchq("token", "create", "shop", "--scope", "all", dsn=db).exit_code == 2
    secret(db, "shop", "--scope", "produce")
    again = batchq("token", "create", "shop", "--scope", "produce", dsn=db)
    assert (again.exit_code, "there is a token 'shop'" in again.stderr) == (2, True)
    gone = batchq("token", "revoke", "nothing", dsn=db)
    assert (gone.exit_code, "there is no token nothing" in gone.stderr) == (1, True)
