/*
 * The tally: count what has happened since the last step, each row once, though nobody who enqueues
 * or settles a job writes a counter.
 *
 * job, outcome and error gain rows and keep them. A row counts in the first look at its chunk that
 * finds its transaction over, and a chunk's mark says which transactions were over at the last
 * look: "all below upto but those in running". A transaction is over before the look begins, so its
 * rows are visible, all of them; and it is over for good, so no later look counts them again. Rows
 * do not move between chunks. What is deleted before it was counted is handed over in tally_gone by
 * whoever deletes it, in the same transaction: one snapshot sees either the row or that.
 *
 * A step goes as far as the one before it had begun: nearly all of those transactions are over by
 * now, so that running is empty unless somebody keeps one open, and he holds up nothing but his own
 * rows. An id is drawn after an xid. So jobs up to the newest id of then belong to transactions
 * below next_upto, which is the xid of a subtransaction, given out after that id was read. A chunk
 * of ids that nobody is left to add to is counted for good.
 *
 * One at a time; whoever comes second goes away. In another isolation level than READ COMMITTED it
 * could not see what it must, so it does nothing. Returns 1,000 if there is more to do, else 0.
 */
create or replace function batchq._tally()
returns bigint
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set jit = off
as $_tally$
declare
    v_now constant timestamptz := batchq._now();
    v_old record;
    v_head bigint;
    v_latest bigint;
    v_own xid;
    v_mark batchq.tally_mark;
    v_visits batchq.tally_visit[];
    v_goes_on boolean;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        return 0::bigint;
    end if;
    select t.*, t.xmin as row_xid into v_old from batchq.tally t for update skip locked;
    if not found then
        return 0::bigint;
    end if;
    select s.last_value into v_head from batchq.position s;
    v_latest := batchq._latest_xid();
    begin
        update batchq.tally t set one = t.one returning t.xmin into v_own;
        if v_old.written_by is distinct from v_old.row_xid then
            perform batchq._restart_tally(v_latest - age(v_own), v_head, v_now);
            return 0::bigint;
        end if;
        v_mark := batchq._running(v_old.running, v_old.upto, v_old.next_upto, 20000);
        v_goes_on := v_mark.upto < v_old.next_upto;
        perform batchq._look_at_parts(row(v_old.upto, v_old.running)::batchq.tally_mark);
        v_visits := array(
            select v from batchq._left_out(v_mark, 2) v
            union all
            select v from batchq._tail_visits(v_mark, not v_goes_on, 6) v);
        v_goes_on := v_goes_on or exists (
            select from batchq.tally_part p
            where p.looked_upto < v_mark.upto and (p.axis = 'job' or p.looked_upto < p.wanted));
        if not v_goes_on then
            v_visits := v_visits || array(select v from batchq._turn_visits(v_mark, 12) v);
        end if;
        perform batchq._count_rows(v_visits, v_mark, v_latest, v_now);
        if not v_goes_on then
            perform batchq._move_edges(v_head);
        end if;
        update batchq.tally t
        set upto = v_mark.upto,
            running = v_mark.running,
            next_upto = case when v_goes_on then t.next_upto else v_latest - age(v_own) end,
            next_at = case when v_goes_on then t.next_at else v_now end,
            tallied_at = case when v_goes_on then t.tallied_at else t.next_at end,
            written_by = t.xmin;
    exception when assert_failure then           -- never: this clause makes the subtransaction
        raise;
    end;
    return case when v_goes_on then 1000::bigint else 0::bigint end;
end
$_tally$;
