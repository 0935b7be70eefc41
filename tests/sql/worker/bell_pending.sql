begin;
select plan(11);
\ir ../clock.psql

select is(batchq.bell_pending('{q}'), false, 'with no enqueue under way nothing is pending');
select is((select count(*) from pg_locks l
    where l.locktype = 'advisory' and l.pid = pg_backend_pid()), 0::bigint,
    'F041 and the question leaves no lock behind');
select batchq.enqueue('k', queue => 'q') \g /dev/null
select is(batchq.bell_pending('{q}'), false, 'what this very session does is not news to it');
select is((select string_agg(mode, ' ') from pg_locks l
    where l.locktype = 'advisory' and l.pid = pg_backend_pid()), 'ShareLock',
    'its own "ringing" stays');
select is(batchq.bell_pending('{a,b,a}'), false, 'several queues, and one named twice, are taken');
select throws_ok(format('select batchq.bell_pending(%L)', v), 'JQ001', null,
    format('F065 queues %s are refused', coalesce(left(v, 20), 'null')))
from unnest(array[null, '{}', '{NULL}', '{""}', '{' || repeat('q', 256) || '}',
    '{' || repeat('a,', 100) || 'a}']) v;

select * from finish();
rollback;
