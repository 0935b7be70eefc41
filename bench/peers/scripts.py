"""The statements that pgbench sends, for batchq and for the tables it is compared with.

A pair of scripts that are compared makes the same round trips, with the same commits, and
brings the same columns back to the client.
"""

from __future__ import annotations

BATCHQ_ENQUEUE = """
select batchq.enqueue('noop', '{"m": 1}');
"""
BARE_INSERT = """
insert into bare.job (payload) values ('{"m": 1}');
"""

BATCHQ_LEASE_ONE = """
select job_id, lease_id, payload from batchq.lease('default', 1) \\gset
select batchq.complete(:job_id, :lease_id);
"""
ONE_TABLE_LEASE_ONE = """
update one_table.job j set
    state = 'leased', attempt = j.attempt + 1, worker = 'bench',
    leased_at = now(), lease_until = now() + interval '30 s'
where j.id = (
    select r.id from one_table.job r where r.queue = 'default' and r.state = 'ready'
    order by r.priority desc, r.id limit 1 for update skip locked
)
returning j.id as job_id, j.attempt as lease_id, j.payload as payload \\gset
update one_table.job set state = 'completed', finished_at = now(), lease_until = null
where id = :job_id and state = 'leased' and attempt = :lease_id;
"""


def batchq_move(batch: int) -> str:
    """Lease a batch and complete it: one statement, one commit."""
    return f"""
select count(*) from (
    select coalesce(array_agg(l.job_id), '{{}}') as job_ids,
        coalesce(array_agg(l.lease_id), '{{}}') as lease_ids
    from batchq.lease('default', {batch}) l
) s, lateral batchq.complete_many(s.job_ids, s.lease_ids) lost;
"""


def batchq_settle(batch: int) -> str:
    """A worker's loop: hand in the batch before and lease the next, one statement.

    Start it with the variables `job_ids` and `lease_ids` set to an empty array.
    """
    return f"""
select coalesce(array_agg(w.job_id), '{{}}') as job_ids,
    coalesce(array_agg(w.lease_id), '{{}}') as lease_ids
from batchq.settle_and_lease(array['default'], {batch},
    completed_ids => :job_ids, completed_leases => :lease_ids) w
where w.event = 'leased' \\gset
"""


def bare_move(batch: int) -> str:
    """Move a batch of the same rows from one table to another: one statement, one commit."""
    return f"""
with head as materialized (
    select r.ctid as place from bare.ready r order by r.id limit {batch} for update skip locked
),
gone as (delete from bare.ready r using head where r.ctid = head.place returning r.*),
kept as (
    insert into bare.done select g.*, now() from gone g returning id
)
select count(*) from kept;
"""


def batchq_lease_batch(batch: int) -> str:
    """Lease a batch, payloads included, then complete it: two round trips, two commits."""
    return f"""
select array_agg(l.job_id) as job_ids, array_agg(l.lease_id) as lease_ids,
    array_agg(l.payload) as payloads
from batchq.lease('default', {batch}) l \\gset
select count(*) from batchq.complete_many(:job_ids, :lease_ids);
"""


def one_table_lease_batch(batch: int) -> str:
    return f"""
with head as materialized (
    select r.id from one_table.job r where r.queue = 'default' and r.state = 'ready'
    order by r.priority desc, r.id limit {batch} for update skip locked
),
taken as (
    update one_table.job j set
        state = 'leased', attempt = j.attempt + 1, worker = 'bench',
        leased_at = now(), lease_until = now() + interval '30 s'
    from head where j.id = head.id
    returning j.id, j.attempt, j.payload
)
select array_agg(t.id) as job_ids, array_agg(t.attempt) as lease_ids,
    array_agg(t.payload) as payloads
from taken t \\gset
with done as (
    update one_table.job j set state = 'completed', finished_at = now(), lease_until = null
    from unnest(:job_ids::bigint[], :lease_ids::integer[]) as held (id, attempt)
    where j.id = held.id and j.state = 'leased' and j.attempt = held.attempt
    returning j.id
)
select count(*) from done;
"""


def jobs_json(count: int) -> str:
    """The text of an array of jobs for `batchq.enqueue_many`, every payload another."""
    return (
        "["
        + ",".join(f'{{"kind": "noop", "payload": {{"m": {number}}}}}' for number in range(count))
        + "]"
    )


def batchq_enqueue_many(batch: int) -> str:
    return f"\nselect count(*) from batchq.enqueue_many('{jobs_json(batch)}');\n"


def one_table_insert_many(batch: int) -> str:
    """The same text taken apart by the server, as a careful owner of one table would."""
    return f"""
with made as (
    insert into one_table.job (kind, payload)
    select j.kind, j.payload
    from jsonb_to_recordset('{jobs_json(batch)}') as j (kind text, payload jsonb)
    returning id
)
select count(*) from made;
"""
