-- After a lease: the permits to start that were used come back in a period's time; what was not
-- used comes back at once. See _take_room.
create or replace function batchq._give_back_room(
    queue batchq.queue,
    taken bigint,
    used bigint,
    at timestamptz
)
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $_give_back_room$
begin
    if (queue).max_running is not null then
        perform batchq._give_permits((queue).queue, 'cap', taken - used, null);
    end if;
    if (queue).rate is not null then
        perform batchq._give_permits(
                    (queue).queue, 'rate', used,
                    batchq._now() + batchq._period(queue)),
                batchq._give_permits(
                    (queue).queue, 'rate', taken - used, batchq._at_once(at));
    end if;
end
$_give_back_room$;
