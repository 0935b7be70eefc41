-- Raise JQ001 for the first argument of cancel_many that is out of its bounds, JQ003 for a job that
-- does not exist.
create or replace function batchq._check_cancel(
    job_ids bigint[],
    state text,
    has_filter boolean,
    n integer
)
returns void
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $_check_cancel$
declare
    v_job_id bigint;
begin
    if not coalesce(n between 1 and 100000, false) then
        perform batchq._raise('JQ001', format('invalid n: %s', coalesce(n::text, 'null')),
            'give 1 to 100,000');
    end if;
    if state not in ('ready', 'scheduled', 'blocked', 'leased', 'pending', 'running', 'processing')
    then
        perform batchq._raise('JQ001', format('unknown state: %s', quote_literal(left(state, 80))),
            'give ready, scheduled, blocked, leased, pending or running');
    end if;
    if job_ids is null and not has_filter then
        perform batchq._raise('JQ001', 'neither jobs nor a filter are given',
            'give job_ids, queue, kind, state or a time; created_before => now() is every job');
    end if;
    if cardinality(job_ids) > 100000 then
        perform batchq._raise('JQ001', format('%s job_ids', cardinality(job_ids)),
            'give at most 100,000');
    end if;
    select a.job_id into v_job_id
    from unnest(_check_cancel.job_ids) with ordinality as a(job_id, ordinal)
    left join lateral (select j.id from batchq.job j where j.id = a.job_id limit 1) k on true
    where k.id is null
    order by a.ordinal
    limit 1;
    if found then
        perform batchq._job_not_found(v_job_id);
    end if;
end
$_check_cancel$;
