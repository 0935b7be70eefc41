-- Pausing a queue: leases of it find nothing until resume.
create or replace function batchq.pause(queue text, reason text default null)
returns void
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $pause$
begin
    perform batchq._check_lease(queue);
    insert into batchq.queue as q (queue, paused_at, paused_by, pause_reason)
    values (pause.queue, batchq._now(), batchq._actor(), left(pause.reason, 1000))
    on conflict on constraint queue_pkey do update
    set paused_at = coalesce(q.paused_at, excluded.paused_at),
        paused_by = coalesce(q.paused_by, excluded.paused_by),
        pause_reason = coalesce(excluded.pause_reason, q.pause_reason);
    perform batchq._audit('pause', 'queue ' || queue,
                          jsonb_build_object('reason', left(reason, 1000)));
end
$pause$;

comment on function batchq.pause is $comment$
Stop leasing from a queue. Jobs may still be added; those that run go on. A queue may be paused
before its first job. Being asked twice is no error and keeps the first time.

queue: 1 to 255 characters. reason: shown to people, at most 1000 characters.

Errors: JQ001 the name is out of its bounds.
Role: batchq_operator.
Example: select batchq.pause('mail', reason => 'provider is down')
$comment$;
