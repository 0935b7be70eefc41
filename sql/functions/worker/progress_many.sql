-- Saving the progress of many running jobs. Rows others have locked are skipped.
create or replace function batchq.progress_many(
    job_ids bigint[],
    lease_ids bigint[],
    progress jsonb[]
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
as $progress_many$
declare
    v_saved bigint[];
begin
    perform batchq._check_lists(
        cardinality(job_ids), cardinality(lease_ids), cardinality(progress));
    perform batchq._check_list(progress);
    if exists (select from unnest(progress) as p(value) where batchq._size(p.value) > 65536) then
        perform batchq._raise('JQ001', 'progress is over 64 KiB', 'keep it short');
    end if;
    with mine as materialized (
        select a.ordinal, m.lease
        from unnest(job_ids, lease_ids) with ordinality as a(job_id, lease_id, ordinal)
        cross join lateral (
            select l.ctid as lease
            from batchq.leased l
            where l.job_id = a.job_id and l.lease_id = a.lease_id
            limit 1
            for no key update skip locked
        ) m
    ),
    saved as (
        update batchq.leased l
        set progress = progress_many.progress[m.ordinal]
        from mine m
        where l.ctid = m.lease
        returning m.ordinal
    )
    select array_agg(s.ordinal) into v_saved from saved s;
    return query
    select u.*
    from (select array_agg(a.job_id) as job_ids, array_agg(a.lease_id) as lease_ids
          from unnest(job_ids, lease_ids) with ordinality as a(job_id, lease_id, ordinal)
          where a.ordinal <> all(coalesce(v_saved, '{}'))) rest
    cross join lateral batchq._unsettled(rest.job_ids, rest.lease_ids, '{}') u;
end
$progress_many$;

comment on function batchq.progress_many is $comment$
Save the progress of many running jobs, as progress does for one.

job_ids, lease_ids, progress: in step, at most 10,000; each progress a JSON value of at most
64 KiB.

Returns: the leases that were not written: 'lost' or 'deferred', as complete_many does. Of a lease
given twice one value is written, the other deferred.
Errors: JQ001 the arrays differ in length, or a value is too large.
Role: batchq_worker.
Example: select * from batchq.progress_many(array[1], array[11], array['{"done": 40}'::jsonb])
$comment$;
