-- Whether groups of a queue have a limit of starts: then each start of a job needs a permit.
create or replace function batchq._is_paced(queue text)
returns boolean
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $_is_paced$
begin
    return exists (
        select from batchq.queue q
        where q.queue = _is_paced.queue and q.group_rate is not null);
end
$_is_paced$;
