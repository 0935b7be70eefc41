-- After a lease: which of the probes that were chosen run. One that had no room is to be tried
-- again at once.
create or replace function batchq._start_probes(queue batchq.queue, probes bigint[])
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
as $_start_probes$
begin
    if coalesce(probes, '{}') = '{}' then
        return;
    end if;
    update batchq.breaker b
    set probe_job_id = l.job_id, probe_lease_id = l.lease_id,
        probe_at = case when l.job_id is null then batchq._now() else b.probe_at end
    from unnest(_start_probes.probes) p(job_id)
    join batchq.job j on j.id = p.job_id
    left join batchq.leased l on l.job_id = p.job_id
    where b.queue = (_start_probes.queue).queue and b.kind = j.kind;
end
$_start_probes$;
