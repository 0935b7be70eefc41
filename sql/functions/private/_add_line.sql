-- Give a line its first floor row. Two at once make two rows, which does no harm; nobody waits.
create or replace function batchq._add_line(queue text, line text, priority smallint)
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $_add_line$
begin
    insert into batchq.floor (queue, line, priority)
    values (_add_line.queue, _add_line.line, _add_line.priority);
end
$_add_line$;
