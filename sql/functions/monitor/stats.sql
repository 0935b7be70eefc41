/*
 * Depths by queue. Counts are cut off, read from the floors, and never touch history: the cost does
 * not grow with a backlog. Everything is read by one statement, so its parts fit together.
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
    v_queues constant text[] := case when queue is null
        then array(select n.name from batchq._queue_names() as n(name)) else array[queue] end;
    v_most constant integer :=
        least(100000, greatest(1000, 3000000 / (cardinality(v_queues) + 1)));
begin
    if queue is not null then
        perform batchq._check_queue_exists(queue);
    end if;
    return query
    with line as materialized (
        select distinct on (f.queue, f.line, f.priority)
               f.queue, f.line, f.priority, f.hard_floor
        from (select f.queue, f.line, f.priority, f.hard_floor, f.generation from batchq.floor f
              where stats.queue is null or f.queue = stats.queue
              union all
              select n.name collate "C", 'ready', 0::smallint, 0, -1  -- lane 0 need not be known
              from unnest(v_queues) as n(name)) f
        order by f.queue, f.line, f.priority, f.generation desc
    ),
    lanes as (
        select l.queue, array_agg(l.priority) as priorities, array_agg(l.hard_floor) as floors
        from line l where l.line = 'ready' group by l.queue
    ),
    waiting as (
        select l.queue, c.n, o.since
        from lanes l
        cross join lateral (
            select count(*) as n
            from (select from unnest(l.priorities, l.floors) as u(priority, place)
                  join batchq.ready r
                    on r.queue = l.queue and r.priority = u.priority and r.pos >= u.place
                  limit v_most + 1) r) c
        cross join lateral (
            select min(coalesce(f.ready_at, j.created_at)) as since
            from unnest(l.priorities, l.floors) as u(priority, place)
            cross join lateral (
                select r.job_id, r.segment, r.ready_at from batchq.ready r
                where r.queue = l.queue and r.priority = u.priority and r.pos >= u.place
                order by r.pos limit 1) f
            left join batchq.job j on j.id = f.job_id and j.segment = f.segment) o
    ),
    later as (
        select l.queue, c.n, c.next
        from line l
        cross join lateral (
            select count(*) as n, min(s.run_at) as next
            from (select s.run_at from batchq.scheduled s
                  where s.queue = l.queue and s.run_at >= batchq._instant(l.hard_floor)
                  order by s.run_at limit v_most + 1) s) c
        where l.line = 'scheduled'
    ),
    running as (
        select l.queue, count(*) as n from batchq.leased l
        where stats.queue is null or l.queue = stats.queue group by l.queue
    )
    select n.name, q.paused_at, q.pause_reason, least(coalesce(w.n, 0), v_most),
           least(coalesce(t.n, 0), v_most), coalesce(r.n, 0), least(d.n, v_most),
           greatest(w.n, t.n, d.n, b.n) <= v_most, w.since, t.next, least(b.n, v_most)
    from unnest(v_queues) as n(name)
    left join batchq.queue q on q.queue = n.name
    left join waiting w on w.queue = n.name
    left join later t on t.queue = n.name
    left join running r on r.queue = n.name
    cross join lateral (select count(*) as n from (
        select from batchq.blocked b where b.queue = n.name collate "C" limit v_most + 1) b) b
    cross join lateral (select count(*) as n from (
        select from batchq.dead d where d.queue = n.name collate "C" limit v_most + 1) d) d
    order by n.name collate "C";
end
$stats$;

comment on function batchq.stats is $comment$
Depth of each queue by state, and what its oldest ready job waits since.

queue: one queue; null for all that were ever used or set up.

Returns: queue_stats rows. Counts stop at 100,000 a state, or sooner where there are more than 29
queues, at 3,000,000 divided by one more than their number but not below 1,000; is_exact is false
when one did.
oldest_ready_at: since when the longest waiting ready job is ready. next_run_at: when the next
scheduled job is due. blocked: jobs that wait for their turn in their group.
Errors: JQ002 no such queue.
Role: batchq_monitor, and every other role of batchq.
Example: select queue, ready, leased, dead from batchq.stats()
$comment$;
