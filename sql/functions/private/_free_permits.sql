-- How many permits of a limit are there to take, counted over 2,000 rows at most. at: those of the
-- line rate must be due by then.
create or replace function batchq._free_permits(queue text, line text, at timestamptz)
returns bigint
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $_free_permits$
declare
    v_from constant bigint := batchq._hard_floor(queue, line);
    v_till constant bigint := case line
        when 'rate' then batchq._micros(at) else 9223372036854775807 end;
begin
    return (
        select coalesce(sum(p.n), 0)
        from (select p.n
              from batchq.permit p
              where p.queue = _free_permits.queue and p.line = _free_permits.line
                and p.place >= v_from and p.place <= v_till
              order by p.place
              limit 2000) p);
end
$_free_permits$;
