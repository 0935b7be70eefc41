/*
 * Whether an enqueue is under way that may not have seen that this session is parked. It holds
 * "ringing" shared to its commit, so the exclusive lock cannot be had; tried and let go in one
 * expression.
 */
create or replace function batchq.bell_pending(queues text[])
returns boolean
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $bell_pending$
declare
    v_bell integer;
begin
    perform batchq._check_queues(queues);
    for v_bell in select distinct batchq._bell(q.queue) from unnest(queues) q(queue) loop
        if (case when pg_try_advisory_lock(1651572530, v_bell)
                 then not pg_advisory_unlock(1651572530, v_bell)
                 else true
            end)
        then
            return true;
        end if;
    end loop;
    return false;
end
$bell_pending$;

comment on function batchq.bell_pending is $comment$
Ask, after park and before one more look for jobs, whether an enqueue is under way that may have
missed that this session is parked. Asked after that look it would not tell of one that was
committed in between.

queues: 1 to 100 names.

Returns: true: whatever the look finds, look again shortly; false: the look misses nothing.
Errors: JQ001 queues is out of its bounds.
Role: batchq_worker.
Example: select batchq.bell_pending(array['default'])
$comment$;
