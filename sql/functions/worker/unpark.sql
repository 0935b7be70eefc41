-- Giving back the locks that park took in this session.
create or replace function batchq.unpark(queues text[])
returns void
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $unpark$
begin
    perform batchq._check_queues(queues);
    perform pg_advisory_unlock_shared(1651572528, b.bell)
    from (select distinct batchq._bell(q.queue) as bell from unnest(queues) q(queue)) b;
end
$unpark$;

comment on function batchq.unpark is $comment$
Say that this session is awake again: undo park with the same queues.

queues: 1 to 100 names.

Errors: JQ001 queues is out of its bounds.
Role: batchq_worker.
Example: select batchq.unpark(array['default']) where batchq.park(array['default'])
$comment$;
