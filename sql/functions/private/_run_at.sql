/*
 * When a new job of a queue with a size limit may run: when it wants to, as long as there is room.
 * A full queue refuses it with JQ006, or puts it off by 30 to 90 s, drawn so that what was put off
 * together does not come back together.
 */
create or replace function batchq._run_at(queue batchq.queue, run_at timestamptz, at timestamptz)
returns timestamptz
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $_run_at$
begin
    if _run_at.run_at > _run_at.at
       or batchq._depth((queue).queue, (queue).max_depth) < (queue).max_depth
    then
        return _run_at.run_at;
    end if;
    if (queue).on_full = 'delay' then
        return _run_at.at + make_interval(secs => 30 + 60 * random());
    end if;
    perform batchq._queue_full(queue);
    return null;
end
$_run_at$;
