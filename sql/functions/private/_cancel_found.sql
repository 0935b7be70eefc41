/*
 * Cancel jobs where they were found: pending ones leave, running ones are asked to stop. What
 * others have locked is left alone. The lock of a running job is the one that assert_lease's lets
 * through. Returns those that were cancelled or asked.
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
    v_ties batchq.tie[];
begin
    with gone as materialized (
        select p.* from batchq._take_found(_cancel_found.jobs) p
    ),
    running as materialized (
        select m.place
        from unnest(_cancel_found.jobs) f
        cross join lateral (
            select l.ctid as place from batchq.leased l
            where f.state = 'leased' and l.ctid = f.place and l.job_id = f.job_id
            limit 1 for no key update skip locked) m
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
        select g.job_id, 'cancelled' as state, g.segment, g.ties, g.queue from gone g
        union all
        select a.job_id, 'leased', null, 0, null from asked a
    )
    select array_agg(row(t.job_id, t.state, null)::batchq.found_job),
           array_agg(row(t.job_id, t.segment, t.ties, t.queue, null)::batchq.tie)
               filter (where t.ties <> 0)
    into v_taken, v_ties
    from taken t;
    if v_ties is not null then
        perform batchq._untie(v_ties);
    end if;
    return query select t.* from unnest(v_taken) t;
end
$_cancel_found$;
