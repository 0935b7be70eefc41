/*
 * Why a job does not run. One snapshot, so all gates are seen at one moment; reads only, by index
 * and in bounded numbers.
 */
create or replace function batchq.explain_job(job_id bigint)
returns setof batchq.gate
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $explain_job$
declare
    v_now constant timestamptz := batchq._now();
    v_job record;
    v_held boolean := false;
begin
    select j.id, j.segment, j.queue, j.kind, j.group_key, j.max_attempts::integer,
           p as place
    into v_job
    from batchq.job j
    cross join lateral batchq._place_of(j.id, j.segment, j.queue, j.priority, j.created_at,
                                        j.run_at) p
    where j.id = explain_job.job_id;
    if not found then
        perform batchq._job_not_found(job_id);
    end if;
    if (v_job.place).status <> 'pending' then
        return query
        select g.* from batchq._end_gates(
            v_job.id, v_job.segment, v_job.place, v_job.max_attempts, v_now) g;
        return;
    end if;
    if not batchq._is_held(v_job.queue, v_job.kind, v_job.place) then
        return query
        select g.* from batchq._due_gates(
            v_job.id, v_job.segment, v_job.place, v_job.max_attempts, v_now) g;
        v_held := found;
    end if;
    return query
    select g.* from batchq._waiting_gates(
        v_job.id, v_job.queue, v_job.kind, (v_job.place).priority::smallint, v_job.group_key,
        (v_job.place).state <> 'scheduled' or (v_job.place).run_at <= v_now, v_now) g;
    if not found and not v_held then
        return query
        select 'next', false,
               format('nothing holds it back: the next lease of queue %s takes it', v_job.queue),
               null::timestamptz, jsonb_build_object('state', (v_job.place).state);
    end if;
end
$explain_job$;

comment on function batchq.explain_job is $comment$
Why a job is not running: every gate that holds it back, in words and as data, the nearest first.
The first row is the answer; if it holds nothing back, it says so.

job_id: the job; for a UUID, explain_job(job_id('…')).

Gates that hold (holds is true): due, not due yet; paused, its queue is; breaker, its kind is held
back as too many failed; group, its group has as many jobs ready or running as it may; group_rate,
its group may not start one yet; group_behind, others of its group go first; cap, its queue runs as
many as it may; owed, the cap was lowered below what ran; rate, its queue may not start one yet;
worker, no live worker says that it works on the queue; kind, or that it knows the kind; behind,
ready jobs go first. Rows that say what is, and hold nothing: next, the next lease takes it;
running; cancelling, it was asked to stop; finished.

Jobs before it are counted up to 10,000, in its group up to 1,000. Up to 10 jobs that hold a cap or
a group are named, looked for among 10,000 leases and 1,000 ready and scheduled jobs.

Returns: gate rows. says: one sentence, times in UTC. until: when this gate is known to open; null:
it hangs on what others do. data: the numbers, ids and times of the sentence.
Errors: JQ003 no such job.
Role: batchq_monitor, and every other role of batchq.
Example: select g.gate, g.says from batchq.list_jobs(n => 1) l, batchq.explain_job(l.id) g
$comment$;
