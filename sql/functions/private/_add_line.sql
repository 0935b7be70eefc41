/*
 * Make sure leases of a queue look at a line. Two at once make two rows, which does no harm, and
 * nobody waits. Lane 0 is written with the first line of a queue, so a lease that finds any line
 * of a queue finds lane 0; a queue without lines is looked into by _discover.
 */
create or replace function batchq._add_line(queue text, line text, priority smallint)
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $_add_line$
begin
    insert into batchq.floor (queue, line, priority)
    select _add_line.queue, w.line, w.priority
    from (values (_add_line.line, _add_line.priority), ('ready', 0::smallint)) as w(line, priority)
    where not exists (
        select from batchq.floor f
        where f.queue = _add_line.queue and f.line = w.line and f.priority = w.priority);
end
$_add_line$;
