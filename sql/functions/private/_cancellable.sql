/*
 * The jobs of lowest id that can be cancelled and match, beyond an id, at most n, in the order of
 * their ids: pending ones, and running ones that were not asked to stop yet. One snapshot, so each
 * is in one place. Nothing is locked. A filter that few jobs match is a longer read.
 */
create or replace function batchq._cancellable(
    states text[],
    job_ids bigint[],
    queue text,
    kind text,
    created_after timestamptz,
    created_before timestamptz,
    n integer,
    after_id bigint
)
returns setof batchq.found_job
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $_cancellable$
begin
    if job_ids is not null then
        return query
        select j.id, f.state, f.place
        from batchq.job j
        cross join lateral (
            select 'ready' as state, r.ctid as place from batchq.ready r
            where r.queue = j.queue and r.priority = j.priority and r.pos = j.id
              and r.job_id = j.id
            union all
            select 'ready', r.ctid from batchq.ready r
            where r.job_id = j.id and r.pos <> r.job_id
            union all
            select 'scheduled', s.ctid from batchq.scheduled s where s.job_id = j.id
            union all
            select 'blocked', b.ctid from batchq.blocked b where b.job_id = j.id
            union all
            select 'leased', l.ctid from batchq.leased l
            where l.job_id = j.id and l.cancel_requested_at is null
        ) f
        where j.id = any(_cancellable.job_ids) and f.state = any(_cancellable.states)
          and j.id > _cancellable.after_id
          and (_cancellable.queue is null or j.queue = _cancellable.queue)
          and batchq._matches(j.kind, j.created_at, _cancellable.kind,
                              _cancellable.created_after, _cancellable.created_before)
        order by j.id limit _cancellable.n;
        return;
    end if;
    return query
    (select r.* from batchq._oldest_ready(queue, kind, created_after, created_before, n, after_id) r
     where 'ready' = any(_cancellable.states))
    union all
    (select s.job_id, 'scheduled', s.ctid
     from batchq.scheduled s
     cross join lateral (
         select from batchq.job j where j.id = s.job_id and j.segment = s.segment
           and batchq._matches(j.kind, j.created_at, _cancellable.kind,
                               _cancellable.created_after, _cancellable.created_before)
         limit 1
     ) m
     where 'scheduled' = any(_cancellable.states) and s.job_id > _cancellable.after_id
       and (_cancellable.queue is null or s.queue = _cancellable.queue)
     order by s.job_id limit _cancellable.n)
    union all
    (select b.job_id, 'blocked', b.ctid
     from batchq.blocked b
     cross join lateral (
         select from batchq.job j where j.id = b.job_id and j.segment = b.segment
           and batchq._matches(j.kind, j.created_at, _cancellable.kind,
                               _cancellable.created_after, _cancellable.created_before)
         limit 1
     ) m
     where 'blocked' = any(_cancellable.states) and b.job_id > _cancellable.after_id
       and (_cancellable.queue is null or b.queue = _cancellable.queue)
     order by b.job_id limit _cancellable.n)
    union all
    (select l.job_id, 'leased', l.ctid
     from batchq.leased l
     cross join lateral (
         select from batchq.job j where j.id = l.job_id and j.segment = l.segment
           and batchq._matches(j.kind, j.created_at, _cancellable.kind,
                               _cancellable.created_after, _cancellable.created_before)
         limit 1
     ) m
     where 'leased' = any(_cancellable.states) and l.job_id > _cancellable.after_id
       and l.cancel_requested_at is null
       and (_cancellable.queue is null or l.queue = _cancellable.queue)
     order by l.job_id limit _cancellable.n)
    order by 1 limit _cancellable.n;
end
$_cancellable$;
