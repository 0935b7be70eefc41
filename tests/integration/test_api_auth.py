"""Who may use the API: tokens, scopes, queues, and who may while there is no token."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request

from pybatchq import calls
from pybatchq.api import auth
from pybatchq.api.auth import Guard, is_loopback
from pybatchq.api.pool import Database
from pybatchq.api.routes import ROUTES
from pybatchq.types import Scope
from tests.conftest import Connect, Connection
from tests.support.api import Api, client, running, serving, url_of
from tests.support.working import until

SCOPES: tuple[Scope, ...] = ("produce", "work", "operate", "monitor")
JOB = {"kind": "k"}
LOCK = "lock table batchq.token in access exclusive mode"


async def make(
    conn: Connection, secret: str, *scopes: Scope, queues: list[str] | None = None
) -> None:
    """A token whose name is its secret."""
    digest = hashlib.sha256(secret.encode()).digest()
    await calls.create_token(conn, name=secret, secret_hash=digest, scopes=scopes, queues=queues)


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


@pytest.fixture
async def api(db: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Api]:
    monkeypatch.setattr(auth, "KNOWN_S", 0.2)
    async with serving(db) as api:
        yield api


@pytest.fixture
async def tokens(conn: Connection) -> None:
    """One for each scope."""
    for scope in SCOPES:
        await make(conn, scope, scope)


async def test_without_any_token_loopback_is_open(api: Api) -> None:
    assert (await api.post("/jobs", JOB)).status == 201
    assert (await api.get("/jobs/1")).status == 200


async def test_without_any_token_another_address_refuses_and_says_how_to_make_one(db: str) -> None:
    async with serving(db, BATCHQ_HOST="0.0.0.0") as api:
        answer = await api.post("/jobs", JOB)
        assert answer.error[:2] == (401, "HTTP401")
        assert "batchq token create" in answer.json["hint"]
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
        assert (await api.get("/health")).status == 200
        assert (await api.get("/ready")).status == 200


async def test_open_means_open_until_there_is_a_token(db: str, conn: Connection) -> None:
    async with serving(db, BATCHQ_HOST="0.0.0.0", BATCHQ_OPEN="on") as api:
        assert (await api.post("/jobs", JOB)).status == 201
    await make(conn, "s", "produce")
    async with serving(db, BATCHQ_HOST="0.0.0.0", BATCHQ_OPEN="on") as api:
        assert (await api.post("/jobs", JOB)).error[0] == 401


@pytest.mark.usefixtures("tokens")
async def test_with_tokens_loopback_needs_one_too(api: Api) -> None:
    assert (await api.post("/jobs", JOB)).error == (401, "HTTP401", "a token is required")
    assert (await api.post("/jobs", JOB, headers=bearer("produce"))).status == 201


@pytest.mark.usefixtures("tokens")
@pytest.mark.parametrize(
    "given",
    ["Bearer wrong", "Bearer ", "bearer", "Basic produce", "produce", "Bearer " + "x" * 300,
     "Bearer produce extra", "Bearer PRODUCE", "Bearer é"],
)  # fmt: skip
async def test_what_is_no_good_token_is_refused(api: Api, given: str) -> None:
    for _ in range(2):  # looked up, and remembered
        answer = await api.post("/jobs", JOB, headers={"Authorization": given})
        assert answer.error[:2] == (401, "HTTP401")
        assert "WWW-Authenticate" in answer.headers


@pytest.mark.usefixtures("tokens")
async def test_every_route_asks_for_its_scope_and_monitor_is_any(db: str) -> None:
    async with running(db) as (app, server), client(url_of(server)) as api:
        for route in app[ROUTES]:
            path = re.sub(r"\{[^}]*\}+", "1", route.path)
            for scope in SCOPES:
                answer = await api.ask(route.method, path, headers=bearer(scope))
                if route.scope in (None, "monitor", scope):
                    assert answer.status not in (401, 403), (path, scope)
                else:
                    assert answer.error[0] == 403, (path, scope)
                    assert answer.error[2] == f"this token has no scope {route.scope}"
            answer = await api.ask(route.method, path)
            assert (answer.status == 401) == (route.scope is not None), path


async def test_a_token_for_some_queues_sees_and_touches_no_other(
    api: Api, conn: Connection
) -> None:
    await make(conn, "t", "produce", "operate", queues=["mail"])
    await make(conn, "all", "produce", "operate")
    mine = await api.post("/jobs", {**JOB, "queue": "mail"}, headers=bearer("t"))
    other = await api.post("/jobs", JOB, headers=bearer("all"))
    assert (mine.status, other.status) == (201, 201)
    mine_id, other_id = mine.json["id"], other.json["id"]
    for body in (JOB, {**JOB, "queue": "other"}):
        assert (await api.post("/jobs", body, headers=bearer("t"))).error[0] == 403
    bulk = await api.post("/jobs/bulk", [{**JOB, "queue": "mail"}, JOB], headers=bearer("t"))
    assert (bulk.error[0], bulk.json["detail"]) == (403, "job 2")
    assert (await api.get(f"/jobs/{mine_id}", headers=bearer("t"))).status == 200
    for path in (f"/jobs/{other_id}", f"/jobs/{other.json['uuid']}", f"/jobs/{other_id}/explain"):
        assert (await api.get(path, headers=bearer("t"))).error[:2] == (404, "JQ003")
    for path in (f"/jobs/{mine_id}/explain", "/queues/mail/explain", "/queues/mail/peek"):
        assert (await api.get(path, headers=bearer("t"))).status == 200
    for path in ("/queues/default/explain", "/queues/default/peek", "/queues/default/groups"):
        assert (await api.get(path, headers=bearer("t"))).error[0] == 403
    listed = (await api.get("/jobs", headers=bearer("t"))).json["jobs"]
    assert [job["id"] for job in listed] == [mine_id]
    assert (await api.get("/jobs?queue=default", headers=bearer("t"))).error[0] == 403
    for path in (f"/jobs/{other_id}/cancel", f"/jobs/{other_id}/retry"):
        assert (await api.post(path, headers=bearer("t"))).error[0] == 404
    many = await api.post("/jobs/cancel", {"kind": "k"}, headers=bearer("t"))
    assert many.json["cancelled"] == 1
    ids = await api.post("/jobs/cancel", {"ids": [other_id]}, headers=bearer("t"))
    assert ids.json["cancelled"] == 0
    assert (await calls.get_job(conn, job_id=other_id)).status == "pending"
    assert (await calls.get_job(conn, job_id=mine_id)).status == "cancelled"


async def test_a_token_for_several_queues_has_to_name_one(api: Api, conn: Connection) -> None:
    await make(conn, "t", "operate", queues=["a", "b"])
    assert (await api.get("/jobs", headers=bearer("t"))).error[0] == 403
    assert (await api.get("/jobs?queue=a", headers=bearer("t"))).status == 200
    assert (await api.post("/jobs/redrive", {"kind": "k"}, headers=bearer("t"))).error[0] == 403


async def answers(api: Api, status: int, secret: str | None = None) -> None:
    """Wait until looking with this token, or without any, is answered so."""

    async def look() -> bool:
        headers = None if secret is None else bearer(secret)
        return (await api.get("/jobs", headers=headers)).status == status

    await until(look)


@pytest.mark.usefixtures("tokens")
async def test_a_revoked_token_ends_soon_and_its_name_may_be_used_again(
    api: Api, conn: Connection
) -> None:
    await answers(api, 200, "monitor")
    await calls.revoke_token(conn, name="monitor")
    await answers(api, 401, "monitor")


async def test_an_expired_token_is_none(api: Api, conn: Connection) -> None:
    digest = hashlib.sha256(b"s").digest()
    soon = datetime.now(UTC) + timedelta(seconds=1)
    await calls.create_token(
        conn, name="s", secret_hash=digest, scopes=["monitor"], expires_at=soon
    )
    await answers(api, 401, "s")
    assert (await api.get("/jobs")).error[0] == 401  # nor is the API open again


async def test_a_new_token_closes_an_open_api_soon(api: Api, conn: Connection) -> None:
    assert (await api.get("/jobs")).status == 200
    await make(conn, "s", "monitor")
    await answers(api, 401)


async def test_a_flood_of_made_up_tokens_leaves_others_their_connections(
    api: Api, conn: Connection
) -> None:
    await make(conn, "good", "produce")
    wrong = [api.post("/jobs", JOB, headers=bearer(f"wrong-{n}")) for n in range(1000)]
    right = [api.post("/jobs", JOB, headers=bearer("good")) for _ in range(100)]
    refused = asyncio.gather(*wrong)
    assert {a.status for a in await asyncio.gather(*right)} == {201}
    assert {a.status for a in await refused} <= {401, 503}


async def test_d7_a_read_only_api_refuses_whatever_changes_anything(
    db: str, conn: Connection
) -> None:
    job = await calls.enqueue(conn, "k")
    async with serving(db, BATCHQ_READ_ONLY="on") as api:
        for path, body in (
            ("/jobs", JOB), ("/jobs/bulk", [JOB]), (f"/jobs/{job}/cancel", None),
            ("/jobs/redrive", {"kind": "k"}),
        ):  # fmt: skip
            answer = await api.post(path, body)
            assert (answer.error[0], answer.json["name"]) == (403, "read_only")
        assert (await api.get(f"/jobs/{job}")).json["status"] == "pending"
        assert (await api.get("/jobs")).status == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost:1"])
async def test_f092_a_foreign_page_changes_nothing(api: Api, origin: str, conn: Connection) -> None:
    job = await calls.enqueue(conn, "k")
    for path, body in (("/jobs", JOB), (f"/jobs/{job}/cancel", None), (f"/jobs/{job}/retry", None)):
        answer = await api.post(path, body, headers={"Origin": origin})
        assert answer.error[0] == 403
    assert (await calls.get_job(conn, job_id=job)).status == "pending"
    looked = await api.get("/jobs", headers={"Origin": origin})
    assert "Access-Control-Allow-Origin" not in looked.headers  # so the page cannot read it


async def test_f092_its_own_pages_and_tokens_may(api: Api, conn: Connection) -> None:
    own = {"Origin": api.url}
    assert (await api.post("/jobs", JOB, headers=own)).status == 201
    await make(conn, "s", "produce")
    foreign = {"Origin": "https://tool.example", **bearer("s")}
    assert (await api.post("/jobs", JOB, headers=foreign)).status == 201


async def test_f092_a_name_that_leads_here_is_not_served_without_tokens(api: Api) -> None:
    for host in ("evil.example", "localhost.evil.example", "evil.example:8080"):
        assert (await api.get("/jobs", headers={"Host": host})).error[0] == 403
    for host in ("localhost", "localhost:8080", "127.0.0.1", "[::1]:8080", "[::1]"):
        assert (await api.get("/jobs", headers={"Host": host})).status == 200


async def test_cors_is_for_the_origins_that_are_named(db: str) -> None:
    page = "https://app.example"
    async with serving(db, BATCHQ_CORS_ORIGINS=page) as api:
        asked = {"Origin": page, "Access-Control-Request-Method": "POST"}
        answer = await api.ask("OPTIONS", "/jobs", headers=asked)
        assert answer.status == 204
        assert answer.headers["Access-Control-Allow-Origin"] == page
        assert "Authorization" in answer.headers["Access-Control-Allow-Headers"]
        posted = await api.post("/jobs", JOB, headers={"Origin": page})
        assert (posted.status, posted.headers["Access-Control-Allow-Origin"]) == (201, page)
        missing = await api.get("/nothing", headers={"Origin": page})
        assert missing.headers["Access-Control-Allow-Origin"] == page
        other = await api.ask(
            "OPTIONS", "/jobs", headers={**asked, "Origin": "https://evil.example"}
        )
        assert other.error[0] == 405
        assert "Access-Control-Allow-Origin" not in other.headers


async def test_a01_the_first_of_many_requests_ask_the_database_once(
    db: str, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make(conn, "s", "produce")
    asked: Counter[str] = Counter()

    def count(name: str) -> None:
        call = getattr(calls, name)

        async def counted(*args: Any, **arguments: Any) -> Any:
            asked[name] += 1
            return await call(*args, **arguments)

        monkeypatch.setattr(calls, name, counted)

    for name in ("has_tokens", "find_token", "job_uuid"):
        count(name)
    async with serving(db) as api:
        headers = [bearer("s"), {}] * 200
        answers = await asyncio.gather(*[api.post("/jobs", JOB, headers=one) for one in headers])
    assert Counter(answer.status for answer in answers) == {201: 200, 401: 200}
    assert asked == {"has_tokens": 1, "find_token": 1, "job_uuid": 1}


@pytest.mark.parametrize("headers", [{}, bearer("s")])
async def test_a01_nobody_waits_while_what_still_holds_is_looked_up_anew(
    db: str, conn: Connection, connect: Connect, headers: dict[str, str]
) -> None:
    if headers:
        await make(conn, "s", "produce")
    now = 0.0
    request = make_mocked_request("POST", "/jobs", headers=headers)
    database = Database(db, "test")
    await database.open()
    guard = Guard(database, "everybody", clock=lambda: now)
    await guard.admit(request, "produce")
    other = await connect(autocommit=False)
    await other.execute(LOCK)
    now = auth.KNOWN_S - 0.1
    async with asyncio.timeout(2):
        await guard.admit(request, "produce")
    await other.commit()
    await asyncio.wait(guard._shared._begun)
    await other.execute(LOCK)
    now = auth.KNOWN_S + 0.1
    async with asyncio.timeout(2):
        await guard.admit(request, "produce")
    now = 3 * auth.KNOWN_S
    late = asyncio.ensure_future(guard.admit(request, "produce"))
    assert not (await asyncio.wait((late,), timeout=0.2))[0]
    await other.commit()
    assert "produce" in (await late).scopes
    await database.close()


@pytest.mark.parametrize(
    ("host", "is_own"),
    [("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("localhost", True),
     ("0.0.0.0", False), ("::", False), ("192.168.1.2", False), ("example.org", False)],
)  # fmt: skip
def test_which_addresses_only_this_machine_reaches(host: str, is_own: bool) -> None:
    assert is_loopback(host) is is_own
