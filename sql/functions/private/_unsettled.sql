/*
 * What became of the leases of a list that a settlement did not take: 'deferred' if somebody has
 * locked the row, 'lost' if it is no longer the caller's. One that ended before in one of the
 * given states is left out: being asked twice is no error.
 *
 * A scalar subquery, not exists: that the planner may turn into a hash of the whole table.
 */
create or replace function batchq._unsettled(
    job_ids bigint[],
    lease_ids bigint[],
    states text[]
)
returns setof batchq.lost_lease
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $_unsettled$
begin
    return query
    select a.job_id, a.lease_id,
           coalesce((select 'deferred' from batchq.leased l
                     where l.job_id = a.job_id and l.lease_id = a.lease_id), 'lost')
    from unnest(_unsettled.job_ids, _unsettled.lease_ids) as a(job_id, lease_id)
    where not coalesce(
        batchq._settled_before(a.job_id, a.lease_id) = any(_unsettled.states), false);
end
$_unsettled$;
