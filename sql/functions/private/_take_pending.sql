/*
 * Take a pending job's narrow row out of ready, scheduled or blocked. Waits for whoever has it
 * locked, and returns a row of nulls if it is not there any more.
 */
create or replace function batchq._take_pending(job_id bigint, state text)
returns batchq.pending_job
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $_take_pending$
declare
    v_gone batchq.pending_job;
    v_job record;
begin
    if _take_pending.state = 'scheduled' then
        delete from batchq.scheduled s
        where s.job_id = _take_pending.job_id
        returning s.job_id, s.segment, s.attempt, s.ties, s.queue, s.priority into v_gone;
        return v_gone;
    elsif _take_pending.state = 'blocked' then
        delete from batchq.blocked b
        where b.job_id = _take_pending.job_id
        returning b.job_id, b.segment, b.attempt, b.ties, b.queue, b.priority into v_gone;
        return v_gone;
    end if;
    select j.queue, j.priority into v_job
    from batchq.job j
    where j.id = _take_pending.job_id;
    delete from batchq.ready r
    where r.queue = v_job.queue and r.priority = v_job.priority and r.pos = _take_pending.job_id
    returning r.job_id, r.segment, r.attempt, r.ties, r.queue, r.priority into v_gone;
    if not found then
        delete from batchq.ready r
        where r.job_id = _take_pending.job_id and r.pos <> r.job_id
        returning r.job_id, r.segment, r.attempt, r.ties, r.queue, r.priority into v_gone;
    end if;
    return v_gone;
end
$_take_pending$;
