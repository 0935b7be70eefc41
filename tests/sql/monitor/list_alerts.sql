begin;
select plan(24);
\ir ../clock.psql
select t.set_clock('2026-01-01 10:00:00+00') \g /dev/null
-- upkeep is done, as far as these tests are concerned
update batchq.upkeep set next_at = 'infinity';
create function pg_temp.alerts() returns text language sql as
    $$ select coalesce(string_agg(a.severity || ' ' || a.alert || coalesce(' ' || a.queue, ''), ', '
                                  order by a.severity, a.alert, a.queue), '')
       from batchq.list_alerts() a $$;
create function pg_temp.says(alert text) returns text language sql as
    $$ select a.says from batchq.list_alerts() a where a.alert = says.alert $$;
create function pg_temp.beat(worker text, queues text[], kinds text[]) returns void language sql as
    $$ select batchq.beat_worker(md5(worker)::uuid, worker, 'h', 1, '1', queues, kinds, 1, 0) $$;

select is(pg_temp.alerts(), '', 'nothing is wrong at first');
select batchq.enqueue('a', queue => 'mail') as job \gset
select is(pg_temp.alerts(), 'critical worker', 'jobs wait and nobody is alive');
select is(pg_temp.says('worker'), 'no worker is alive; jobs wait in queue mail', 'one queue is named');
select is((select a.since from batchq.list_alerts() a), t.now(), 'since the oldest of them waits');
select batchq.enqueue('a', queue => 'bill') \g /dev/null
select is(pg_temp.says('worker'), 'no worker is alive; jobs wait in 2 queues', 'more are counted');
select pg_temp.beat('w', '{mail}', '{a}') \g /dev/null
select is(pg_temp.alerts(), 'critical worker bill', 'a queue that nobody alive works on');
select pg_temp.beat('v', '{bill}', '{b}') \g /dev/null
select is(pg_temp.alerts(), 'critical kind bill', 'a kind that nobody of its queue knows');
select pg_temp.beat('v', '{bill}', '{a}') \g /dev/null
select is(pg_temp.alerts(), '', 'and all is well');
select t.pass('91 s'), t.pass('0 s') \g /dev/null
select is(pg_temp.alerts(), 'critical worker', 'silent workers are not alive');
select pg_temp.beat('w', '{mail}', '{a}'), pg_temp.beat('v', '{bill}', '{a}') \g /dev/null

select batchq.pause('mail', 'because') \g /dev/null
select is(pg_temp.alerts(), 'warning paused mail', 'a paused queue');
select matches(pg_temp.says('paused'), 'because', 'with the reason');
select batchq.resume('mail') \g /dev/null

select batchq.set_queue('mail', max_running => 0) \g /dev/null
select is(pg_temp.alerts(), 'notice cap mail', 'a cap that is reached, with jobs that wait');
select batchq.set_queue('mail', clear => '{max_running}', rate => 0) \g /dev/null
select is(pg_temp.alerts(), 'notice rate mail', 'and a rate');
select batchq.set_queue('mail', clear => '{rate}') \g /dev/null
select batchq.set_queue('idle', max_running => 0) \g /dev/null
select is(pg_temp.alerts(), '', 'not where no job waits');

select batchq.set_queue('mail', max_depth => 1) \g /dev/null
select is(pg_temp.alerts(), 'warning full mail', 'a full queue');
select batchq.set_queue('mail', clear => '{max_depth}') \g /dev/null

select batchq.enqueue('a', queue => 'bill', max_attempts => 1) \g /dev/null
select batchq.fail(l.job_id, l.lease_id, 'e', permanent => true)
from batchq.lease('bill', 1) l \g /dev/null
insert into batchq.rollup (at, wait_s, run_s, enqueued, completed, cancelled, failed, reaped,
                           retried, dead_letters, waited, span, queue, kind)
values (t.now() - interval '11 min', 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 1, 'bill', ''),
       (t.now() - interval '3 min', 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1, 'bill', ''),
       (t.now() - interval '2 min', 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 'bill', '');
select is(pg_temp.alerts(), 'warning dead bill', 'jobs became dead letters');
select is(pg_temp.says('dead'), 'queue bill: 3 jobs became dead letters within 10 minutes', 'how many');
delete from batchq.rollup;

select batchq.set_queue('mail', breaker_share => 0.5, breaker_min => 1, breaker_pause => '5 s') \g /dev/null
select batchq.enqueue('x', queue => 'mail', priority => 5) \g /dev/null
select batchq.fail(l.job_id, l.lease_id, 'e') from batchq.lease('mail', 1) l \g /dev/null
select pg_temp.beat('w', '{mail}', '{a,x}') \g /dev/null
select is(pg_temp.alerts(), 'warning breaker mail', 'a kind that is held back');
select matches(pg_temp.says('breaker'), 'queue mail: kind x is held back', 'with both names');

update batchq.upkeep set next_at = t.now() - interval '2 min' where task = 'reap';
select is((select a.alert from batchq.list_alerts() a where a.queue is null), 'upkeep',
    'upkeep that nobody does');
select is((select string_agg(a.severity, ' ') from batchq.list_alerts() a), 'warning warning',
    'of one severity both');
delete from batchq.worker;
select is((select a.severity from batchq.list_alerts() a limit 1), 'critical', 'the worst first');
select is((select a.data ->> 'queues' from batchq.list_alerts() a where a.alert = 'worker'), '2',
    'the numbers are data, too');

set local role batchq_producer;
select count(*) > 0 as seen from batchq.list_alerts() \gset
reset role;
select ok(:'seen', 'every role may look');

select * from finish();
rollback;
