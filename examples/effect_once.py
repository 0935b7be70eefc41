"""An effect that happens once, although its job may run twice: money from one account to another.

A worker that hangs, or is cut off, loses its lease, and another one runs the job again. What the
first one writes within `lease_guard` is rolled back: that transaction commits only while the lease
is held. The row in `transfer` is for the worker that dies after its commit, before it could say
that the job is done: the next attempt finds it and moves nothing.

    psql "$DATABASE_URL" -c "$(python -c 'import effect_once; print(effect_once.TABLES)')"
    batchq worker --handlers effect_once
    psql "$DATABASE_URL" -c "select batchq.enqueue('transfer',
        '{\"giver\": \"ada\", \"taker\": \"alan\", \"amount\": 5}')"
"""

import os
from dataclasses import dataclass

import psycopg

from pybatchq import handler

TABLES = """
create table account (owner text primary key, balance integer not null check (balance >= 0));
create table transfer (job_id bigint primary key);
insert into account values ('ada', 100), ('alan', 0);
"""
ONCE = "insert into transfer values (%s) on conflict do nothing"
ADD = "update account set balance = balance + %s where owner = %s"


@dataclass
class Transfer:
    giver: str
    taker: str
    amount: int


@handler("transfer")
async def transfer(payload: Transfer, job):
    async with (
        await psycopg.AsyncConnection.connect(os.environ["DATABASE_URL"]) as conn,
        job.lease_guard(conn),  # LeaseLostError at its end, and a rollback, if the lease is lost
    ):
        if (await conn.execute(ONCE, [job.id])).rowcount:
            await conn.execute(ADD, [-payload.amount, payload.giver])
            await conn.execute(ADD, [payload.amount, payload.taker])
