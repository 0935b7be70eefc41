-- Make sure leases of a queue look at its scheduled jobs.
create or replace function batchq._add_scheduled_line(queue text)
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $_add_scheduled_line$
begin
    if not exists (
        select from batchq.floor f
        where f.queue = _add_scheduled_line.queue and f.line = 'scheduled'
    ) then
        perform batchq._add_line(_add_scheduled_line.queue, 'scheduled', 0::smallint);
    end if;
end
$_add_scheduled_line$;
