/*
 * Hand over to the tally what it has not counted yet of jobs that the caller is about to forget. In
 * the caller's transaction, so that a look at a chunk sees either the rows or this.
 */
create or replace function batchq._note_purged(job_ids bigint[])
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
as $_note_purged$
declare
    v_latest constant bigint := batchq._latest_xid();
begin
    with job as materialized (
        select j.id, j.segment, j.queue, j.kind,
               v_latest - age(coalesce(j.first_xid, j.xmin)) as xid, j.created_at, j.run_at
        from unnest(_note_purged.job_ids) as i(job_id)
        cross join lateral (select b.id, b.segment, b.queue, b.kind, b.first_xid, b.xmin,
                                   b.created_at, b.run_at
                            from batchq.job b where b.id = i.job_id limit 1) j
    ),
    gone as materialized (
        select 'job' as axis, 0::smallint as segment, j.id / batchq._chunk_size('job') as chunk,
               j.xid, j.created_at as at, null::bigint as lease_id, 'enqueued' as event, j.id,
               j.segment as home, j.queue, j.kind, null::double precision as wait_s,
               null::double precision as run_s
        from job j
        union all
        select 'outcome', o.segment, batchq._chunk_of('outcome', o.place), v_latest - age(o.xid),
               o.finished_at, null, o.state, j.id, j.segment, j.queue, j.kind,
               case when o.state = 'completed' and o.attempt = 1
                    then batchq._span_s(j.run_at, o.leased_at) end,
               case when o.state = 'completed'
                    then batchq._span_s(o.leased_at, o.finished_at) end
        from job j
        cross join lateral (select b.segment, b.ctid as place, b.xmin as xid, b.attempt,
                                   b.leased_at, b.finished_at, b.state from batchq.outcome b
                            where b.job_id = j.id and b.segment = j.segment limit 1) o
        union all
        select 'error', e.segment, batchq._chunk_of('error', e.place), v_latest - age(e.xid),
               e.failed_at, e.lease_id, case when e.expired then 'reaped' else 'failed' end, j.id,
               j.segment, j.queue, j.kind, null, null
        from job j
        cross join lateral (select b.segment, b.ctid as place, b.xmin as xid, b.failed_at,
                                   b.lease_id, b.expired from batchq.error b
                            where b.job_id = j.id and b.segment = j.segment offset 0) e
    ),
    uncounted as materialized (
        select g.*
        from gone g
        cross join lateral (select b.* from batchq.tally_part b
                            where b.axis = g.axis and b.segment = g.segment limit 1) p
        left join lateral (select b.* from batchq.tally_chunk b
                           where b.axis = g.axis and b.segment = g.segment and b.chunk = g.chunk
                           limit 1) c on true
        where (g.xid >= coalesce(c.upto, p.upto)
               or g.xid = any(coalesce(c.running, p.running)))
          and case when g.axis = 'job' then c.upto is not null or g.chunk >= p.tail
                   else g.at > coalesce(c.looked_at, p.since) - interval '24 hours' end
    )
    insert into batchq.tally_gone (axis, segment, chunk, xid, queue, kind, enqueued, completed,
                                   cancelled, failed, reaped, retried, dead_letters, at, wait_s,
                                   run_s)
    select u.axis, u.segment, u.chunk, u.xid, u.queue, u.kind,
           (u.event = 'enqueued')::integer, (u.event = 'completed')::integer,
           (u.event = 'cancelled')::integer, (u.event = 'failed')::integer,
           (u.event = 'reaped')::integer, (w.way = 'retried')::integer, (w.way = 'dead')::integer,
           u.at, u.wait_s, u.run_s
    from uncounted u
    cross join lateral (
        select case when u.axis = 'error'
                    then batchq._error_end(u.id, u.home, u.lease_id, u.at) else '' end as way) w;
end
$_note_purged$;
