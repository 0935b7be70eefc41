/*
 * Leases that are handed back: leased rows, locked by this transaction, leave with their attempt
 * not counted. Without a delay the job is ready again, in a new place; with one it is scheduled.
 * One that was asked to stop is cancelled.
 */
create or replace function batchq._hand_back(leases tid[], delays interval[])
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
as $_hand_back$
declare
    v_now constant timestamptz := batchq._now();
    v_ended batchq.ended_attempt[];
    v_over bigint[];
    v_queue record;
begin
    perform pg_current_xact_id();
    with gone as materialized (
        delete from batchq.leased l
        using unnest(_hand_back.leases, _hand_back.delays) as a(lease, delay)
        where l.ctid = a.lease
        returning l.*, a.delay,
            case when l.cancel_requested_at is not null then 'cancelled'
                 when a.delay > '0' then 'scheduled' else 'ready' end as state
    ),
    readied as (
        insert into batchq.ready (pos, job_id, ready_at, segment, priority, attempt, keyed, queue)
        select batchq._next_place(), g.job_id, v_now, g.segment, g.priority, g.attempt - 1,
               g.keyed, g.queue
        from gone g where g.state = 'ready'
    ),
    delayed as (
        insert into batchq.scheduled (job_id, run_at, since, segment, priority, attempt, keyed,
                                      queue)
        select g.job_id, v_now + batchq._exact(g.delay), v_now, g.segment, g.priority,
               g.attempt - 1, g.keyed, g.queue
        from gone g where g.state = 'scheduled'
    ),
    cancelled as (
        insert into batchq.outcome (job_id, lease_id, leased_at, finished_at, segment, attempt,
                                    state, reason)
        select g.job_id, g.lease_id, g.leased_at, v_now, g.segment, g.attempt, g.state,
               g.cancel_reason
        from gone g where g.state = 'cancelled'
    )
    select array_agg(row(g.job_id, g.queue, g.state)::batchq.ended_attempt),
           array_agg(g.job_id) filter (where g.keyed and g.state = 'cancelled')
    into v_ended, v_over
    from gone g;
    if v_over is not null then
        perform batchq._release_keys(v_over);
    end if;
    for v_queue in
        select e.queue, bool_or(e.state = 'scheduled') as delayed
        from unnest(v_ended) e
        where e.state <> 'cancelled'
        group by e.queue
        order by e.queue
    loop
        if v_queue.delayed then
            perform batchq._add_line(v_queue.queue, 'scheduled', 0::smallint);
        end if;
        perform batchq._ring(v_queue.queue);
    end loop;
    return query select e.* from unnest(v_ended) e;
end
$_hand_back$;
