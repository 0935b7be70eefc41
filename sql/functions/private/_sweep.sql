/*
 * Sweeping: find how far a line has been consumed and write it down as its newest floor row.
 *
 * floor is the lowest place that is visible and free. Rows of transactions that have not ended
 * (added but not committed, or taken and perhaps given back) may stand below it; hard_floor never
 * passes one. Every so often a deep sweep looks from hard_floor up, finds what has surfaced, and
 * raises hard_floor by PgQ's rule: every transaction takes its xid before it draws a place (or
 * reads the clock); the head of the line is read here before the floor row is written; the row is
 * written in a subtransaction of its own, whose xid is newer than any that had been given out
 * when the head was read. So once no transaction older than that xid runs, nothing uncommitted
 * stands at or below the mark. pg_snapshot_xmax would not do in its place: it is one more than
 * the newest *finished* xid, and transactions above it may be running.
 *
 * Nobody waits: a floor row is true by itself, whoever writes it. A sweep comes every 0.1 s while
 * its line is consumed, every two seconds otherwise, and costs the line at most a twentieth
 * of the time however many dead entries an old snapshot makes it walk.
 */
create or replace function batchq._sweep(queue text, line text, priority smallint)
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $_sweep$
declare
    v_started constant timestamptz := batchq._now();
    v_step constant bigint :=
        case when _sweep.line in ('ready', 'cap') then 500::bigint else 500000 end;
    v_old record;
    v_head bigint;
    v_floor bigint;
    v_hard bigint;
    v_passed boolean := false;
    v_deep_took interval;
    v_pause interval;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        return;                                  -- one old snapshot for all: nothing to learn
    end if;
    select f.*, f.xmin::text::bigint as xid into v_old
    from batchq.floor f
    where f.queue = _sweep.queue and f.line = _sweep.line and f.priority = _sweep.priority
    order by f.generation desc
    limit 1;
    v_head := batchq._head(_sweep.line, v_started);
    v_hard := v_old.hard_floor;
    v_floor := batchq._lowest_free(
        _sweep.queue, _sweep.line, _sweep.priority, v_old.floor, v_head);
    v_pause := case when v_floor > v_old.floor + v_step then interval '0.1 s' else '2 s' end;
    v_floor := coalesce(v_floor, greatest(v_head, v_old.floor));
    if v_old.deep_after <= v_started then
        v_passed := batchq._mark_passed(v_old.mark_xid, v_old.xid);
        v_hard := greatest(v_hard, least(
            case when v_passed then v_old.mark else v_hard end, v_floor,
            batchq._lowest(_sweep.queue, _sweep.line, _sweep.priority, v_old.hard_floor, v_floor)));
        v_floor := coalesce(
            batchq._lowest_free(
                _sweep.queue, _sweep.line, _sweep.priority, v_old.hard_floor, v_old.floor),
            v_floor);
        v_deep_took := batchq._now() - v_started;
    end if;
    begin
        insert into batchq.floor (queue, line, priority, floor, hard_floor, mark, mark_xid,
                                  sweep_after, deep_after)
        values (_sweep.queue, _sweep.line, _sweep.priority, v_floor, v_hard,
                case when v_passed then v_head else v_old.mark end,
                case when not v_passed then coalesce(v_old.mark_xid, v_old.xid) end,
                v_started + greatest(v_pause, 20 * (batchq._now() - v_started
                                                    - coalesce(v_deep_took, '0'))),
                case when v_deep_took is null then v_old.deep_after
                     else v_started + greatest(interval '0.5 s', 20 * v_deep_took) end);
    exception when assert_failure then           -- never: this clause makes the subtransaction
        raise;
    end;
    perform batchq._drop_floors(_sweep.queue, _sweep.line, _sweep.priority, v_old.generation);
end
$_sweep$;
