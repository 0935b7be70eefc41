-- _tally_rows for a chunk of error. The subqueries with a limit can be run in one way only: by a
-- probe for each row, whatever the planner believes of the tables' sizes.
create or replace function batchq._tally_errors(
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
as $_tally_errors$
declare
    v_known_upto constant bigint := (visit).upto;
    v_known_running constant bigint[] := (visit).running;
    v_upto constant bigint := (mark).upto;
    v_running constant bigint[] := (mark).running;
    v_segment constant smallint := (visit).segment;
    v_since constant timestamptz := (visit).since - interval '24 hours';
    v_size constant bigint := batchq._chunk_size('error');
    v_from constant tid := format('(%s,0)', (visit).chunk * v_size)::tid;
    v_to constant tid := format('(%s,0)', ((visit).chunk + 1) * v_size)::tid;
begin
    return query
    with new as materialized (
        select e.job_id, e.lease_id, e.failed_at, e.expired
        from batchq.error e
        where e.segment = v_segment and e.ctid >= v_from and e.ctid < v_to
          and e.failed_at > v_since
          and batchq._is_new(latest - age(e.xmin), v_known_upto, v_known_running, v_upto,
                             v_running)
    )
    select j.queue::text, j.kind::text, 0::bigint, 0::bigint, 0::bigint,
           count(*) filter (where not n.expired), count(*) filter (where n.expired),
           count(*) filter (where f.way = 'retried'), count(*) filter (where f.way = 'dead'),
           batchq._minute(n.failed_at), null::integer, null::integer, null::double precision,
           null::double precision
    from new n
    cross join lateral (select b.queue, b.kind from batchq.job b
                        where b.id = n.job_id and b.segment = v_segment limit 1) j
    cross join lateral (select batchq._error_end(n.job_id, v_segment, n.lease_id, n.failed_at)
                        as way limit 1) f
    group by j.queue, j.kind, batchq._minute(n.failed_at);
end
$_tally_errors$;
