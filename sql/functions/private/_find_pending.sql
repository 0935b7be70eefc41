-- Where the narrow row of a pending job is, locked; a row of nulls if the job is not pending, or
-- somebody else has it locked.
create or replace function batchq._find_pending(job_id bigint)
returns batchq.found_job
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $_find_pending$
declare
    v_job record;
    v_found batchq.found_job;
begin
    select j.queue, j.priority into v_job
    from batchq.job j
    where j.id = _find_pending.job_id;
    select r.job_id, 'ready', r.ctid into v_found
    from batchq.ready r
    where r.queue = v_job.queue and r.priority = v_job.priority
      and r.pos = _find_pending.job_id
    for update skip locked;
    if not found then
        select r.job_id, 'ready', r.ctid into v_found
        from batchq.ready r
        where r.job_id = _find_pending.job_id and r.pos <> r.job_id
        for update skip locked;
    end if;
    if not found then
        select s.job_id, 'scheduled', s.ctid into v_found
        from batchq.scheduled s
        where s.job_id = _find_pending.job_id
        for update skip locked;
    end if;
    if not found then
        select b.job_id, 'blocked', b.ctid into v_found
        from batchq.blocked b
        where b.job_id = _find_pending.job_id
        for update skip locked;
    end if;
    return v_found;
end
$_find_pending$;
