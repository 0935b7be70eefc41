-- Take permits of a queue out of use that are owed, as its cap was lowered below what ran then.
-- True if none are owed any more; also false if another session is doing it.
create or replace function batchq._pay_slots(queue text)
returns boolean
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $_pay_slots$
declare
    v_owed integer;
begin
    select q.slots_owed into v_owed
    from batchq.queue q
    where q.queue = _pay_slots.queue
    for update skip locked;
    if not found then
        return false;
    end if;
    update batchq.queue q
    set slots_owed = v_owed - batchq._take_permits(_pay_slots.queue, 'cap', v_owed, batchq._now())
    where q.queue = _pay_slots.queue and v_owed > 0
    returning q.slots_owed into v_owed;
    return coalesce(v_owed, 0) = 0;
end
$_pay_slots$;
