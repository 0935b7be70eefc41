-- The rank of a job among the waiting jobs of its group: 0 where one runs at a time, so that they
-- keep their order, else the priority turned round. Null if the queue does not limit its groups.
create or replace function batchq._rank(queue text, priority integer)
returns smallint
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $_rank$
begin
    return (
        select case when q.group_limit = 1 then 0
                    else -greatest(_rank.priority, -32767) end::smallint
        from batchq.queue q
        where q.queue = _rank.queue and q.grouped);
end
$_rank$;
