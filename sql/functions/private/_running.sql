/*
 * Which transactions of [from_xid, upto), and of those known to run, have not ended: a mark. Those
 * older than the snapshot's xmin have; the others are asked for one by one, as a snapshot does not
 * list subtransactions. Bounded: should one transaction stay open while very many come and go, or
 * have very many subtransactions, the mark stops short of upto: most xids are asked for at once.
 */
create or replace function batchq._running(
    known bigint[],
    from_xid bigint,
    upto bigint,
    most integer
)
returns batchq.tally_mark
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $_running$
declare
    v_oldest constant bigint := pg_snapshot_xmin(pg_current_snapshot())::text::bigint;
    v_from constant bigint := greatest(from_xid, v_oldest);
    v_mark batchq.tally_mark;
begin
    v_mark.upto := least(_running.upto, v_from + most);
    v_mark.running := array(
        select a.xid
        from (select k.xid from unnest(_running.known) as k(xid)
              union all
              select g.xid from generate_series(v_from, v_mark.upto - 1) as g(xid)) a
        where a.xid >= v_oldest and pg_xact_status(a.xid::text::xid8) = 'in progress'
        order by a.xid
        limit 1001);
    if cardinality(v_mark.running) > 1000 then
        v_mark.upto := v_mark.running[1001];
        v_mark.running := v_mark.running[:1000];
    end if;
    return v_mark;
end
$_running$;
