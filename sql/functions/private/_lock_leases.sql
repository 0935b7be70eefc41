/*
 * Lock the leases of a list that are still the caller's. Each is found by its own index probe, in
 * the order of the list. A row that somebody else has locked is skipped: one locked row must not
 * hold up the rest, and skipping cannot deadlock.
 */
create or replace function batchq._lock_leases(job_ids bigint[], lease_ids bigint[])
returns setof batchq.locked_lease
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $_lock_leases$
begin
    return query
    select a.ordinal::integer, m.lease
    from unnest(_lock_leases.job_ids, _lock_leases.lease_ids)
             with ordinality as a(job_id, lease_id, ordinal)
    cross join lateral (
        select l.ctid as lease
        from batchq.leased l
        where l.job_id = a.job_id and l.lease_id = a.lease_id
        limit 1
        for update skip locked
    ) m;
end
$_lock_leases$;
