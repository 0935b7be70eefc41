-- That a group has no seat left, and who has them: for explain_job.
create or replace function batchq._seat_gates(
    queue text,
    group_key text,
    room batchq.group_room
)
returns setof batchq.gate
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $_seat_gates$
declare
    v_seats constant integer := (room).seated + (room).free;
    v_ids bigint[];
    v_told text;
begin
    select array_agg(h.job_id), string_agg(h.job_id || ' (' || h.state || ')', ', ')
    into v_ids, v_told
    from batchq._holders(_seat_gates.queue, _seat_gates.group_key) h;
    return query
    select 'group', true,
           case v_seats
               when 0 then format('group %s is stopped, its limit is 0', group_key)
               else format('group %s is at its limit of %s', group_key, v_seats) end
           || coalesce(': ' || v_told, ''),
           null::timestamptz,
           jsonb_build_object('group_key', group_key, 'group_limit', v_seats,
                              'seated', (room).seated, 'job_ids', coalesce(v_ids, '{}'));
end
$_seat_gates$;
