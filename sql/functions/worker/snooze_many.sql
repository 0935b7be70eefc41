-- Handing back many leases, each with its own delay. Leases are locked first, skipping rows that
-- others hold; see _hand_back.
create or replace function batchq.snooze_many(
    job_ids bigint[],
    lease_ids bigint[],
    delays interval[]
)
returns setof batchq.lost_lease
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $snooze_many$
declare
    v_n constant integer := cardinality(job_ids);
    v_leases tid[];
    v_delays interval[];
    v_taken integer[];
begin
    perform batchq._check_lists(v_n, cardinality(lease_ids), null);
    perform batchq._check_waits(v_n, delays);
    perform batchq._check_list(delays);
    select array_agg(m.lease), array_agg(delays[m.ordinal]), array_agg(m.ordinal)
    into v_leases, v_delays, v_taken
    from batchq._lock_leases(job_ids, lease_ids) m;
    if v_leases is not null then
        perform batchq._hand_back(v_leases, v_delays);
    end if;
    if coalesce(cardinality(v_leases), 0) < v_n then
        return query
        select u.*
        from (select array_agg(a.job_id) as job_ids, array_agg(a.lease_id) as lease_ids
              from unnest(job_ids, lease_ids) with ordinality as a(job_id, lease_id, ordinal)
              where a.ordinal <> all(coalesce(v_taken, '{}'))) rest
        cross join lateral batchq._unsettled(rest.job_ids, rest.lease_ids, '{}') u;
    end if;
end
$snooze_many$;

comment on function batchq.snooze_many is $comment$
Hand back many jobs to be run later, as snooze does for one. One bad row never spoils the rest.

job_ids, lease_ids, delays: in step, at most 10,000; a delay that is null or not positive means
now.

Returns: the leases that were not settled, as complete_many does.
Errors: JQ001 the arrays differ in length, or a delay is over 10 years.
Role: batchq_worker.
Example: select * from batchq.snooze_many(array[1], array[11], array[interval '5 min'])
$comment$;
