begin;
select plan(21);
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

select * from finish();
rollback;
