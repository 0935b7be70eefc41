/*
 * Claim the right to run the probe of a kind, if it is due: false if another session has it, or if
 * a probe still runs. Either way the other jobs of the kind wait for another pause.
 */
create or replace function batchq._claim_probe(queue batchq.queue, kind text)
returns boolean
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $_claim_probe$
declare
    v_breaker batchq.breaker;
    v_next timestamptz;
    v_runs boolean;
begin
    select b.* into v_breaker
    from batchq.breaker b
    where b.queue = (_claim_probe.queue).queue and b.kind = _claim_probe.kind
      and b.closed_at is null and b.probe_at <= batchq._now()
    for no key update skip locked;
    if not found then
        return false;
    end if;
    v_runs := exists (
        select from batchq.leased l
        where l.job_id = v_breaker.probe_job_id and l.lease_id = v_breaker.probe_lease_id);
    v_next := batchq._now() + batchq._breaker_pause(_claim_probe.queue);
    update batchq.breaker b
    set probe_at = v_next,
        held_until = case when b.held_until > v_next then b.held_until
                          else v_next + 9 * batchq._breaker_pause(_claim_probe.queue) end,
        probe_job_id = case when v_runs then b.probe_job_id end,
        probe_lease_id = case when v_runs then b.probe_lease_id end
    where b.queue = v_breaker.queue and b.kind = v_breaker.kind;
    return not v_runs;
end
$_claim_probe$;
