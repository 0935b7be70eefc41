/*
 * Parking: a shared session lock on the bell of each queue, on the LISTEN connection. enqueue rings
 * only where it finds one. It is tried, never waited for; a producer holds it for microseconds.
 */
create or replace function batchq.park(queues text[])
returns boolean
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $park$
declare
    v_bell integer;
    v_parked integer[] := array[]::integer[];
    v_got boolean;
begin
    perform batchq._check_queues(queues);
    for v_bell in select distinct batchq._bell(q.queue) from unnest(queues) q(queue) order by 1 loop
        v_got := false;
        for v_try in 1..20 loop
            v_got := pg_try_advisory_lock_shared(1651572528, v_bell);
            exit when v_got;
        end loop;
        if not v_got then
            perform pg_advisory_unlock_shared(1651572528, b.bell) from unnest(v_parked) b(bell);
            return false;
        end if;
        v_parked := v_parked || v_bell;
    end loop;
    return true;
end
$park$;

comment on function batchq.park is $comment$
Say that this session is about to sleep and wants to be woken: from now on whatever makes a job
of these queues ready sends NOTIFY on channel batchq, with the number of the queue's bell (0 to
1023) as payload. Call it on a connection of its own that has done LISTEN batchq, not through a
pooler in transaction mode. Then ask bell_pending, then look for jobs once more, in this order;
if no bell was pending and no job is there, sleep, else ask and look again. Call unpark when awake.

queues: 1 to 100 names.

Returns: true if parked; false if a lock was busy: do not sleep long, poll.
Errors: JQ001 queues is out of its bounds.
Role: batchq_worker.
Example: select batchq.park(array['default'])
$comment$;
