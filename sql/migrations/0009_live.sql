-- What people watch: alerts, and everything a live view shows in one answer.
create type batchq.alert as (
    alert text,
    severity text,
    queue text,
    since timestamptz,
    says text,
    data jsonb
);
comment on type batchq.alert is
    'Something an operator should know. severity: critical, jobs wait and will not run; warning;'
    ' notice, as it was set up. queue: null is all. since: null is not known.';

create type batchq.queue_trend as (
    queue text,
    since timestamptz,
    enqueued bigint[],
    ended bigint[],
    failed bigint[]
);
comment on type batchq.queue_trend is
    'What happened in a queue, minute by minute, the first of which is since. ended: jobs that are'
    ' over in any way. failed: attempts that failed or ran out.';

insert into batchq.migration (migration, name) values (9, 'live');
