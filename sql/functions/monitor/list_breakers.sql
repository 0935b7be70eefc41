-- Circuit breakers that are open.
create or replace function batchq.list_breakers(queue text default null)
returns setof batchq.breaker_info
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $list_breakers$
begin
    return query
    select b.queue::text, b.kind::text, b.opened_at, b.probe_at, l.job_id, b.probes, h.jobs,
           b.ended, b.failed, b.last_error
    from (select b.* from batchq.breaker b
          where b.closed_at is null
            and (list_breakers.queue is null or b.queue = list_breakers.queue)
          order by b.queue, b.kind
          limit 1000) b
    left join batchq.leased l on l.job_id = b.probe_job_id and l.lease_id = b.probe_lease_id
    cross join lateral (
        select count(*)::integer as jobs
        from (select from batchq.scheduled s
              where s.queue = b.queue and s.run_at in (b.probe_at, b.held_until)
                and batchq._kind_of(s.job_id, s.segment) = b.kind
              limit 10000) s
    ) h
    order by b.queue, b.kind;
end
$list_breakers$;

comment on function batchq.list_breakers is $comment$
Circuit breakers that are open: kinds of job that are held back as too many failed. See set_queue,
breaker_share, and reset_breaker.

queue: one queue; null for all.

Returns: breaker_info rows, at most 1,000, by queue and kind. probe_at: when the next job is let
through to see whether it works again; while one runs, when the others are looked at again.
probe_job_id: the job that runs as the probe. probes: how many failed. held: jobs that were ready
and are held back, counted up to 10,000. ended, failed: the attempts that opened it. last_error: at
most 200 characters.
Role: batchq_monitor, and every other role of batchq.
Example: select queue, kind, held, probe_at, last_error from batchq.list_breakers()
$comment$;
