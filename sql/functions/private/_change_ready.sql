/*
 * A ready job takes another priority, or is put off. In its new lane it stands at the end, and has
 * been ready for as long as before. One that is put off gives up its turn in its group. Returns its
 * state, or null if it was not ready any more.
 */
create or replace function batchq._change_ready(
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
as $_change_ready$
declare
    v_now timestamptz;
    v_job record;
    v_row batchq.ready;
begin
    perform pg_current_xact_id();                -- before nextval and the clock: floors need it
    select j.queue, j.priority, j.created_at into v_job
    from batchq.job j
    where j.id = _change_ready.job_id;
    select r.* into v_row from batchq.ready r
    where r.queue = v_job.queue and r.priority = v_job.priority and r.pos = _change_ready.job_id
    for update;
    if not found then
        select r.* into v_row from batchq.ready r
        where r.job_id = _change_ready.job_id and r.pos <> r.job_id
        for update;
    end if;
    v_now := batchq._now();
    if v_row.job_id is null then
        return null;
    elsif coalesce(run_at <= v_now, true) and coalesce(priority = v_row.priority, true) then
        return 'ready';                          -- as it is
    end if;
    delete from batchq.ready r
    where r.queue = v_row.queue and r.priority = v_row.priority and r.pos = v_row.pos;
    if run_at > v_now then
        return batchq._put_off(
            row(v_row.job_id, v_row.segment, v_row.attempt, v_row.ties, v_row.queue,
                coalesce(priority, v_row.priority))::batchq.pending_job, run_at);
    end if;
    insert into batchq.ready (pos, ready_at, job_id, segment, priority, attempt, ties, queue)
    values (batchq._next_place(), coalesce(v_row.ready_at, v_job.created_at), v_row.job_id,
            v_row.segment, _change_ready.priority, v_row.attempt, v_row.ties, v_row.queue);
    perform batchq._add_lanes(v_row.queue);
    return 'ready';
end
$_change_ready$;
