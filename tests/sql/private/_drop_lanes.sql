begin;
select plan(9);
\ir ../clock.psql

create function t.lanes(queue text) returns bigint language sql as $$ select
    count(distinct f.priority) from batchq.floor f where f.queue = $1 and f.line = 'ready' $$;
select batchq.enqueue('k', queue => 'many', priority => p)
    from generate_series(0, 99) p \g /dev/null
select batchq.enqueue('k', queue => 'few', priority => p) from generate_series(0, 59) p \g /dev/null
select is(batchq._drop_lanes(), 0::bigint, 'lanes that hold jobs are kept');
select count(*) from batchq.lease('many', 98) \g /dev/null
select count(*) from batchq.lease('few', 60) \g /dev/null
select is(batchq._drop_lanes() >= 98, true,
    'of a queue with more than 64 the empty ones are forgotten');
select is(t.lanes('many'), 2::bigint, 'those with jobs are not');
select is(t.lanes('few'), 60::bigint, 'a queue with fewer keeps them');
select is(batchq._drop_lanes(), 0::bigint, 'asked twice, nothing is left to do');
select batchq.enqueue('k', queue => 'many', priority => 50) as a \gset
select is(t.take('many'), :'a', 'a job added to a forgotten lane goes first all the same');
select is((select count(*) from batchq.lease('many', 10)), 2::bigint, 'and the rest after it');
select batchq.enqueue('k', queue => 'zero', priority => p)
    from generate_series(-70, 70) p \g /dev/null
select count(*) from batchq.lease('zero', 71) \g /dev/null
select batchq._drop_lanes() \g /dev/null
select batchq.enqueue('k', queue => 'zero') as a \gset
select is(t.take('zero'), :'a', 'lane 0 is never forgotten: enqueue relies on it');
select batchq.enqueue('k', queue => 'sched', priority => p, delay => '1 s')
    from generate_series(1, 70) p \g /dev/null
select t.pass('2 s') \g /dev/null
select is((select count(*) from batchq.lease('sched', 100)), 70::bigint,
    'so many lanes of promoted jobs are all served');

select * from finish();
rollback;
