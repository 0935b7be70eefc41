/*
 * The next n ready jobs of a queue, as a lease would take them: best lane first, each from its
 * hard floor up. Lanes that no floor row tells of are looked for if there is nothing else, as a
 * lease does.
 */
create or replace function batchq._next_ready(queue text, n integer)
returns setof batchq.ready
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $_next_ready$
declare
    v_lane record;
    v_left integer := n;
    v_count integer;
begin
    for v_lane in
        select distinct on (l.priority) l.priority, l.hard_floor
        from (select f.priority, f.hard_floor, f.generation
              from batchq.floor f
              where f.queue = _next_ready.queue and f.line = 'ready'
              union all
              select 0::smallint, 0, 0) l
        order by l.priority desc, l.generation desc
    loop
        exit when v_left <= 0;
        return query
        select r.*
        from batchq.ready r
        where r.queue = _next_ready.queue and r.priority = v_lane.priority
          and r.pos >= v_lane.hard_floor
        order by r.pos
        limit v_left;
        get diagnostics v_count = row_count;
        v_left := v_left - v_count;
    end loop;
    if v_left = n then
        return query
        select r.*
        from batchq._lanes(_next_ready.queue) l
        cross join lateral (
            select r.* from batchq.ready r
            where r.queue = _next_ready.queue and r.priority = l.priority
            order by r.pos
            limit _next_ready.n) r
        limit _next_ready.n;
    end if;
end
$_next_ready$;
