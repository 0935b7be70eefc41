/*
 * The lanes of ready that have jobs, of one queue or of all. They are found from the high end of
 * the index, lane by lane: what is consumed of a lane is its low end. Read from ready itself, as a
 * lane may be one that no floor row tells of. (Compared as a row, queue and priority together with
 * the queue alone would walk the lane.)
 */
create or replace function batchq._lanes(queue text)
returns setof batchq.line
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $_lanes$
begin
    return query
    with recursive lane as (
        (select r.queue, r.priority
         from batchq.ready r
         where r.queue = _lanes.queue
         order by r.priority desc
         limit 1)
        union all
        (select r.queue, r.priority
         from batchq.ready r
         where _lanes.queue is null
         order by r.queue desc, r.priority desc
         limit 1)
        union all
        select x.queue, x.priority
        from lane l
        cross join lateral (
            (select r.queue, r.priority
             from batchq.ready r
             where r.queue = l.queue and r.priority < l.priority
             order by r.priority desc
             limit 1)
            union all
            (select r.queue, r.priority
             from batchq.ready r
             where _lanes.queue is null and r.queue < l.queue
             order by r.queue desc, r.priority desc
             limit 1)
            limit 1
        ) x
    )
    select l.queue::text, 'ready', l.priority from lane l;
end
$_lanes$;
