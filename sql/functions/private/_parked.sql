/*
 * Whether a worker is parked on the bell of a queue, asked in such a way that one which parks
 * right now learns of this transaction. To be called after the rows it should find are written.
 *
 * 1651572530 "ringing": shared, held to the end of this transaction. A worker that has parked
 * tries it exclusively and so learns that a change it cannot see yet is under way.
 * 1651572528 "parked": shared, held by the LISTEN sessions of parked workers. It is tried and let
 * go in one expression, so that a cancelled statement cannot leave it behind.
 */
create or replace function batchq._parked(queue text)
returns boolean
language sql
volatile
return case
    when pg_advisory_xact_lock_shared(1651572530, batchq._bell(queue)) is null then null
    when pg_try_advisory_lock(1651572528, batchq._bell(queue))
        then not pg_advisory_unlock(1651572528, batchq._bell(queue))
    else true
end;
