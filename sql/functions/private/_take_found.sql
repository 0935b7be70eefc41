/*
 * Take pending jobs' narrow rows out of where they were found. A row is locked by its place, and
 * is the job's own still or is left alone; so are rows that others have locked.
 */
create or replace function batchq._take_found(jobs batchq.found_job[])
returns setof batchq.pending_job
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $_take_found$
begin
    return query
    with unready as materialized (
        select m.place
        from unnest(_take_found.jobs) f
        cross join lateral (
            select r.ctid as place from batchq.ready r
            where f.state = 'ready' and r.ctid = f.place and r.job_id = f.job_id
            limit 1 for update skip locked) m
    ),
    unscheduled as materialized (
        select m.place
        from unnest(_take_found.jobs) f
        cross join lateral (
            select s.ctid as place from batchq.scheduled s
            where f.state = 'scheduled' and s.ctid = f.place and s.job_id = f.job_id
            limit 1 for update skip locked) m
    ),
    unblocked as materialized (
        select m.place
        from unnest(_take_found.jobs) f
        cross join lateral (
            select b.ctid as place from batchq.blocked b
            where f.state = 'blocked' and b.ctid = f.place and b.job_id = f.job_id
            limit 1 for update skip locked) m
    ),
    left_ready as (
        delete from batchq.ready r using unready u where r.ctid = u.place
        returning r.job_id, r.segment, r.attempt, r.ties, r.queue, r.priority
    ),
    left_scheduled as (
        delete from batchq.scheduled s using unscheduled u where s.ctid = u.place
        returning s.job_id, s.segment, s.attempt, s.ties, s.queue, s.priority
    ),
    left_blocked as (
        delete from batchq.blocked b using unblocked u where b.ctid = u.place
        returning b.job_id, b.segment, b.attempt, b.ties, b.queue, b.priority
    )
    select r.* from left_ready r
    union all select s.* from left_scheduled s
    union all select b.* from left_blocked b;
end
$_take_found$;
