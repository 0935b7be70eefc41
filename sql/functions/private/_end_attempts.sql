/*
 * Attempts that failed: leased rows, locked by this transaction, leave; each goes on to scheduled
 * (attempts left), dead (none left, or permanent) or outcome (it was asked to stop). The error of
 * the attempt is kept. expired tells leases that ran out from attempts that were reported.
 */
create or replace function batchq._end_attempts(
    leases tid[],
    errors text[],
    permanents boolean[],
    retry_ins interval[],
    expired boolean
)
returns setof batchq.ended_attempt
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $_end_attempts$
declare
    v_now constant timestamptz := batchq._now();
    v_ended batchq.ended_attempt[];
    v_ties batchq.tie[];
    v_queue text;
begin
    with gone as (
        delete from batchq.leased l
        using unnest(_end_attempts.leases, _end_attempts.errors, _end_attempts.permanents,
                     _end_attempts.retry_ins) as a(lease, error, permanent, retry_in)
        where l.ctid = a.lease
        returning l.*, a.error, a.permanent, a.retry_in
    ),
    judged as materialized (
        select g.job_id, g.lease_id, g.leased_at, g.segment, g.priority, g.attempt, g.ties,
               case when v.state = 'scheduled' and g.ties <> 0
                    then batchq._kept_ties(g.ties, g.queue) else 0 end as kept,
               g.queue, g.worker, g.error, g.cancel_reason, v.state,
               case when v.state <> 'scheduled' then null
                    when g.retry_in is null then v_now + batchq._backoff_wait(g.attempt, j, q)
                    else v_now + greatest(batchq._exact(g.retry_in), '0') end as run_at
        from gone g
        join batchq.job j on j.id = g.job_id and j.segment = g.segment
        left join batchq.queue q on q.queue = g.queue
        cross join lateral (
            select case when g.cancel_requested_at is not null then 'cancelled'
                        when coalesce(g.permanent, false) or g.attempt >= j.max_attempts
                        then 'failed' else 'scheduled' end as state
        ) v
    ),
    noted as (
        insert into batchq.error (job_id, lease_id, failed_at, segment, attempt, expired, error,
                                  worker)
        select d.job_id, d.lease_id, v_now, d.segment, d.attempt, _end_attempts.expired,
               batchq._fit_error(d.error), d.worker
        from judged d
    ),
    retried as (
        insert into batchq.scheduled (job_id, run_at, since, segment, priority, attempt, ties,
                                      queue)
        select d.job_id, d.run_at, v_now, d.segment, d.priority, d.attempt, d.kept, d.queue
        from judged d where d.state = 'scheduled'
    ),
    buried as (
        insert into batchq.dead (job_id, failed_at, segment, priority, attempt, queue)
        select d.job_id, v_now, d.segment, d.priority, d.attempt, d.queue
        from judged d where d.state = 'failed'
    ),
    cancelled as (
        insert into batchq.outcome (job_id, lease_id, leased_at, finished_at, segment, attempt,
                                    state, reason)
        select d.job_id, d.lease_id, d.leased_at, v_now, d.segment, d.attempt, d.state,
               d.cancel_reason
        from judged d where d.state = 'cancelled'
    )
    select array_agg(row(d.job_id, d.queue, d.state)::batchq.ended_attempt),
           array_agg(row(d.job_id, d.segment, d.ties & ~d.kept, d.queue, nullif(
               d.state <> 'cancelled', false))::batchq.tie) filter (where d.ties & ~d.kept <> 0)
    into v_ended, v_ties
    from judged d;
    if v_ties is not null then
        perform batchq._untie(v_ties);
    end if;
    for v_queue in
        select distinct e.queue from unnest(v_ended) e where e.state = 'scheduled' order by e.queue
    loop
        perform batchq._add_line(v_queue, 'scheduled', 0::smallint), batchq._ring(v_queue);
    end loop;
    return query select e.* from unnest(v_ended) e;
end
$_end_attempts$;
