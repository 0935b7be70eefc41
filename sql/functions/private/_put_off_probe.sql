/*
 * A probe is over without a good end, under the lock of its breaker: it failed, so jobs are held
 * back for another pause; or it was handed back, so another one may be the probe at once.
 */
create or replace function batchq._put_off_probe(queue batchq.queue, kind text, has_failed boolean)
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $_put_off_probe$
declare
    v_pause constant interval := batchq._breaker_pause(queue);
    v_next constant timestamptz := batchq._now() + v_pause * has_failed::integer;
begin
    perform batchq._make_due(b.queue, b.kind, b.probe_at, 1)
    from batchq.breaker b
    where b.queue = (_put_off_probe.queue).queue and b.kind = _put_off_probe.kind
      and not _put_off_probe.has_failed;
    update batchq.breaker b
    set probe_at = v_next,
        held_until = case when b.held_until > v_next then b.held_until
                          else v_next + 9 * v_pause end,
        last_error = case when _put_off_probe.has_failed
                          then coalesce(batchq._error_of(b.probe_job_id), b.last_error)
                          else b.last_error end,
        probes = b.probes + _put_off_probe.has_failed::integer,
        probe_job_id = null, probe_lease_id = null
    where b.queue = (_put_off_probe.queue).queue and b.kind = _put_off_probe.kind;
end
$_put_off_probe$;
