/*
 * Cancel jobs where they were found: pending ones leave, running ones are asked to stop. A row is
 * locked by its place, and is the job's own still or is left alone; so are rows that others have
 * locked. The lock of a running job is the one that assert_lease's lets through. Returns those
 * that were cancelled or asked.
 */
create or replace function batchq._cancel_found(jobs batchq.found_job[], reason text)
returns setof batchq.found_job
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $_cancel_found$
declare
    v_now constant timestamptz := batchq._now();
    v_taken batchq.found_job[];
    v_keyed bigint[];
begin
    with unready as materialized (
        select m.place
        from unnest(_cancel_found.jobs) f
        cross join lateral (
            select r.ctid as place from batchq.ready r
            where f.state = 'ready' and r.ctid = f.place and r.job_id = f.job_id
            limit 1 for update skip locked) m
    ),
    unscheduled as materialized (
        select m.place
        from unnest(_cancel_found.jobs) f
        cross join lateral (
            select s.ctid as place from batchq.scheduled s
            where f.state = 'scheduled' and s.ctid = f.place and s.job_id = f.job_id
            limit 1 for update skip locked) m
    ),
    running as materialized (
        select m.place
        from unnest(_cancel_found.jobs) f
        cross join lateral (
            select l.ctid as place from batchq.leased l
            where f.state = 'leased' and l.ctid = f.place and l.job_id = f.job_id
            limit 1 for no key update skip locked) m
    ),
    left_ready as (
        delete from batchq.ready r using unready u where r.ctid = u.place
        returning r.job_id, r.segment, r.attempt, r.keyed
    ),
    left_scheduled as (
        delete from batchq.scheduled s using unscheduled u where s.ctid = u.place
        returning s.job_id, s.segment, s.attempt, s.keyed
    ),
    gone as materialized (
        select r.* from left_ready r union all select s.* from left_scheduled s
    ),
    noted as (
        insert into batchq.outcome (job_id, finished_at, segment, attempt, state, reason)
        select g.job_id, v_now, g.segment, g.attempt, 'cancelled', left(_cancel_found.reason, 1000)
        from gone g
    ),
    asked as (
        update batchq.leased l
        set cancel_requested_at = v_now, cancel_reason = left(_cancel_found.reason, 1000)
        from running r where l.ctid = r.place
        returning l.job_id
    ),
    taken as (
        select g.job_id, 'cancelled' as state, g.keyed from gone g
        union all
        select a.job_id, 'leased', false from asked a
    )
    select array_agg(row(t.job_id, t.state, null)::batchq.found_job),
           array_agg(t.job_id) filter (where t.keyed)
    into v_taken, v_keyed
    from taken t;
    if v_keyed is not null then
        perform batchq._release_keys(v_keyed);
    end if;
    return query select t.* from unnest(v_taken) t;
end
$_cancel_found$;
