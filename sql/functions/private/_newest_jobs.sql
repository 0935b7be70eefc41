/*
 * The newest jobs of one state that match, by id, at most n; state null: of any state. Each is read
 * from the high end of the index of its own table.
 */
create or replace function batchq._newest_jobs(
    state text,
    kind text,
    queue text,
    created_after timestamptz,
    created_before timestamptz,
    n integer,
    before_id bigint
)
returns setof bigint
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $_newest_jobs$
begin
    if _newest_jobs.state is null then
        return query
        select j.id
        from batchq.job j
        where j.id < _newest_jobs.before_id
          and (_newest_jobs.queue is null or j.queue = _newest_jobs.queue)
          and batchq._matches(j.kind, j.created_at, _newest_jobs.kind,
                              _newest_jobs.created_after, _newest_jobs.created_before)
        order by j.id desc limit _newest_jobs.n;
    elsif _newest_jobs.state = 'ready' then
        return query
        select r.id
        from batchq._newest_ready(kind, queue, created_after, created_before, n, before_id) r(id);
    elsif _newest_jobs.state = 'scheduled' then
        return query
        select c.job_id
        from batchq.scheduled c join batchq.job j on j.id = c.job_id and j.segment = c.segment
        where c.job_id < _newest_jobs.before_id
          and (_newest_jobs.queue is null or j.queue = _newest_jobs.queue)
          and batchq._matches(j.kind, j.created_at, _newest_jobs.kind,
                              _newest_jobs.created_after, _newest_jobs.created_before)
        order by c.job_id desc limit _newest_jobs.n;
    elsif _newest_jobs.state = 'leased' then
        return query
        select c.job_id
        from batchq.leased c join batchq.job j on j.id = c.job_id and j.segment = c.segment
        where c.job_id < _newest_jobs.before_id
          and (_newest_jobs.queue is null or j.queue = _newest_jobs.queue)
          and batchq._matches(j.kind, j.created_at, _newest_jobs.kind,
                              _newest_jobs.created_after, _newest_jobs.created_before)
        order by c.job_id desc limit _newest_jobs.n;
    elsif _newest_jobs.state = 'failed' then
        return query
        select c.job_id
        from batchq.dead c join batchq.job j on j.id = c.job_id and j.segment = c.segment
        where c.job_id < _newest_jobs.before_id
          and (_newest_jobs.queue is null or j.queue = _newest_jobs.queue)
          and batchq._matches(j.kind, j.created_at, _newest_jobs.kind,
                              _newest_jobs.created_after, _newest_jobs.created_before)
        order by c.job_id desc limit _newest_jobs.n;
    else
        return query
        select c.job_id
        from batchq.outcome c join batchq.job j on j.id = c.job_id and j.segment = c.segment
        where c.job_id < _newest_jobs.before_id and c.state = _newest_jobs.state
          and (_newest_jobs.queue is null or j.queue = _newest_jobs.queue)
          and batchq._matches(j.kind, j.created_at, _newest_jobs.kind,
                              _newest_jobs.created_after, _newest_jobs.created_before)
        order by c.job_id desc limit _newest_jobs.n;
    end if;
end
$_newest_jobs$;
