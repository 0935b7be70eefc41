/*
 * Jobs of a lane that are to run as probes: for each kind whose time has come, the first that
 * nobody else has locked, if the right to probe is to be had. It is asked for when there is a job
 * to use it, so that a breaker nobody has jobs for is not written with every lease.
 */
create or replace function batchq._choose_probes(
    queue batchq.queue,
    priority smallint,
    from_place bigint,
    upto bigint
)
returns bigint[]
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $_choose_probes$
declare
    v_due record;
    v_job_id bigint;
    v_chosen bigint[] := array[]::bigint[];
begin
    for v_due in
        select b.kind
        from batchq.breaker b
        where b.queue = (_choose_probes.queue).queue and b.closed_at is null
          and b.probe_at <= batchq._now()
    loop
        select r.job_id into v_job_id
        from batchq.ready r
        where r.queue = (_choose_probes.queue).queue and r.priority = _choose_probes.priority
          and r.pos between _choose_probes.from_place and _choose_probes.upto
          and batchq._kind_of(r.job_id, r.segment) = v_due.kind collate "C"
        order by r.pos
        limit 1
        for update skip locked;
        if found and batchq._claim_probe(queue, v_due.kind) then
            v_chosen := array_append(v_chosen, v_job_id);
        end if;
    end loop;
    return v_chosen;
end
$_choose_probes$;
