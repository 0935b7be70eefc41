-- Forget lanes of queues with more than 64 of them that are empty: priorities used once. A floor
-- row is a hint; a job added to a forgotten lane is found again. Lane 0 stays: enqueue relies on
-- it.
-- Returns how many were dropped.
create or replace function batchq._drop_lanes()
returns bigint
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $_drop_lanes$
declare
    v_dropped bigint;
begin
    with crowded as (
        select f.queue from batchq.floor f where f.line = 'ready'
        group by f.queue having count(distinct f.priority) > 64
    ),
    empty as materialized (
        select f.ctid
        from batchq.floor f join crowded c on c.queue = f.queue
        where f.line = 'ready' and f.priority <> 0
          and not exists (select from batchq.ready r
                          where r.queue = f.queue and r.priority = f.priority)
        limit 1000
        for update of f skip locked
    )
    delete from batchq.floor f using empty e where f.ctid = e.ctid;
    get diagnostics v_dropped = row_count;
    return v_dropped;
end
$_drop_lanes$;
