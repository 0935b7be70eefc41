-- Wake the parked workers of a queue, if there are any: a commit that carries a NOTIFY takes a
-- lock of the whole server, so it is sent for a parked worker only.
create or replace function batchq._ring(queue text)
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $_ring$
begin
    if batchq._parked(_ring.queue) then
        perform pg_notify('batchq', batchq._bell(_ring.queue)::text);
    end if;
end
$_ring$;
