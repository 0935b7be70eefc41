begin;
select plan(9);
\ir ../clock.psql

select batchq.park('{q,r}') \g /dev/null
select lives_ok($$ select batchq.unpark('{q}') $$, 'one of two queues is given back');
select is((select array_agg(l.objid::integer) from pg_locks l
    where l.locktype = 'advisory' and l.pid = pg_backend_pid() and l.classid = 1651572528),
    array[batchq._bell('r')], 'the other stays parked');
select batchq.unpark('{r}') \g /dev/null
select is((select count(*) from pg_locks l
    where l.locktype = 'advisory' and l.pid = pg_backend_pid()), 0::bigint, 'then none is left');
select throws_ok(format('select batchq.unpark(%L)', v), 'JQ001', null,
    format('F065 queues %s are refused', coalesce(left(v, 20), 'null')))
from unnest(array[null, '{}', '{NULL}', '{""}', '{' || repeat('q', 256) || '}',
    '{' || repeat('a,', 100) || 'a}']) v;

select * from finish();
rollback;
