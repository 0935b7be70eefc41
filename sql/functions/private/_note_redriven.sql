/*
 * Tell the tally of dead letters that the caller is about to put back, if it has not counted the
 * attempt that made them: it will take that for one that was tried again. See _note_purged.
 */
create or replace function batchq._note_redriven(job_ids bigint[])
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
as $_note_redriven$
declare
    v_latest constant bigint := batchq._latest_xid();
begin
    insert into batchq.tally_gone (axis, segment, chunk, xid, queue, kind, retried, dead_letters,
                                   at)
    select 'error', e.segment, e.chunk, e.xid, j.queue, j.kind, -1, 1, d.failed_at
    from unnest(_note_redriven.job_ids) as i(job_id)
    cross join lateral (
        select d.job_id, d.segment, d.failed_at from batchq.dead d where d.job_id = i.job_id limit 1
    ) d
    cross join lateral (
        select e.segment, batchq._chunk_of('error', e.ctid) as chunk, v_latest - age(e.xmin) as xid
        from batchq.error e
        where e.job_id = d.job_id and e.segment = d.segment and e.failed_at = d.failed_at
        limit 1
    ) e
    cross join lateral (
        select b.queue, b.kind from batchq.job b
        where b.id = d.job_id and b.segment = d.segment limit 1
    ) j
    join batchq.tally_part p on p.axis = 'error' and p.segment = e.segment
    left join batchq.tally_chunk c
      on c.axis = 'error' and c.segment = e.segment and c.chunk = e.chunk
    where (e.xid >= coalesce(c.upto, p.upto) or e.xid = any(coalesce(c.running, p.running)))
      and d.failed_at > coalesce(c.looked_at, p.since) - interval '24 hours';
end
$_note_redriven$;
