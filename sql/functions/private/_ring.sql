/*
 * Wake parked workers of a queue, if there are any: a commit that carries a NOTIFY takes a lock
 * of the whole server, so it is sent for a parked worker only.
 *
 * 1651572530 "ringing": shared, held to the end of this transaction. A worker that parks tries
 * it exclusively and so learns that an enqueue it could not see yet is under way.
 * 1651572528 "parked": shared, held by the LISTEN sessions of parked workers. It is tried and let
 * go in one expression, so that a cancelled statement cannot leave it behind.
 */
create or replace function batchq._ring(queue text)
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $_ring$
declare
    v_bell constant integer := batchq._bell(_ring.queue);
begin
    perform pg_advisory_xact_lock_shared(1651572530, v_bell);
    if (case when pg_try_advisory_lock(1651572528, v_bell)
             then not pg_advisory_unlock(1651572528, v_bell)
             else true
        end)
    then
        perform pg_notify('batchq', v_bell::text);
    end if;
end
$_ring$;
