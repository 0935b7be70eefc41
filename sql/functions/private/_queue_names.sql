-- Every queue that was ever used or set up.
create or replace function batchq._queue_names()
returns setof text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
as $_queue_names$
begin
    return query
    select f.queue::text from batchq.floor f where f.queue <> ''
    union
    select q.queue::text from batchq.queue q
    union
    select u.queue from batchq._unseen_queues() as u(queue);
end
$_queue_names$;
