-- Raise JQ002 for a queue that was never used nor set up.
create or replace function batchq._check_queue_exists(queue text)
returns void
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
set enable_seqscan = off
set enable_bitmapscan = off
as $_check_queue_exists$
begin
    if exists (select from batchq.queue q where q.queue = _check_queue_exists.queue)
       or exists (select from batchq.floor f
                  where f.queue = _check_queue_exists.queue and f.queue <> '')
       or exists (select from batchq.ready r where r.queue = _check_queue_exists.queue)
    then
        return;
    end if;
    perform batchq._raise('JQ002',
        format('no queue %s', coalesce(quote_literal(left(_check_queue_exists.queue, 80)), 'null')),
        'check the name; select queue from batchq.list_queues() lists the queues');
end
$_check_queue_exists$;
