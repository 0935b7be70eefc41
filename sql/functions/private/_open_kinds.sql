-- Kinds of a queue that an open breaker holds back; with a time, only those of which the next job
-- is let through as a probe then.
create or replace function batchq._open_kinds(queue text, at timestamptz)
returns text[]
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $_open_kinds$
begin
    return array(
        select b.kind
        from batchq.queue q
        join batchq.breaker b on b.queue = q.queue
        left join lateral (
            select true as runs
            from batchq.leased o
            where o.job_id = b.probe_job_id and o.lease_id = b.probe_lease_id
            limit 1) l on true
        where q.queue = _open_kinds.queue and q.breaker_share is not null and b.closed_at is null
          and (_open_kinds.at is null or b.probe_at <= _open_kinds.at and l.runs is null));
end
$_open_kinds$;
