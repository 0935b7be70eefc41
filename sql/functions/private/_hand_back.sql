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
    v_ties batchq.tie[];
    v_queue record;
begin
    perform pg_current_xact_id();
    with taken as materialized (
        delete from batchq.leased l
        using unnest(_hand_back.leases, _hand_back.delays) as a(lease, delay)
        where l.ctid = a.lease
        returning l.*, a.delay,
            case when l.cancel_requested_at is not null then 'cancelled'
                 when a.delay > '0' or (l.ties & 4 <> 0 and batchq._is_paced(l.queue))
                 then 'scheduled' else 'ready' end as state
    ),
    gone as materialized (
        select t.*,
               case when t.ties = 0 or t.state = 'cancelled' then 0
                    when t.state = 'ready' then t.ties & ~34
                    else batchq._kept_ties(t.ties, t.queue) end as kept
        from taken t
    ),
    readied as (
        insert into batchq.ready (pos, job_id, ready_at, segment, priority, attempt, ties, queue)
        select batchq._next_place(), g.job_id, v_now, g.segment, g.priority, g.attempt - 1,
               g.kept, g.queue
        from gone g where g.state = 'ready'
    ),
    delayed as (
        insert into batchq.scheduled (job_id, run_at, since, segment, priority, attempt, ties,
                                      queue)
        select g.job_id, v_now + coalesce(greatest(batchq._exact(g.delay), '0'), '0'), v_now,
               g.segment, g.priority, g.attempt - 1, g.kept, g.queue
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
           array_agg(row(g.job_id, g.segment, g.ties & ~g.kept, g.queue, null)::batchq.tie)
               filter (where g.ties & ~g.kept <> 0)
    into v_ended, v_ties
    from gone g;
    if v_ties is not null then
        perform batchq._untie(v_ties);
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
