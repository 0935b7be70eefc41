/*
 * Before a segment is emptied: count what is left in it. The caller holds locks on its partitions
 * that keep writers away, so all its rows are of transactions that are over, or of his own.
 * False: a step is under way, nothing was counted; let go and try again.
 */
create or replace function batchq._tally_emptied(segment smallint)
returns boolean
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $_tally_emptied$
declare
    v_latest constant bigint := batchq._latest_xid();
    v_first bigint;
begin
    perform from batchq.tally t for update skip locked;
    if not found then
        return false;
    end if;
    perform batchq._count_rows(
        array(select v
              from batchq.tally_part p
              cross join lateral batchq._visits(
                  p, 0, batchq._last_chunk(p.axis, p.segment), '{}') v
              where p.axis <> 'job' and p.segment = _tally_emptied.segment),
        row(v_latest + 1, '{}')::batchq.tally_mark, v_latest, batchq._now());
    -- a chunk of job has rows of other segments, too
    select batchq._chunk_size('job') * least(p.tail, (
               select min(c.chunk) from batchq.tally_chunk c where c.axis = 'job'))
    into v_first
    from batchq.tally_part p
    where p.axis = 'job';
    perform batchq._note_purged(array(
        select j.id from batchq.job j
        where j.segment = _tally_emptied.segment and j.id >= v_first));
    return true;
end
$_tally_emptied$;
