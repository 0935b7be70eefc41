begin;
select plan(7);
\ir ../clock.psql

create function t.beat(n integer) returns void language sql as $$
    select batchq.beat_worker(format('00000000-0000-4000-8000-%s', lpad($1::text, 12, '0'))::uuid,
        'w' || $1, 'h', 7, '1', '{a}', '{k}', 10, 0)
$$;
select is(batchq._drop_workers(1000), 0::bigint, 'with nobody on the list nobody is forgotten');
select t.beat(i) from generate_series(1, 5) i \g /dev/null
select t.pass('1 s') \g /dev/null
select t.beat(6) \g /dev/null
select t.pass('86399 s') \g /dev/null
select is(batchq._drop_workers(1000), 0::bigint, 'a day after its last beat a worker is there');
select t.pass('1 microsecond') \g /dev/null
select is(batchq._drop_workers(3), 3::bigint, 'then it is forgotten, at most n at once');
select is(batchq._drop_workers(3), 2::bigint, 'and the rest');
select is((select string_agg(worker, ' ') from batchq.worker), 'w6', 'but not one that beat since');
select t.beat(1) \g /dev/null
select is((select count(*) from batchq.list_workers() w where w.is_alive and w.worker = 'w1'),
    1::bigint, 'one that was away and beats again is back');
select is(batchq._drop_workers(3), 0::bigint, 'and stays');

select * from finish();
rollback;
