begin;
select plan(36);
\ir ../clock.psql

select is(batchq.next_due('{q}'), null, 'no scheduled job: null');
select batchq.enqueue('k', queue => 'q') \g /dev/null
select is(batchq.next_due('{q}'), null, 'a ready job is not due, it is there');
select batchq.enqueue('k', queue => 'q', delay => '9 s'),
    batchq.enqueue('k', queue => 'q', delay => '5 s'),
    batchq.enqueue('k', queue => 'r', delay => '3 s') \g /dev/null
select is(batchq.next_due('{q}'), '5 s', 'the time until the earliest is due');
select is(batchq.next_due('{q,r}'), '3 s', 'of all the queues');
select is(batchq.next_due('{r,q}'), '3 s', 'in whatever order');
select is(batchq.next_due('{r,none}'), '3 s', 'one without any does not hide it');
select is(batchq.next_due('{none}'), null, 'nor is it told of others');
select t.pass('4 s') \g /dev/null
select is(batchq.next_due('{q}'), '1 s', 'it shrinks as time passes');
select is(batchq.next_due('{r}'), '0', 'a job that is due: 0');
select batchq.lease('r') \g /dev/null
select is(batchq.next_due('{r}'), null, 'it is gone when it was leased');
select batchq.fail(l.job_id, l.lease_id, 'e', retry_in => '7 s')
    from batchq.lease('q') l \g /dev/null
select t.pass('6 s') \g /dev/null
select is((select count(*) from batchq.lease('q', 10)), 2::bigint, 'two are taken');
select is(batchq.next_due('{q}'), '1 s', 'a retry is due too');
select t.pass('-5 s') \g /dev/null
select is(batchq.next_due('{q}'), '6 s', 'F054 a clock that steps back makes it longer, no error');
select batchq.enqueue('k', queue => 'far', delay => '1 h') as a \gset
update batchq.scheduled set run_at = 'infinity' where job_id = :a;
select is(batchq.next_due('{far}'), null, 'F063 a time of infinity forced in is never due');
select batchq.enqueue('k', queue => 'far', delay => '2 s') \g /dev/null
select is(batchq.next_due('{far}'), '2 s', 'F063 and does not hide others');
select throws_ok(format('select batchq.next_due(%L)', v), 'JQ001', null,
    format('F065 queues %s are refused', coalesce(left(v, 20), 'null')))
from unnest(array[null, '{}', '{NULL}', '{""}', '{' || repeat('q', 256) || '}',
    '{' || repeat('a,', 100) || 'a}']) v;

-- limits
select batchq.set_queue('rate', rate => 2, rate_period => '10 s') \g /dev/null
select batchq.enqueue('k', queue => 'rate') from generate_series(1, 5) \g /dev/null
select t.count('rate') \g /dev/null
select is(batchq.next_due('{rate}'), '10 s', 'at its rate a queue is due with the next start');
select t.pass('4 s') \g /dev/null
select is(batchq.next_due('{rate}'), '6 s', 'sooner and sooner');
select is(batchq.next_due('{rate,nothing}'), '6 s', 'whatever other queues wait for');
select t.pass('6 s') \g /dev/null
select ok(batchq.next_due('{rate}') <= '10 ms', 'then now');
select is(t.count('rate', 1), 1::bigint, 'when it starts');
select ok(batchq.next_due('{rate}') <= '10 ms', 'and now if more may start');
select t.count('rate') \g /dev/null
select t.pass('10 s'), t.count('rate') \g /dev/null
select is(batchq.next_due('{rate}'), null, 'nothing is due where nothing waits');
select batchq.set_queue('cap', max_running => 1) \g /dev/null
select batchq.enqueue('k', queue => 'cap') from generate_series(1, 2) \g /dev/null
select is(t.count('cap'), 1::bigint, 'at its cap');
select is(batchq.next_due('{cap}'), null, 'a queue is not due: completion rings');
select batchq.set_queue('gr', group_rate => 1, group_period => '10 s') \g /dev/null
select batchq.enqueue('k', queue => 'gr', group_key => 'g') from generate_series(1, 2) \g /dev/null
select t.count('gr'), t.pass('3 s') \g /dev/null
select is(batchq.next_due('{gr}'), '7 s', 'at the rate of a group it is due with its next start');
select batchq.set_queue('g1', group_limit => 1) \g /dev/null
select batchq.enqueue('k', queue => 'g1', group_key => 'g') from generate_series(1, 2) \g /dev/null
select is(t.count('g1'), 1::bigint, 'at the limit of its groups');
select is(batchq.next_due('{g1}'), null, 'it is not due: completion rings');
select batchq.complete(l.job_id, l.lease_id) from batchq.leased l where l.queue = 'g1' \g /dev/null
select ok(batchq.next_due('{g1}') <= '10 ms', 'then it is');
select batchq.pause('rate'), batchq.enqueue('k', queue => 'rate'), t.pass('1 min') \g /dev/null
select is(batchq.next_due('{rate}'), null, 'a paused queue is not due, whatever its limits');

select batchq.set_queue('two', rate => 3, rate_period => '10 s', group_rate => 1,
    group_period => '3 s') \g /dev/null
select batchq.enqueue('k', queue => 'two', group_key => 'g') from generate_series(1, 2) \g /dev/null
select t.count('two') \g /dev/null
select batchq.enqueue('k', queue => 'two') from generate_series(1, 3) \g /dev/null
select t.count('two') \g /dev/null
select is(batchq.next_due('{two}'), '3 s', 'of several limits the first to let go counts');

select * from finish();
rollback;
