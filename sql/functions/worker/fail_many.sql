/*
 * Failing many attempts. Leases are locked first, skipping rows that others hold; what becomes
 * of each job is decided in _end_attempts.
 */
create or replace function batchq.fail_many(
    job_ids bigint[],
    lease_ids bigint[],
    errors text[],
    permanents boolean[] default null,
    retry_ins interval[] default null
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
as $fail_many$
declare
    v_n constant integer := cardinality(job_ids);
    v_leases tid[];
    v_errors text[];
    v_permanents boolean[];
    v_retry_ins interval[];
begin
    perform batchq._check_lists(v_n, cardinality(lease_ids), cardinality(errors));
    perform batchq._check_lists(v_n, v_n, cardinality(permanents));
    perform batchq._check_waits(v_n, retry_ins);
    perform batchq._check_list(errors), batchq._check_list(permanents),
            batchq._check_list(retry_ins);
    select array_agg(m.lease), array_agg(errors[m.ordinal]), array_agg(permanents[m.ordinal]),
           array_agg(retry_ins[m.ordinal])
    into v_leases, v_errors, v_permanents, v_retry_ins
    from batchq._lock_leases(job_ids, lease_ids) m;
    if v_leases is not null then
        perform batchq._end_attempts(v_leases, v_errors, v_permanents, v_retry_ins, false);
    end if;
    if coalesce(cardinality(v_leases), 0) < v_n then
        return query select u.* from batchq._unsettled(job_ids, lease_ids, '{failed,cancelled}') u;
    end if;
end
$fail_many$;

comment on function batchq.fail_many is $comment$
End many attempts that failed, as fail does for one. One bad row never spoils the rest.

job_ids, lease_ids, errors: in step, at most 10,000. permanents, retry_ins: null, or as many
entries, null for the default.

Returns: the leases that were not settled, as complete_many does.
Errors: JQ001 the arrays differ in length, or a retry_in is over 10 years.
Role: batchq_worker.
Example: select * from batchq.fail_many(array[1, 2], array[11, 12], array['no route', 'timeout'])
$comment$;
