begin;
select plan(20);
\ir ../clock.psql

create function t.locks(class bigint) returns text language sql as $$
    select string_agg(l.objid || ' ' || l.mode || l.granted, ',' order by l.objid) from pg_locks l
    where l.locktype = 'advisory' and l.pid = pg_backend_pid() and l.classid::bigint = $1
$$;
select is(batchq.park('{q}'), true, 'park says that it parked');
select is(t.locks(1651572528), batchq._bell('q') || ' ShareLocktrue',
    'it holds the bell of the queue, shared');
select batchq.unpark('{q}') \g /dev/null
select is(t.locks(1651572528), null, 'until unpark');
select is(batchq.park(array['q', 'q', 'Q']), true, 'a queue named twice is one bell');
select is(t.locks(1651572528), (select string_agg(b || ' ShareLocktrue', ',' order by b)
    from unnest(array[batchq._bell('q'), batchq._bell('Q')]) b), 'two bells');
select batchq.unpark('{q,Q}') \g /dev/null
select is(t.locks(1651572528), null, 'and unpark of the same names gives both back');
select is(batchq.park('{q}') and batchq.park('{q}'), true, 'parking twice is no error');
select batchq.unpark('{q}'), batchq.unpark('{q}') \g /dev/null
select is(t.locks(1651572528), null, 'and needs as many to undo');
select is(batchq.park(array(select 'many-' || i from generate_series(1, 100) i)), true,
    '100 names are taken');
select batchq.unpark(array(select 'many-' || i from generate_series(1, 100) i)) \g /dev/null
select batchq.enqueue('k', queue => 'r') \g /dev/null
select is(t.locks(1651572530), batchq._bell('r') || ' ShareLocktrue',
    'an enqueue holds "ringing" to its commit');
select is(t.locks(1651572528), null, 'F041 and leaves no lock "parked" behind');
select throws_ok(format('select batchq.park(%L)', v), 'JQ001', null,
    format('F065 queues %s are refused', coalesce(left(v, 20), 'null')))
from unnest(array[null, '{}', '{NULL}', '{a,NULL}', '{""}', '{' || repeat('q', 256) || '}',
    '{' || repeat('a,', 100) || 'a}']) v;
select throws_ok($$ select batchq.park('{q,""}') $$, 'JQ001', null,
    'a bad name behind a good one is refused');
select is(t.locks(1651572528), null, 'F041 and nothing is parked then');

select * from finish();
rollback;
