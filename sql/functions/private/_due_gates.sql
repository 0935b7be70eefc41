-- That a scheduled job is not due yet: for explain_job.
create or replace function batchq._due_gates(
    job_id bigint,
    segment smallint,
    place batchq.job_place,
    max_attempts integer,
    at timestamptz
)
returns setof batchq.gate
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $_due_gates$
declare
    v_error constant text := (
        select left(e.error, 1000)
        from batchq.error e
        where e.job_id = _due_gates.job_id and e.segment = _due_gates.segment
        order by e.lease_id desc
        limit 1);
begin
    if (place).state = 'scheduled' and (place).run_at > at then
        return query
        select 'due', true,
               'it is not due until ' || batchq._stamp((place).run_at)
               || case when (place).attempts > 0
                       then format(': attempt %s of %s', (place).attempts + 1, max_attempts)
                       else '' end
               || coalesce('; the last one failed: ' || v_error, ''),
               (place).run_at,
               jsonb_build_object('run_at', (place).run_at, 'attempts', (place).attempts,
                                  'max_attempts', max_attempts, 'last_error', v_error);
    end if;
end
$_due_gates$;
