/*
 * A duplicate that replaces: a pending job takes the new payload, headers and time. One that was
 * leased meanwhile, or that a lease under way has locked, stays as it is.
 *
 * The narrow row is written anew, not only locked: a lease whose snapshot is older than this
 * change then skips it, and cannot run the job with the payload it had before.
 */
create or replace function batchq._replace_pending(
    job_id bigint,
    payload jsonb,
    headers jsonb,
    run_at timestamptz
)
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
as $_replace_pending$
declare
    v_now constant timestamptz := batchq._now();
    v_job record;
    v_ready tid;
    v_scheduled tid;
begin
    perform pg_current_xact_id();
    select j.segment, j.queue, j.priority into v_job
    from batchq.job j
    where j.id = _replace_pending.job_id;
    select r.ctid into v_ready
    from batchq.ready r
    where r.queue = v_job.queue and r.priority = v_job.priority
      and r.pos = _replace_pending.job_id
    for update skip locked;
    if not found then
        select r.ctid into v_ready
        from batchq.ready r
        where r.job_id = _replace_pending.job_id and r.pos <> r.job_id
        for update skip locked;
    end if;
    select s.ctid into v_scheduled
    from batchq.scheduled s
    where s.job_id = _replace_pending.job_id
    for update skip locked;
    if v_ready is null and v_scheduled is null then
        return;
    end if;
    update batchq.job j
    set payload = _replace_pending.payload,
        headers = _replace_pending.headers,
        run_at = _replace_pending.run_at,
        first_xid = coalesce(j.first_xid, j.xmin)
    where j.id = _replace_pending.job_id and j.segment = v_job.segment;
    if _replace_pending.run_at <= v_now and v_ready is not null then
        update batchq.ready r set ready_at = v_now where r.ctid = v_ready;
    elsif _replace_pending.run_at > v_now and v_scheduled is not null then
        update batchq.scheduled s
        set run_at = _replace_pending.run_at, since = v_now
        where s.ctid = v_scheduled;
    elsif v_ready is not null then
        with gone as (
            delete from batchq.ready r where r.ctid = v_ready
            returning r.job_id, r.segment, r.priority, r.attempt, r.keyed, r.queue
        )
        insert into batchq.scheduled (run_at, since, job_id, segment, priority, attempt, keyed,
                                      queue)
        select _replace_pending.run_at, v_now, g.* from gone g;
        perform batchq._add_line(v_job.queue, 'scheduled', 0::smallint);
    else
        with gone as (
            delete from batchq.scheduled s where s.ctid = v_scheduled
            returning s.job_id, s.segment, s.priority, s.attempt, s.keyed, s.queue
        )
        insert into batchq.ready (pos, ready_at, job_id, segment, priority, attempt, keyed, queue)
        select batchq._next_place(), v_now, g.* from gone g;
        perform batchq._add_lanes(v_job.queue);
    end if;
    perform batchq._ring(v_job.queue);
end
$_replace_pending$;
