/*
 * Look at chunks: count what is new, by the rows that stand there and by what was noted as gone, in
 * one snapshot; and give them their next marks.
 */
create or replace function batchq._count_rows(
    visits batchq.tally_visit[],
    mark batchq.tally_mark,
    latest bigint,
    at timestamptz
)
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $_count_rows$
declare
    v_upto constant bigint := (_count_rows.mark).upto;
    v_running constant bigint[] := (_count_rows.mark).running;
    v_visits constant batchq.tally_visit[] := array(
        select distinct on (v.axis, v.segment, v.chunk) v from unnest(visits) v);
    v_rows batchq.tally_row[];
begin
    with gone as (
        delete from batchq.tally_gone g
        using unnest(v_visits) v
        where g.axis = v.axis and g.segment = v.segment and g.chunk = v.chunk
          and g.xid < v_upto and g.xid <> all(v_running)
        returning g.*, batchq._is_new(g.xid, v.upto, v.running, v_upto, v_running) as is_new
    ),
    found as (
        select r.* from unnest(v_visits) v
        cross join lateral batchq._tally_rows(v, _count_rows.mark, _count_rows.latest) r
        union all
        select g.queue, g.kind, g.enqueued, g.completed, g.cancelled, g.failed, g.reaped,
               g.retried, g.dead_letters, batchq._minute(coalesce(g.at, _count_rows.at)),
               batchq._bucket(g.wait_s), batchq._bucket(g.run_s), g.wait_s, g.run_s
        from gone g where g.is_new
    ),
    marked as (
        insert into batchq.tally_chunk as c (axis, segment, chunk, upto, running, looked_at)
        select v.axis, v.segment, v.chunk, v_upto, v.left_running, _count_rows.at
        from unnest(v_visits) v
        on conflict on constraint tally_chunk_pkey do update
        set upto = excluded.upto, running = excluded.running, looked_at = excluded.looked_at
    )
    select array_agg(row(f.queue, f.kind, f.enqueued, f.completed, f.cancelled, f.failed,
                         f.reaped, f.retried, f.dead_letters, f.at, f.wait_bucket, f.run_bucket,
                         f.wait_s, f.run_s)::batchq.tally_row)
    into v_rows
    from found f;
    if v_rows is not null then
        perform batchq._add_counts(v_rows);
    end if;
    delete from batchq.tally_chunk c
    using batchq.tally_part p
    where c.axis = 'job' and p.axis = c.axis and c.chunk < p.tail and c.running = '{}';
    delete from batchq.tally_gone g              -- noted while the chunk was counted for good
    using batchq.tally_part p
    where g.axis = 'job' and p.axis = g.axis and g.chunk < p.tail
      and not exists (select from batchq.tally_chunk c
                      where c.axis = 'job' and c.chunk = g.chunk);
end
$_count_rows$;
