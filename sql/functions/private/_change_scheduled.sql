/*
 * A scheduled job takes another priority or time. One whose time has come stands at the end of what
 * is due, and keeps its seat in its group, if it has one; one that is put off gives it up. Returns
 * its state, or null if it was not scheduled any more.
 */
create or replace function batchq._change_scheduled(
    job_id bigint,
    priority integer,
    run_at timestamptz
)
returns text
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $_change_scheduled$
declare
    v_now timestamptz;
    v_gone batchq.pending_job;
begin
    if run_at is null then                       -- its place is the same: nothing moves
        update batchq.scheduled s
        set priority = _change_scheduled.priority, since = batchq._now()
        where s.job_id = _change_scheduled.job_id;
        return case when found then 'scheduled' end;
    end if;
    perform pg_current_xact_id();                -- before the clock: the floor needs it
    v_gone := batchq._take_pending(job_id, 'scheduled');
    if v_gone.job_id is null then
        return null;
    end if;
    v_gone.priority := coalesce(priority, v_gone.priority)::smallint;
    v_now := batchq._now();
    if run_at > v_now then
        return batchq._put_off(v_gone, run_at);
    end if;
    insert into batchq.scheduled (run_at, since, job_id, segment, priority, attempt, ties, queue)
    values (v_now, v_now, v_gone.job_id, v_gone.segment, v_gone.priority, v_gone.attempt,
            v_gone.ties, v_gone.queue);
    perform batchq._add_line(v_gone.queue, 'scheduled', 0::smallint);
    return 'scheduled';
end
$_change_scheduled$;
