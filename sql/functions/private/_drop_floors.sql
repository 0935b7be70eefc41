-- Delete floor rows older than one that is committed. Rows somebody else is deleting are skipped.
create or replace function batchq._drop_floors(
    queue text,
    line text,
    priority smallint,
    below bigint
)
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $_drop_floors$
begin
    with old as materialized (
        select f.ctid
        from batchq.floor f
        where f.queue = _drop_floors.queue and f.line = _drop_floors.line
          and f.priority = _drop_floors.priority and f.generation < _drop_floors.below
        order by f.generation desc
        limit 10
        for update skip locked
    )
    delete from batchq.floor f using old o where f.ctid = o.ctid;
end
$_drop_floors$;
