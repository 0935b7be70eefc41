/*
 * A duplicate that replaces: a pending job takes the new payload, headers and time. One that was
 * leased meanwhile, or that a lease under way has locked, stays as it is. One that is put off gives
 * up its turn in its group.
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
    v_found batchq.found_job;
    v_gone batchq.pending_job;
    v_turn batchq.tie;
begin
    perform pg_current_xact_id();
    select j.segment into v_job
    from batchq.job j
    where j.id = _replace_pending.job_id;
    v_found := batchq._find_pending(_replace_pending.job_id);
    if _replace_pending.run_at <= v_now and v_found.state = 'ready' then
        update batchq.ready r set ready_at = v_now where r.ctid = v_found.place;
    elsif _replace_pending.run_at <= v_now and v_found.state = 'blocked' then
        update batchq.blocked b set since = v_now where b.ctid = v_found.place;
    else
        select t.* into v_gone from batchq._take_found(array[v_found]) t;
    end if;
    if v_found.state is null then
        return;
    end if;
    update batchq.job j
    set payload = _replace_pending.payload,
        headers = _replace_pending.headers,
        run_at = _replace_pending.run_at,
        first_xid = coalesce(j.first_xid, j.xmin)
    where j.id = _replace_pending.job_id and j.segment = v_job.segment;
    if _replace_pending.run_at > v_now then
        insert into batchq.scheduled (run_at, since, job_id, segment, priority, attempt, ties,
                                      queue)
        values (_replace_pending.run_at, v_now, v_gone.job_id, v_gone.segment, v_gone.priority,
                v_gone.attempt, v_gone.ties & ~24, v_gone.queue);
        perform batchq._add_line(v_gone.queue, 'scheduled', 0::smallint);
        if v_gone.ties & 24 <> 0 then            -- its group goes on meanwhile
            v_turn.job_id := v_gone.job_id;
            v_turn.segment := v_gone.segment;
            v_turn.ties := (v_gone.ties & 24)::smallint;
            v_turn.queue := v_gone.queue;
            perform batchq._untie(array[v_turn]);
        end if;
    elsif v_gone.ties & 4 <> 0 and (v_gone.ties & 8 = 0 or batchq._is_paced(v_gone.queue)) then
        perform batchq._block(array[v_gone], false);
    elsif v_gone.job_id is not null then
        insert into batchq.ready (pos, ready_at, job_id, segment, priority, attempt, ties, queue)
        values (batchq._next_place(), v_now, v_gone.job_id, v_gone.segment, v_gone.priority,
                v_gone.attempt, v_gone.ties, v_gone.queue);
        perform batchq._add_lanes(v_gone.queue);
    end if;
    perform batchq._ring(j.queue) from batchq.job j where j.id = _replace_pending.job_id;
end
$_replace_pending$;
