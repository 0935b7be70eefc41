/*
 * Put permits of a queue back, n of them. Places of the line rate are when they may be
 * taken; those of the line cap are new ones. Nothing is put back for a limit that is gone.
 */
create or replace function batchq._give_permits(queue text, line text, n bigint, at timestamptz)
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $_give_permits$
declare
    v_chunk integer;
begin
    if _give_permits.n < 1 then
        return;
    end if;
    select batchq._permit_size(
        case _give_permits.line when 'cap' then q.max_running else q.rate end)
    into v_chunk
    from batchq.queue q
    where q.queue = _give_permits.queue;
    if v_chunk is not null then
        perform pg_current_xact_id();            -- before the place: the floors need it
        insert into batchq.permit (place, n, queue, line)
        select case when _give_permits.at is null then batchq._next_place()
                    else batchq._micros(_give_permits.at) end,
               least(v_chunk, _give_permits.n - i.given), _give_permits.queue,
               _give_permits.line
        from generate_series(0, _give_permits.n - 1, v_chunk) as i(given);
    end if;
end
$_give_permits$;
