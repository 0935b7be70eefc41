/*
 * Begin anew from the present: what stands in the tables counts as counted, the counters stay. For
 * a database that came by dump and restore, where all rows have new transactions.
 */
create or replace function batchq._restart_tally(upto bigint, head bigint, at timestamptz)
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $_restart_tally$
declare
    v_running constant bigint[] := (
        batchq._running('{}', _restart_tally.upto - 200000, _restart_tally.upto, 200000)).running;
begin
    delete from batchq.tally_chunk;
    delete from batchq.tally_gone;
    update batchq.job j                     -- what is copied of other xids means nothing here
    set first_xid = '2'
    from (
        select b.id, b.segment
        from batchq.job b
        where b.id >= _restart_tally.head / batchq._chunk_size('job') * batchq._chunk_size('job')
          and b.first_xid is not null
        for update skip locked
    ) c
    where j.id = c.id and j.segment = c.segment;
    update batchq.tally_part p
    set upto = _restart_tally.upto, running = v_running, since = _restart_tally.at,
        file = null, inserted = null, cold = null,
        wanted = _restart_tally.upto, looked_upto = _restart_tally.upto,
        turned_upto = _restart_tally.upto,
        tail = _restart_tally.head / batchq._chunk_size('job'),
        edge = _restart_tally.head / batchq._chunk_size('job');
    update batchq.tally t
    set upto = _restart_tally.upto, running = v_running, next_upto = _restart_tally.upto,
        next_at = _restart_tally.at, tallied_at = _restart_tally.at, written_by = t.xmin;
end
$_restart_tally$;
