/*
 * Extending leases: the heartbeat. Each row is found by its own index probe and updated in place.
 * The lock is the one that assert_lease's lets through, so a handler that holds its lease in a
 * transaction of its own does not stop its own heartbeat. Rows others have locked are skipped, as
 * are those that somebody has changed since this statement began. No index holds lease_until, so a
 * beat adds no index entry.
 *
 * The clock is read after this transaction took its xid: the floor of leased depends on it.
 */
create or replace function batchq.extend(
    job_ids bigint[],
    lease_ids bigint[],
    lease_for interval default null
)
returns setof batchq.extended_lease
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_mergejoin = off
as $extend$
declare
    v_now timestamptz;
begin
    perform pg_current_xact_id();
    v_now := batchq._now();
    perform batchq._check_lists(cardinality(job_ids), cardinality(lease_ids), null);
    perform batchq._check_lease('any', lease_for => lease_for);
    return query
    with asked as materialized (
        select a.* from unnest(job_ids, lease_ids) with ordinality as a(job_id, lease_id, ordinal)
    ),
    mine as materialized (
        select a.ordinal, m.*
        from asked a
        cross join lateral (
            select l.ctid as lease, l.job_id, l.lease_id, l.lease_until, l.cancel_requested_at,
                   coalesce(l.deadline <= v_now, false) as timed_out,
                   v_now + batchq._exact(coalesce(extend.lease_for, (
                       select q.lease_for from batchq.queue q where q.queue = l.queue), '60 s'))
                       as till
            from batchq.leased l
            where l.job_id = a.job_id and l.lease_id = a.lease_id
            limit 1
            for no key update skip locked
        ) m
    ),
    extended as (
        update batchq.leased l
        set lease_until = m.till, reap_at = least(l.reap_at, m.till)
        from mine m
        where l.ctid = m.lease and not m.timed_out
        returning m.ordinal, l.job_id, l.lease_id, l.lease_until, l.cancel_requested_at
    )
    select e.job_id, e.lease_id, e.lease_until,
           case when e.cancel_requested_at is null then 'extended' else 'cancelled' end
    from extended e
    union all
    select m.job_id, m.lease_id, m.lease_until, 'timed_out' from mine m where m.timed_out
    union all
    select a.job_id, a.lease_id, null,
           coalesce((select 'deferred' from batchq.leased l     -- exists would be hashed
                     where l.job_id = a.job_id and l.lease_id = a.lease_id), 'lost')
    from asked a
    where a.ordinal not in (
        select e.ordinal from extended e union all select m.ordinal from mine m where m.timed_out);
end
$extend$;

comment on function batchq.extend is $comment$
Renew leases: the heartbeat of jobs that run. Call it when a third of a lease has passed, and at
once when the payload 'cancel' comes on channel batchq: a running job, anybody's, was asked to stop.
The holder of a lease may extend it until it is taken back, even after lease_until.

job_ids, lease_ids: from lease, in pairs, at most 10,000. lease_for: from now, 0.1 s to 1 day;
else the queue's, else 60 s.

Returns: one row a pair, in no particular order (job_id, lease_id, lease_until, state). state:
'extended'; 'cancelled': extended, and the job was asked to stop; 'timed_out': the job's timeout is
over, the lease is not extended; 'lost': stop, the job is no longer yours; 'deferred': the row was
locked, or the pair was given twice, try again.
Errors: JQ001 the arrays differ in length, or lease_for is out of its bounds.
Role: batchq_worker.
Example: select * from batchq.extend(array[1, 2], array[11, 12], '60 s')
$comment$;
