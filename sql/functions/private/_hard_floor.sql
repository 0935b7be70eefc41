-- The hard floor of a line of a queue; 0 if the line has none.
create or replace function batchq._hard_floor(queue text, line text)
returns bigint
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $_hard_floor$
declare
    v_floor bigint;
begin
    select f.hard_floor into v_floor
    from batchq.floor f
    where f.queue = _hard_floor.queue and f.line = _hard_floor.line
    order by f.generation desc
    limit 1;
    return coalesce(v_floor, 0);
end
$_hard_floor$;
