-- Ready jobs of a lane, counted from its hard floor to at most 100,001.
create or replace function batchq._count_ready(queue text, priority smallint, from_place bigint)
returns bigint
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $_count_ready$
begin
    return (
        select count(*)
        from (select from batchq.ready r
              where r.queue = _count_ready.queue and r.priority = _count_ready.priority
                and r.pos >= _count_ready.from_place
              limit 100001) c);
end
$_count_ready$;
