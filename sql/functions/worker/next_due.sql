-- How long until the next scheduled job of some queues is due, or a limit lets one start. One index
-- probe a queue without limits.
create or replace function batchq.next_due(queues text[])
returns interval
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $next_due$
declare
    v_queue text;
    v_settings record;
    v_from bigint;
    v_due timestamptz;
    v_next timestamptz;
begin
    perform batchq._check_queues(queues);
    foreach v_queue in array queues loop
        select q.paused_at, q.limited into v_settings
        from batchq.queue q
        where q.queue = v_queue;
        continue when v_settings.paused_at is not null;
        if v_settings.limited then
            v_next := least(v_next, batchq._next_chance(v_queue));
        end if;
        select f.hard_floor into v_from
        from batchq.floor f
        where f.queue = v_queue and f.line = 'scheduled'
        order by f.generation desc
        limit 1;
        select s.run_at into v_due
        from batchq.scheduled s
        where s.queue = v_queue and s.run_at >= batchq._instant(coalesce(v_from, 0))
          and s.run_at < 'infinity'              -- never ours; no distance can be told
        order by s.run_at
        limit 1;
        v_next := least(v_next, v_due);
    end loop;
    return case when v_next is not null then greatest(v_next - batchq._now(), '0') end;
end
$next_due$;

comment on function batchq.next_due is $comment$
How long a worker of these queues may sleep if nothing rings: the time until the earliest
scheduled job is due, or a limit of starts lets the next one go. A paused queue has none.

queues: 1 to 100 names.

Returns: an interval, 0 if a job is due; null if none is scheduled.
Errors: JQ001 queues is out of its bounds.
Role: batchq_worker.
Example: select batchq.next_due(array['default'])
$comment$;
