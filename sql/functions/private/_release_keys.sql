/*
 * Give back the dedupe keys of jobs that are over, unless a time window still holds them.
 *
 * A key that somebody has locked is being taken over, and is left to him: to wait would be to
 * wait for an open transaction, and keys locked here in another order than enqueue_many's could
 * deadlock. Should that transaction roll back, the hold stays behind without a job that is alive,
 * and the next enqueue with the key takes it over.
 */
create or replace function batchq._release_keys(job_ids bigint[])
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $_release_keys$
begin
    with held as materialized (
        select d.ctid
        from batchq.dedupe d
        where d.job_id = any(_release_keys.job_ids)
          and (d.held_until is null or d.held_until <= batchq._now())
        for update skip locked
    )
    delete from batchq.dedupe d using held h where d.ctid = h.ctid;
end
$_release_keys$;
