-- Why a job that runs or is over is not to be started: for explain_job.
create or replace function batchq._end_gates(
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
as $_end_gates$
declare
    v_by constant text := coalesce('worker ' || (place).locked_by, 'somebody');
    v_error constant text := coalesce((
        select e.error
        from batchq.error e
        where e.job_id = _end_gates.job_id and e.segment = _end_gates.segment
        order by e.lease_id desc
        limit 1), (place).reason);
begin
    if (place).state <> 'leased' then
        return query
        select 'finished', false,
               format('it is over: %s at %s, attempt %s of %s', (place).status,
                      batchq._stamp((place).finished_at), (place).attempts, max_attempts)
               || case when (place).state = 'completed' then ''
                       else coalesce(': ' || left(v_error, 1000), '') end,
               null::timestamptz,
               jsonb_build_object(
                   'status', (place).status, 'finished_at', (place).finished_at,
                   'attempts', (place).attempts, 'max_attempts', max_attempts,
                   'error', case when (place).state <> 'completed' then left(v_error, 1000) end);
        return;
    end if;
    return query
    select 'running', false,
           case when (place).locked_until > at
               then format('it runs already: %s has had it since %s, attempt %s of %s, lease until'
                           ' %s', v_by, batchq._stamp((place).started_at), (place).attempts,
                           max_attempts, batchq._stamp((place).locked_until))
               else format('the lease of %s ran out at %s: upkeep gives the job back', v_by,
                           batchq._stamp((place).locked_until)) end,
           (place).locked_until,
           jsonb_build_object(
               'worker', (place).locked_by, 'leased_at', (place).started_at,
               'lease_until', (place).locked_until, 'attempt', (place).attempts,
               'max_attempts', max_attempts);
    if (place).cancel_requested_at is not null then
        return query
        select 'cancelling', false,
               'it was asked to stop at ' || batchq._stamp((place).cancel_requested_at),
               null::timestamptz,
               jsonb_build_object('cancel_requested_at', (place).cancel_requested_at);
    end if;
end
$_end_gates$;
