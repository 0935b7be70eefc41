begin;
select plan(8);
\ir ../clock.psql

\set u1 '00000000-0000-4000-8000-000000000001'
\set u2 '00000000-0000-4000-8000-000000000002'
select batchq.beat_worker(u::uuid, 'w', 'h', 7, '1', '{q}', '{k}', 10, 1)
    from unnest(array[:'u1', :'u2']) u \g /dev/null
select batchq.enqueue('k', queue => 'q') as a \gset
select batchq.lease('q', worker => 'w', lease_for => '1 s') \g /dev/null
select is(batchq.drop_worker(:'u1'), true, 'a worker that ends is taken off the list');
select is((select string_agg(worker_id::text, ' ') from batchq.worker), :'u2',
    'F005 another one of its name is not');
select is(batchq.drop_worker(:'u1'), false, 'asked twice is no error');
select is(batchq.drop_worker(null), false, 'nor is null');
select is(t.job(:a), 'leased:1', 'what it leased stays leased');
select batchq.drop_worker(:'u2') \g /dev/null
select t.pass('2 s') \g /dev/null
select is(batchq.reap() || ' ' || t.job(:a), '1 scheduled:1',
    'F006 until the lease runs out: recovery reads leases only');

set local role batchq_worker;
select batchq.drop_worker(:'u1') as dropped \gset
reset role;
select is(:'dropped'::text, 'f', 'F078 the role batchq_worker may call it');
select throws_ok(format('set local role %I; select batchq.drop_worker(null)', r), '42501', null,
    format('D-7 %s may not', r)) from unnest(array['batchq_operator']) r;

select * from finish();
rollback;
