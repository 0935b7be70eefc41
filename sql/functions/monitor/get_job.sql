-- Everything about one job.
create or replace function batchq.get_job(job_id bigint)
returns batchq.job_record
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
as $get_job$
declare
    v_job batchq.job_record;
begin
    select j.id, batchq.job_uuid(j.id), j.kind, j.queue, p.status, p.state, p.priority,
           p.attempts, j.max_attempts::integer, j.payload, j.headers, j.dedupe_key, j.created_at,
           p.run_at, p.updated_at, p.started_at, p.finished_at, j.timeout, p.locked_by,
           p.locked_until, p.cancel_requested_at, p.progress, p.result,
           coalesce((select e.error from batchq.error e
                     where e.job_id = j.id and e.segment = j.segment
                     order by e.lease_id desc limit 1), p.reason),
           (select coalesce(jsonb_agg(to_jsonb(e)), '[]')
            from (select e.attempt, e.failed_at, e.error, e.worker
                  from batchq.error e
                  where e.job_id = j.id and e.segment = j.segment
                  order by e.lease_id desc
                  limit 100) e),
           j.group_key
    into v_job
    from batchq.job j
    cross join lateral batchq._place_of(j.id, j.segment, j.queue, j.priority, j.created_at,
                                        j.run_at) p
    where j.id = get_job.job_id;
    if not found then
        perform batchq._job_not_found(job_id);
    end if;
    return v_job;
end
$get_job$;

comment on function batchq.get_job is $comment$
Everything about one job: what it is, where it stands, its result, and the error of each attempt.

job_id: the job; for a UUID, get_job(job_id('…')).

Returns: job_record. errors: the newest 100 attempts that failed, newest first, as a JSON array of
{attempt, failed_at, error, worker}.
Errors: JQ003 no such job.
Role: batchq_monitor, and every other role of batchq.
Example: select j.status, j.result from batchq.list_jobs(n => 1) l, batchq.get_job(l.id) j
$comment$;
