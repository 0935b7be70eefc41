-- Verifying a lease inside the user's own transaction. The lock lets extend through and holds off
-- whatever would end the lease, until that transaction ends.
create or replace function batchq.assert_lease(job_id bigint, lease_id bigint)
returns timestamptz
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
as $assert_lease$
declare
    v_lease_until timestamptz;
begin
    select l.lease_until into v_lease_until
    from batchq.leased l
    where l.job_id = assert_lease.job_id and l.lease_id = assert_lease.lease_id
    for key share;
    if not found then
        perform batchq._lease_lost(job_id, lease_id);
    end if;
    return v_lease_until;
end
$assert_lease$;

comment on function batchq.assert_lease is $comment$
Make sure, in the transaction of your own writes, that the job is still yours: until that
transaction ends nobody can take the lease back, and if it is lost already the error rolls your
writes back. Call it last, right before the commit. Heartbeats go on meanwhile.

job_id, lease_id: from lease.

Returns: lease_until.
Errors: JQ004 the lease is lost.
Role: batchq_worker.
Example: select batchq.assert_lease(l.job_id, l.lease_id) from batchq.lease() l
$comment$;
