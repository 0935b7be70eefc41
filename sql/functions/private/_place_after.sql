-- The place of the ready job of a lane that has n before it, counted from a place; the highest
-- place there is if there are fewer.
create or replace function batchq._place_after(
    queue text,
    priority smallint,
    from_place bigint,
    n integer
)
returns bigint
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $_place_after$
begin
    return coalesce((
        select r.pos
        from batchq.ready r
        where r.queue = _place_after.queue and r.priority = _place_after.priority
          and r.pos >= _place_after.from_place
        order by r.pos
        offset _place_after.n
        limit 1), 9223372036854775807);
end
$_place_after$;
