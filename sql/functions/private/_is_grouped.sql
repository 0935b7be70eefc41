-- Whether jobs of a queue that have a group_key wait for their turn in their group.
create or replace function batchq._is_grouped(queue text)
returns boolean
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $_is_grouped$
begin
    return exists (
        select from batchq.queue q where q.queue = _is_grouped.queue and q.grouped);
end
$_is_grouped$;
