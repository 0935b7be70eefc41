/*
 * How many jobs of a limited queue may be started now, at most wanted: takes as many permits of
 * each limit that the queue has.
 */
create or replace function batchq._take_room(queue batchq.queue, wanted bigint, at timestamptz)
returns bigint
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $_take_room$
declare
    v_room bigint := _take_room.wanted;
    v_starts bigint;
begin
    if (queue).slots_owed > 0 and not batchq._pay_slots((queue).queue) then
        return 0::bigint;
    end if;
    if (queue).max_running is not null and v_room > 0 then
        v_room := batchq._take_permits((queue).queue, 'cap', v_room, _take_room.at,
                                        (queue).max_running);
    end if;
    if (queue).rate is not null and v_room > 0 then
        v_starts := batchq._take_permits((queue).queue, 'rate', v_room, _take_room.at,
                                          (queue).rate);
        perform batchq._give_permits((queue).queue, 'cap', v_room - v_starts, null);
        v_room := v_starts;
    end if;
    return v_room;
end
$_take_room$;
