/*
 * Bring the permits and groups of a queue in line with its new settings, under the lock of its row.
 * A longer or shorter period moves what was put back for later, so that it counts from the starts
 * that were; what is back stays. Rows that a lease has in its hands are left alone, so that nobody
 * is waited for: they count when permits are fitted next.
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
declare
    v_now constant bigint := batchq._micros(batchq._now());
    v_longer constant bigint :=
        (extract(epoch from batchq._period(new) - batchq._period(old)) * 1000000)::bigint;
begin
    perform pg_current_xact_id();
    if (new).max_running is null then
        update batchq.queue q set slots_owed = 0 where q.queue = (new).queue and q.slots_owed <> 0;
    else
        perform batchq._add_line((new).queue, 'cap', 0::smallint);
    end if;
    if (new).rate is not null then
        perform batchq._add_line((new).queue, 'rate', 0::smallint);
    end if;
    with gone as materialized (
        select p.ctid as place
        from batchq.permit p
        where p.queue = (new).queue
          and case p.line when 'cap' then (new).max_running else (new).rate end is null
        for update skip locked
    )
    delete from batchq.permit p using gone g where p.ctid = g.place;
    with later as materialized (
        select p.ctid as place
        from batchq.permit p
        where p.queue = (new).queue and p.line = 'rate' and p.place > v_now and v_longer <> 0
        for update skip locked
    )
    update batchq.permit p set place = greatest(p.place + v_longer, v_now)
    from later l
    where p.ctid = l.place;
    perform batchq._fit_permits((new).queue);
    if (old).breaker_share is not null and (new).breaker_share is null then
        perform batchq._close_breaker(b.queue, b.kind)
        from batchq.breaker b
        where b.queue = (new).queue and b.closed_at is null;
    end if;
    if (old).grouped or (new).grouped then
        perform batchq._fit_groups(old, new);
    end if;
end
$_fit_limits$;
