/*
 * Insert the jobs of a batch under ids that were drawn for them, in one statement. A job whose
 * holder is not its own id is a duplicate and is left out; holders null: none has a key.
 * A value that does not fit raises JQ001 with the place of its job. Returns the lines that gained
 * rows.
 */
create or replace function batchq._insert_jobs(
    jobs jsonb,
    ids bigint[],
    holders bigint[],
    segment smallint
)
returns setof batchq.line
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_mergejoin = off
as $_insert_jobs$
declare
    v_now constant timestamptz := batchq._now();
begin
    return query
    with item as materialized (
        select e.ordinal, _insert_jobs.ids[e.ordinal] as id, s.kind,
               coalesce(s.queue, 'default') collate "C" as queue,
               coalesce(s.priority, 0)::smallint as priority, p.payload,
               coalesce(s.run_at, v_now + batchq._exact(s.delay), v_now) as run_at,
               coalesce(s.run_at, v_now + batchq._exact(s.delay), v_now) > v_now as later,
               coalesce(s.max_attempts, q.max_attempts, 3) as max_attempts,
               coalesce(s.timeout, q.timeout) as timeout, s.dedupe_key, s.backoff,
               s.backoff_base, s.backoff_factor, s.backoff_cap, s.backoff_jitter, s.headers,
               s.group_key, (s.dedupe_key is not null)::integer as ties,
               s.group_key is not null and coalesce(q.grouped, false) as grouped
        from jsonb_array_elements(_insert_jobs.jobs) with ordinality as e(job, ordinal)
        cross join lateral jsonb_populate_record(null::batchq.job_spec, e.job) s
        cross join lateral (select coalesce(e.job -> 'payload', '{}') as payload) p
        left join batchq.queue q on q.queue = coalesce(s.queue, 'default') collate "C"
        where case
            when e.job - batchq._job_fields() = '{}'
                 and batchq._job_fits(
                     s.kind, p.payload, coalesce(s.queue, 'default'), coalesce(s.priority, 0))
                 and batchq._options_fit(
                     s.run_at, s.delay, s.max_attempts, s.timeout, s.dedupe_key, s.dedupe_scope,
                     s.dedupe_for, s.on_duplicate, s.backoff, s.backoff_base, s.backoff_factor,
                     s.backoff_cap, s.backoff_jitter, s.headers, s.group_key)
            then coalesce(_insert_jobs.holders[e.ordinal] = _insert_jobs.ids[e.ordinal], true)
            else batchq._refuse_item(e.job, e.ordinal)
        end
    ),
    written as (
        insert into batchq.job (id, created_at, run_at, segment, priority, max_attempts, queue,
                                kind, timeout, dedupe_key, backoff, backoff_base, backoff_factor,
                                backoff_cap, backoff_jitter, payload, headers, group_key)
        select i.id, v_now, i.run_at, _insert_jobs.segment, i.priority, i.max_attempts, i.queue,
               i.kind, i.timeout, i.dedupe_key, i.backoff, i.backoff_base, i.backoff_factor,
               i.backoff_cap, i.backoff_jitter, i.payload, i.headers,
               i.group_key
        from item i
    ),
    readied as (
        insert into batchq.ready (pos, job_id, segment, priority, attempt, ties, queue)
        select i.id, i.id, _insert_jobs.segment, i.priority, 0, i.ties, i.queue
        from item i where not i.later and not i.grouped
    ),
    delayed as (
        insert into batchq.scheduled (job_id, run_at, since, segment, priority, attempt, ties,
                                      queue)
        select i.id, i.run_at, v_now, _insert_jobs.segment, i.priority, 0,
               i.ties + case when i.grouped then 4 else 0 end, i.queue
        from item i where i.later
    )
    select distinct i.queue::text, case when i.later then 'scheduled'
                                        when i.grouped then 'round' else 'ready' end,
                    case when i.later or i.grouped then 0::smallint else i.priority end
    from item i;
end
$_insert_jobs$;
