-- Raise JQ006 for a queue whose size limit is reached.
create or replace function batchq._queue_full(queue batchq.queue)
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $_queue_full$
begin
    perform batchq._raise('JQ006',
        format('queue %s is full: %s jobs wait', quote_literal((queue).queue), (queue).max_depth),
        'try again later, add workers, or raise max_depth');
end
$_queue_full$;
