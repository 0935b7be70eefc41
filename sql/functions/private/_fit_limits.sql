/*
 * Bring the permits and groups of a queue in line with its new settings, under the lock of its row.
 * A longer or shorter period moves what was put back for later, so that it counts from the starts
 * that were.
 */
create or replace function batchq._fit_limits(old batchq.queue, new batchq.queue)
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $_fit_limits$
begin
    perform pg_current_xact_id();
    if (new).max_running is null then
        delete from batchq.permit p where p.queue = (new).queue and p.line = 'cap';
        update batchq.queue q set slots_owed = 0 where q.queue = (new).queue and q.slots_owed <> 0;
    else
        perform batchq._add_line((new).queue, 'cap', 0::smallint);
    end if;
    if (new).rate is null then
        delete from batchq.permit p where p.queue = (new).queue and p.line = 'rate';
    else
        perform batchq._add_line((new).queue, 'rate', 0::smallint);
        update batchq.permit p
        set place = greatest(
            p.place + (extract(epoch from batchq._period(new) - batchq._period(old))
                       * 1000000)::bigint,
            batchq._micros(batchq._now()))
        where p.queue = (new).queue and p.line = 'rate'
          and batchq._period(new) <> batchq._period(old);
    end if;
    perform batchq._fit_permits((new).queue);
    if (old).grouped or (new).grouped then
        perform batchq._add_line((new).queue, 'round', 0::smallint);
        insert into batchq.call (due_at, queue, group_key)
        select distinct batchq._now(), b.queue, b.group_key
        from batchq.blocked b
        where b.queue = (new).queue;
    end if;
end
$_fit_limits$;
