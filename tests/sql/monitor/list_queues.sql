begin;
select plan(6);
\ir ../clock.psql

select is_empty('select * from batchq.list_queues()', 'with no queue there is no row');
select batchq.enqueue('k', queue => 'used') \g /dev/null
select batchq.enqueue('k', queue => 'Later', delay => '1 h') \g /dev/null
select t.job_in('completed', 'over') \g /dev/null
select batchq.pause('set', 'why') \g /dev/null
select is(string_agg(q.queue, ' '), 'Later over set used',
    'every queue that was ever used or set up, by name') from batchq.list_queues() q;
select results_eq('select queue from batchq.list_queues()', 'select queue from batchq.stats()',
    'the same as those of stats');
select is((select count(*) from batchq.list_queues() q where q = batchq.get_queue(q.queue)),
    4::bigint, 'each as get_queue shows it');

set local role batchq_monitor;
select count(*) as one from batchq.list_queues() \gset
set local role batchq_producer;
select count(*) as two from batchq.list_queues() \gset
reset role;
select is(:one, 4, 'F074 the role batchq_monitor may call it');
select is(:two, 4, 'and every other role of batchq');

select * from finish();
rollback;
