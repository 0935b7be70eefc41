-- The lowest visible place of a line in [from_place, head), or null.
create or replace function batchq._lowest(
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
as $_lowest$
declare
    v_place bigint;
begin
    case _lowest.line
        when 'ready' then
            select r.pos into v_place
            from batchq.ready r
            where r.queue = _lowest.queue and r.priority = _lowest.priority
              and r.pos >= _lowest.from_place and r.pos < _lowest.head
            order by r.pos
            limit 1;
        when 'scheduled' then
            select batchq._micros(s.run_at) into v_place
            from batchq.scheduled s
            where s.queue = _lowest.queue
              and s.run_at >= batchq._instant(_lowest.from_place)
              and s.run_at < batchq._instant(_lowest.head)
            order by s.run_at
            limit 1;
        when 'leased' then
            select batchq._micros(l.reap_at) into v_place
            from batchq.leased l
            where l.reap_at >= batchq._instant(_lowest.from_place)
              and l.reap_at < batchq._instant(_lowest.head)
            order by l.reap_at
            limit 1;
        when 'round' then
            select batchq._micros(c.due_at) into v_place
            from batchq.call c
            where c.queue = _lowest.queue
              and c.due_at >= batchq._instant(_lowest.from_place)
              and c.due_at < batchq._instant(_lowest.head)
            order by c.due_at
            limit 1;
        when 'cap', 'rate' then
            select p.place into v_place
            from batchq.permit p
            where p.queue = _lowest.queue and p.line = _lowest.line
              and p.place >= _lowest.from_place and p.place < _lowest.head
            order by p.place
            limit 1;
    end case;
    return v_place;
end
$_lowest$;
