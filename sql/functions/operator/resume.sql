-- Resuming a paused queue, and waking its workers.
create or replace function batchq.resume(queue text)
returns void
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $resume$
begin
    perform batchq._check_lease(queue);
    update batchq.queue q
    set paused_at = null, paused_by = null, pause_reason = null
    where q.queue = resume.queue;
    if not found and not exists (select from batchq.floor f where f.queue = resume.queue)
       and not exists (select from batchq._unseen_queues() u(queue) where u.queue = resume.queue)
    then
        perform batchq._raise('JQ002', format('no queue %s', quote_literal(resume.queue)),
            'check the name; select queue from batchq.stats() lists the queues');
    end if;
    perform batchq._audit('resume', 'queue ' || queue, null);
    perform batchq._ring(resume.queue);
end
$resume$;

comment on function batchq.resume is $comment$
Lease from a paused queue again. A queue that is not paused stays as it is.

queue: 1 to 255 characters.

Errors: JQ002 no such queue; JQ001 the name is out of its bounds.
Role: batchq_operator.
Example: select batchq.resume('mail')
$comment$;
