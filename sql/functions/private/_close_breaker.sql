-- Close the breaker of a kind: what failed before does not count any more, and jobs that are held
-- back become due.
create or replace function batchq._close_breaker(queue text, kind text)
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $_close_breaker$
begin
    update batchq.breaker b
    set closed_at = batchq._now(), probe_job_id = null, probe_lease_id = null
    where b.queue = _close_breaker.queue and b.kind = _close_breaker.kind and b.closed_at is null;
    insert into batchq.attempt_end (ended_at, ended, failed, queue, kind)
    values (batchq._now(), 0, 0, _close_breaker.queue, _close_breaker.kind);
    perform batchq._release_held(_close_breaker.queue, _close_breaker.kind, 1000),
            batchq._ring(_close_breaker.queue);
end
$_close_breaker$;
