/*
 * The lowest place of a line in [from_place, head) whose row is visible and in nobody's hands, or
 * null. Looks at who holds a row without locking it: a lock, however short, would make a lease of
 * somebody else skip the row. A holder that is a subtransaction is not recognised; floor is then
 * lower than it could be, which costs time only.
 */
create or replace function batchq._lowest_free(
    queue text,
    line text,
    priority smallint,
    from_place bigint,
    head bigint
)
returns bigint
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $_lowest_free$
declare
    v_snapshot constant pg_snapshot := pg_current_snapshot();
    v_own constant bigint := pg_current_xact_id_if_assigned()::text::bigint & 4294967295;
    v_next constant bigint := pg_snapshot_xmax(v_snapshot)::text::bigint;
    v_busy constant bigint[] := array(
        select x.xid::text::bigint & 4294967295 from pg_snapshot_xip(v_snapshot) as x(xid));
    v_place bigint;
begin
    case _lowest_free.line
        when 'ready' then
            select r.pos into v_place
            from batchq.ready r
            where r.queue = _lowest_free.queue and r.priority = _lowest_free.priority
              and r.pos >= _lowest_free.from_place and r.pos < _lowest_free.head
              and batchq._is_free(r.xmax::text::bigint, v_own, v_busy, v_next)
            order by r.pos
            limit 1;
        when 'scheduled' then
            select batchq._micros(s.run_at) into v_place
            from batchq.scheduled s
            where s.queue = _lowest_free.queue
              and s.run_at >= batchq._instant(_lowest_free.from_place)
              and s.run_at < batchq._instant(_lowest_free.head)
              and batchq._is_free(s.xmax::text::bigint, v_own, v_busy, v_next)
            order by s.run_at
            limit 1;
        when 'leased' then
            select batchq._micros(l.reap_at) into v_place
            from batchq.leased l
            where l.reap_at >= batchq._instant(_lowest_free.from_place)
              and l.reap_at < batchq._instant(_lowest_free.head)
              and batchq._is_free(l.xmax::text::bigint, v_own, v_busy, v_next)
            order by l.reap_at
            limit 1;
        when 'round' then
            select batchq._micros(c.due_at) into v_place
            from batchq.call c
            where c.queue = _lowest_free.queue
              and c.due_at >= batchq._instant(_lowest_free.from_place)
              and c.due_at < batchq._instant(_lowest_free.head)
              and batchq._is_free(c.xmax::text::bigint, v_own, v_busy, v_next)
            order by c.due_at
            limit 1;
        when 'cap', 'rate' then
            select p.place into v_place
            from batchq.permit p
            where p.queue = _lowest_free.queue and p.line = _lowest_free.line
              and p.place >= _lowest_free.from_place and p.place < _lowest_free.head
              and batchq._is_free(p.xmax::text::bigint, v_own, v_busy, v_next)
            order by p.place
            limit 1;
    end case;
    return v_place;
end
$_lowest_free$;
