-- How many jobs of a queue are ready, counted up to a bound.
create or replace function batchq._ready_depth(queue text, bound integer)
returns integer
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $_ready_depth$
declare
    v_lane record;
    v_ready integer := 0;
    v_count integer;
begin
    for v_lane in
        select distinct on (l.priority) l.priority, l.hard_floor
        from (select f.priority, f.hard_floor, f.generation
              from batchq.floor f
              where f.queue = _ready_depth.queue and f.line = 'ready'
              union all
              select 0::smallint, 0, 0) l        -- lane 0 need not be known
        order by l.priority, l.generation desc
    loop
        select count(*)::integer into v_count
        from (select from batchq.ready r
              where r.queue = _ready_depth.queue and r.priority = v_lane.priority
                and r.pos >= v_lane.hard_floor
              limit _ready_depth.bound - v_ready) c;
        v_ready := v_ready + v_count;
        exit when v_ready >= _ready_depth.bound;
    end loop;
    return v_ready;
end
$_ready_depth$;
