/*
 * The newest ready jobs that match, by id. Fresh jobs are read lane by lane from the high end, as
 * their place is their id; those that took a new place have an index by id. Lanes are hopped over
 * in the index itself, so none is missed.
 */
create or replace function batchq._newest_ready(
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
as $_newest_ready$
begin
    return query
    with recursive lane as (
        (select r.queue, r.priority from batchq.ready r order by r.queue, r.priority limit 1)
        union all
        select x.queue, x.priority
        from lane l
        cross join lateral (
            select r.queue, r.priority from batchq.ready r
            where (r.queue, r.priority) > (l.queue, l.priority)
            order by r.queue, r.priority
            limit 1
        ) x
    )
    (select f.job_id
     from lane l
     cross join lateral (
         select r.job_id
         from batchq.ready r join batchq.job j on j.id = r.job_id and j.segment = r.segment
         where r.queue = l.queue and r.priority = l.priority and r.pos = r.job_id
           and r.pos < _newest_ready.before_id
           and batchq._matches(j.kind, j.created_at, _newest_ready.kind,
                               _newest_ready.created_after, _newest_ready.created_before)
         order by r.pos desc
         limit _newest_ready.n
     ) f
     where _newest_ready.queue is null or l.queue = _newest_ready.queue
     order by f.job_id desc
     limit _newest_ready.n)
    union all
    (select r.job_id
     from batchq.ready r join batchq.job j on j.id = r.job_id and j.segment = r.segment
     where r.pos <> r.job_id and r.job_id < _newest_ready.before_id
       and (_newest_ready.queue is null or r.queue = _newest_ready.queue)
       and batchq._matches(j.kind, j.created_at, _newest_ready.kind,
                           _newest_ready.created_after, _newest_ready.created_before)
     order by r.job_id desc
     limit _newest_ready.n);
end
$_newest_ready$;
