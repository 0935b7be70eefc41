/*
 * Completing many jobs: leased rows leave, outcome gains one row each.
 *
 * Each lease is found by its own index probe (lateral: the planner cannot turn the join around),
 * and checked and locked there. Rows that somebody else has locked are skipped, so no row holds
 * up the rest and no order of locks can deadlock; they are reported as deferred.
 */
create or replace function batchq.complete_many(
    job_ids bigint[],
    lease_ids bigint[],
    results jsonb[] default null
)
returns setof batchq.lost_lease
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $complete_many$
declare
    v_now constant timestamptz := batchq._now();
    v_settled bigint;
    v_ties batchq.tie[];
begin
    perform batchq._check_lists(cardinality(job_ids), cardinality(lease_ids), cardinality(results));
    with mine as materialized (
        select m.lease, a.result
        from unnest(job_ids, lease_ids, results) as a(job_id, lease_id, result)
        cross join lateral (
            select l.ctid as lease
            from batchq.leased l
            where l.job_id = a.job_id and l.lease_id = a.lease_id
              and coalesce(batchq._size(a.result) <= 1048576, true)
            limit 1
            for update skip locked
        ) m
    ),
    gone as (
        delete from batchq.leased l using mine m where l.ctid = m.lease
        returning l.job_id, l.lease_id, l.leased_at, l.segment, l.attempt, l.ties, l.queue,
                  m.result
    ),
    kept as (
        insert into batchq.outcome (job_id, lease_id, leased_at, segment, attempt, finished_at,
                                    state, result)
        select g.job_id, g.lease_id, g.leased_at, g.segment, g.attempt, v_now, 'completed',
               g.result
        from gone g
    )
    select count(*), array_agg(row(g.job_id, g.segment, g.ties, g.queue, false)::batchq.tie)
                         filter (where g.ties <> 0)
    into v_settled, v_ties
    from gone g;
    if v_ties is not null then
        perform batchq._untie(v_ties);
    end if;
    if v_settled < cardinality(job_ids) then
        return query
        select u.job_id, u.lease_id,
               case when u.reason = 'deferred' and exists (
                        select from unnest(job_ids, results) as a(job_id, result)
                        where a.job_id = u.job_id and batchq._size(a.result) > 1048576)
                    then 'too_large' else u.reason end
        from batchq._unsettled(job_ids, lease_ids, '{completed}') u;
    end if;
end
$complete_many$;

comment on function batchq.complete_many is $comment$
Finish many jobs that ran well. One bad row never spoils the rest.

job_ids, lease_ids: from lease, in pairs, at most 10,000. results: null, or as many JSON values of
at most 1 MiB each, null for none.

Returns: the leases that were not settled, no row if all were. reason 'lost': no longer yours;
'deferred': the row is locked, hand it in again; 'too_large': its result is over 1 MiB, the job is
still leased.
Errors: JQ001 the arrays differ in length.
Role: batchq_worker.
Example: select * from batchq.complete_many(array[1, 2], array[11, 12])
$comment$;
