/*
 * _tally_rows for a chunk of outcome. Jobs that end one after the other mostly were enqueued so:
 * then the ids between the lowest and the highest are read as a range, for a fraction of what a
 * probe for each costs. The settings leave a hash join as the only way to do so; a nested loop,
 * which looks as good while the tables are empty, would be quadratic.
 *
 * leased: when a job began that was completed by its first attempt, as how long another one has
 * waited is not known.
 */
create or replace function batchq._tally_outcomes(
    visit batchq.tally_visit,
    mark batchq.tally_mark,
    latest bigint
)
returns setof batchq.tally_row
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = on
set enable_nestloop = off
set enable_mergejoin = off
set enable_sort = off
as $_tally_outcomes$
declare
    v_known_upto constant bigint := (visit).upto;
    v_known_running constant bigint[] := (visit).running;
    v_upto constant bigint := (mark).upto;
    v_running constant bigint[] := (mark).running;
    v_segment constant smallint := (visit).segment;
    v_since constant timestamptz := (visit).since - interval '24 hours';
    v_size constant bigint := batchq._chunk_size('outcome');
    v_from constant tid := format('(%s,0)', (visit).chunk * v_size)::tid;
    v_to constant tid := format('(%s,0)', ((visit).chunk + 1) * v_size)::tid;
    v_ids bigint[];
    v_done boolean[];
    v_minutes timestamptz[];
    v_leased timestamptz[];
    v_run_s double precision[];
    v_lowest bigint;
    v_highest bigint;
    v_in_order boolean;
begin
    select array_agg(o.job_id), array_agg(o.state = 'completed'),
           array_agg(batchq._minute(o.finished_at)),
           array_agg(case when o.state = 'completed' and o.attempt = 1 then o.leased_at end),
           array_agg(case when o.state = 'completed'
                          then batchq._span_s(o.leased_at, o.finished_at) end),
           min(o.job_id), max(o.job_id)
    into v_ids, v_done, v_minutes, v_leased, v_run_s, v_lowest, v_highest
    from batchq.outcome o
    where o.segment = v_segment and o.ctid >= v_from and o.ctid < v_to and o.finished_at > v_since
      and batchq._is_new(latest - age(o.xmin), v_known_upto, v_known_running, v_upto, v_running);
    v_in_order := v_highest - v_lowest < 4 * cardinality(v_ids);
    return query
    select e.queue::text, e.kind::text, 0::bigint, count(*) filter (where e.done),
           count(*) filter (where not e.done), 0::bigint, 0::bigint, 0::bigint, 0::bigint, e.at,
           batchq._bucket(e.wait_s), batchq._bucket(e.run_s), sum(e.wait_s), sum(e.run_s)
    from (
        select j.queue, j.kind, i.done, i.at, i.run_s, batchq._span_s(j.run_at, i.leased) as wait_s
        from batchq.job j
        join unnest(v_ids, v_done, v_minutes, v_leased, v_run_s)
            as i(id, done, at, leased, run_s) on i.id = j.id
        where v_in_order and j.id >= v_lowest and j.id <= v_highest and j.segment = v_segment
        union all
        select j.queue, j.kind, i.done, i.at, i.run_s, batchq._span_s(j.run_at, i.leased)
        from unnest(v_ids, v_done, v_minutes, v_leased, v_run_s) as i(id, done, at, leased, run_s)
        cross join lateral (select b.queue, b.kind, b.run_at from batchq.job b
                            where b.id = i.id and b.segment = v_segment limit 1) j
        where not v_in_order
    ) e
    group by e.queue, e.kind, e.at, 11, 12;
end
$_tally_outcomes$;
