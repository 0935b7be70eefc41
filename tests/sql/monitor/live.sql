begin;
select plan(13);
\ir ../clock.psql
select t.set_clock('2026-01-01 10:00:00+00') \g /dev/null

select batchq.enqueue('a', '{"big": 1}', queue => 'mail') as job \gset
select batchq.enqueue('a', queue => 'mail', delay => '1 h') as later \gset
select batchq.live(array[:job, :later, 99]) as l \gset
select is((:'l'::jsonb ->> 'at')::timestamptz, t.now(), 'of which moment it is');
select is(:'l'::jsonb -> 'queues' -> 0 ->> 'ready', '1', 'depths, as stats');
select is(:'l'::jsonb -> 'alerts' -> 0 ->> 'alert', 'worker', 'alerts, as list_alerts');
select ok(:'l'::jsonb ? 'rates' and :'l'::jsonb ? 'workers' and :'l'::jsonb ? 'counters', 'and the rest');
select is(jsonb_array_length(:'l'::jsonb -> 'jobs'), 2, 'jobs that exist');
select is(:'l'::jsonb -> 'jobs' -> 1 -> 'gates' -> 0 ->> 'gate', 'due', 'why a job does not run');
select ok(not (:'l'::jsonb -> 'jobs' -> 0 ? 'payload'), 'without what may be large');
select batchq.progress(l.job_id, l.lease_id, '{"done": 1}') from batchq.lease('mail', worker => 'w') l \g /dev/null
select batchq.live(array[:job]) as l \gset
select is(:'l'::jsonb -> 'jobs' -> 0 ->> 'progress', '{"done": 1}', 'how far it is');
select is(:'l'::jsonb -> 'jobs' -> 0 ->> 'locked_by', 'w', 'and with whom');
select is(jsonb_array_length(batchq.live() -> 'jobs'), 0, 'none is watched by default');
select is(t.code('select batchq.live(array_fill(1, array[101])::bigint[])'), 'JQ001', 'too many jobs are refused');
select is(t.code('select batchq.live(null)'), 'JQ001', 'and null');

set local role batchq_producer;
select batchq.live() is not null as seen \gset
reset role;
select ok(:'seen', 'every role may look');

select * from finish();
rollback;
