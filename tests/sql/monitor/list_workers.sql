begin;
select plan(17);
\ir ../clock.psql

create function t.beat(n integer) returns void language sql as $$
    select batchq.beat_worker(format('00000000-0000-4000-8000-%s', lpad($1::text, 12, '0'))::uuid,
        'w' || $1, 'h', 7, '1.2.3', '{a,b}', '{k}', 10, 3, 99, stopping => $1 = 1)
$$;
create function t.listed(n integer default 1000) returns text language sql as $$
    select string_agg(l.worker || case when l.is_alive then '' else '!' end, ' ' order by l.place)
    from (select w.worker, w.is_alive, row_number() over () as place from batchq.list_workers($1) w)
        l
$$;

select is_empty('select * from batchq.list_workers()', 'without workers the list is empty');
select t.beat(1) \g /dev/null
select t.pass('20 s') \g /dev/null
select is(to_jsonb(w) - 'started_at' - 'beat_at', jsonb_build_object('worker_id',
    '00000000-0000-4000-8000-000000000001', 'worker', 'w1', 'host', 'h', 'pid', 7, 'version',
    '1.2.3', 'queues', '["a", "b"]'::jsonb, 'kinds', '["k"]'::jsonb, 'concurrency', 10, 'running',
    3, 'memory_bytes', 99, 'stopping', true, 'is_alive', true,
    'drain_requested_at', null), 'a worker is shown whole')
    from batchq.list_workers() w;
select is(w.started_at || ' ' || w.beat_at, t.now() - interval '20 s' || ' '
    || t.now() - interval '20 s', 'with the times of its first beat and of its last')
    from batchq.list_workers() w;
select t.beat(2) \g /dev/null
select t.pass('1 s') \g /dev/null
select t.beat(3) \g /dev/null
select is(t.listed(), 'w3 w2 w1', 'the newest beat comes first');
select t.beat(1) \g /dev/null
select is(t.listed(), 'w1 w3 w2', 'whoever was there first; at one time by id');
select is(t.listed(2), 'w1 w3', 'n bounds the list');
select t.pass('88.999999 s') \g /dev/null
select is(t.listed(), 'w1 w3 w2', 'one that beat less than 90 s ago is alive');
select t.pass('1 microsecond') \g /dev/null
select is(t.listed(), 'w1 w3 w2!', 'after 90 s it is not');
select t.beat(2) \g /dev/null
select is(t.listed(), 'w2 w1 w3', 'until it beats again; those that are alive come first');
select t.pass('1 day') \g /dev/null
select is(t.listed(), 'w2! w1! w3!', 'dead ones stay on the list until they are forgotten');
select throws_ok(format('select batchq.list_workers(%s)', v), 'JQ001', null,
    format('F065 n of %s is refused', v)) from unnest(array['0', '-1', 'null', '10001']) v;
select lives_ok('select batchq.list_workers(10000)', 'the largest n is taken');

set local role batchq_monitor;
select count(*) as listed from batchq.list_workers() \gset
set local role batchq_producer;
select count(*) as too from batchq.list_workers() \gset
reset role;
select is(:listed, 3, 'F078 the role batchq_monitor may call it');
select is(:too, 3, 'and every other role of batchq');

select * from finish();
rollback;
