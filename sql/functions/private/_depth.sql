-- How many jobs of a queue are ready or blocked, counted up to a bound.
create or replace function batchq._depth(queue text, bound integer)
returns integer
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $_depth$
declare
    v_ready constant integer := batchq._ready_depth(queue, bound);
begin
    return v_ready + (
        select count(*)::integer
        from (select from batchq.blocked b
              where b.queue = _depth.queue limit _depth.bound - v_ready) c);
end
$_depth$;
