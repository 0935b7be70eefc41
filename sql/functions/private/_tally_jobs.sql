-- _tally_rows for a chunk of job.
create or replace function batchq._tally_jobs(
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
as $_tally_jobs$
declare
    v_known_upto constant bigint := (visit).upto;
    v_known_running constant bigint[] := (visit).running;
    v_upto constant bigint := (mark).upto;
    v_running constant bigint[] := (mark).running;
    v_first constant bigint := (visit).chunk * batchq._chunk_size('job');
    v_end constant bigint := v_first + batchq._chunk_size('job');
begin
    return query
    select j.queue::text, j.kind::text, count(*), 0::bigint, 0::bigint, 0::bigint, 0::bigint,
           0::bigint, 0::bigint, batchq._minute(j.created_at), null::integer, null::integer,
           null::double precision, null::double precision
    from batchq.job j
    where j.id >= v_first and j.id < v_end
      and batchq._is_new(latest - age(coalesce(j.first_xid, j.xmin)), v_known_upto,
                         v_known_running, v_upto, v_running)
    group by j.queue, j.kind, batchq._minute(j.created_at);
end
$_tally_jobs$;
