/*
 * Depths by queue. Counts are cut off at 100,000 a state, read from the floors, and never touch
 * history: the cost does not grow with a backlog.
 */
create or replace function batchq.stats(queue text default null)
returns setof batchq.queue_stats
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $stats$
declare
    v_stats batchq.queue_stats;
    v_name record;
    v_lane record;
begin
    for v_name in
        select n.queue, q.paused_at, q.pause_reason
        from (select f.queue from batchq.floor f where f.queue <> ''
              union select q.queue from batchq.queue q
              union select u.queue from batchq._unseen_queues() as u(queue)) n
        left join batchq.queue q on q.queue = n.queue
        where stats.queue is null or n.queue = stats.queue
        order by n.queue
    loop
        v_stats := null;
        v_stats.queue := v_name.queue;
        v_stats.paused_at := v_name.paused_at;
        v_stats.pause_reason := v_name.pause_reason;
        v_stats.ready := 0;
        v_stats.scheduled := 0;
        for v_lane in
            select distinct on (f.line, f.priority) f.line, f.priority, f.hard_floor
            from (select g.line, g.priority, g.hard_floor, g.generation
                  from batchq.floor g
                  where g.queue = v_name.queue
                  union all
                  select 'ready', 0::smallint, 0, 0) f    -- lane 0 need not be known
            order by f.line, f.priority, f.generation desc
        loop
            if v_lane.line = 'ready' then
                v_stats.ready := v_stats.ready
                    + batchq._count_ready(v_name.queue, v_lane.priority, v_lane.hard_floor);
                v_stats.oldest_ready_at := least(v_stats.oldest_ready_at, (
                    select coalesce(r.ready_at, j.created_at)
                    from batchq.ready r
                    join batchq.job j on j.id = r.job_id and j.segment = r.segment
                    where r.queue = v_name.queue and r.priority = v_lane.priority
                      and r.pos >= v_lane.hard_floor
                    order by r.pos
                    limit 1));
            else
                select count(*), min(c.run_at) into v_stats.scheduled, v_stats.next_run_at
                from (select s.run_at from batchq.scheduled s
                      where s.queue = v_name.queue
                        and s.run_at >= batchq._instant(v_lane.hard_floor)
                      order by s.run_at
                      limit 100001) c;
            end if;
        end loop;
        select count(*) into v_stats.leased from batchq.leased l where l.queue = v_name.queue;
        select count(*) into v_stats.dead
        from (select from batchq.dead d where d.queue = v_name.queue limit 100001) c;
        v_stats.is_exact := greatest(v_stats.ready, v_stats.scheduled, v_stats.dead) <= 100000;
        v_stats.ready := least(v_stats.ready, 100000);
        v_stats.scheduled := least(v_stats.scheduled, 100000);
        v_stats.dead := least(v_stats.dead, 100000);
        return next v_stats;
    end loop;
    if not found and queue is not null then
        perform batchq._raise('JQ002', format('no queue %s', quote_literal(left(queue, 80))),
            'check the name; select queue from batchq.stats() lists the queues');
    end if;
end
$stats$;

comment on function batchq.stats is $comment$
Depth of each queue by state, and what its oldest ready job waits since.

queue: one queue; null for all that were ever used or set up.

Returns: queue_stats rows. Counts stop at 100,000 a state; is_exact is false when one did.
oldest_ready_at: since when the longest waiting ready job is ready. next_run_at: when the next
scheduled job is due.
Errors: JQ002 no such queue.
Role: batchq_monitor, and every other role of batchq.
Example: select queue, ready, leased, dead from batchq.stats()
$comment$;
