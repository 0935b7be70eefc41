/*
 * _tally_rows for a chunk of outcome. Jobs that end one after the other mostly were enqueued so:
 * then the ids between the lowest and the highest are read as a range, for a fraction of what a
 * probe for each costs. The settings leave a hash join as the only way to do so; a nested loop,
 * which looks as good while the tables are empty, would be quadratic.
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
    v_lowest bigint;
    v_highest bigint;
begin
    select array_agg(o.job_id), array_agg(o.state = 'completed'), min(o.job_id), max(o.job_id)
    into v_ids, v_done, v_lowest, v_highest
    from batchq.outcome o
    where o.segment = v_segment and o.ctid >= v_from and o.ctid < v_to and o.finished_at > v_since
      and batchq._is_new(latest - age(o.xmin), v_known_upto, v_known_running, v_upto, v_running);
    if v_highest - v_lowest < 4 * cardinality(v_ids) then
        return query
        select j.queue::text, j.kind::text, 0::bigint, count(*) filter (where i.done),
               count(*) filter (where not i.done), 0::bigint, 0::bigint, 0::bigint, 0::bigint
        from batchq.job j
        join unnest(v_ids, v_done) as i(id, done) on i.id = j.id
        where j.id >= v_lowest and j.id <= v_highest and j.segment = v_segment
        group by j.queue, j.kind;
    else
        return query
        select j.queue::text, j.kind::text, 0::bigint, count(*) filter (where i.done),
               count(*) filter (where not i.done), 0::bigint, 0::bigint, 0::bigint, 0::bigint
        from unnest(v_ids, v_done) as i(id, done)
        cross join lateral (select b.queue, b.kind from batchq.job b
                            where b.id = i.id and b.segment = v_segment limit 1) j
        group by j.queue, j.kind;
    end if;
end
$_tally_outcomes$;
