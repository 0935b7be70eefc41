begin;
select plan(18);
\ir ../clock.psql

\set u1 '00000000-0000-4000-8000-000000000001'
\set u2 '00000000-0000-4000-8000-000000000002'
create function t.beat(worker_id uuid, running integer default 0) returns boolean language sql as $$
    select batchq.beat_worker($1, 'w', 'h', 7, '1.2.3', '{a}', '{k}', 10, $2)
$$;
select is(t.beat(:'u1'), false, 'a worker that nobody asked goes on');
select t.beat(:'u2') \g /dev/null
select is(batchq.drain_worker(:'u1'), true, 'a worker is asked to drain');
select is(w.drain_requested_at, t.now(), 'the list shows since when') from batchq.list_workers() w
    where w.worker_id = :'u1';
select t.pass('10 s') \g /dev/null
select is(t.beat(:'u1', 3), true, 'its next beat tells it');
select is(t.beat(:'u1'), true, 'and all that follow');
select is(t.beat(:'u2'), false, 'no other is asked');
select is(batchq.drain_worker(:'u1'), true, 'asked twice is no error');
select is(w.drain_requested_at, t.now() - interval '10 s', 'and keeps the first time')
    from batchq.list_workers() w where w.worker_id = :'u1';
select is(string_agg(concat_ws(' | ', a.action, a.target, a.details), ', '),
    'drain_worker | worker ' || :'u1' || ' | {"pid": 7, "host": "h", "worker": "w"}',
    'it is written down once') from batchq.list_audit() a;
select is(batchq.drain_worker(gen_random_uuid()), false, 'one that is not on the list cannot be');
select is(batchq.drain_worker(null), false, 'nor can nobody');
select t.pass('89.999999 s') \g /dev/null
select is(batchq.drain_worker(:'u2'), true, 'one that beat less than 90 s ago is alive');
select t.pass('1 microsecond') \g /dev/null
select is(batchq.drain_worker(:'u2'), false, 'after 90 s it is not');
select batchq.drop_worker(:'u1'), t.beat(:'u1') \g /dev/null
select is(t.beat(:'u1'), false, 'one that signed off and comes again is asked no more');

set local role batchq_operator;
select batchq.drain_worker(:'u1') as asked \gset
reset role;
select ok(:'asked', 'F074 the role batchq_operator may call it');
select throws_ok(format('set local role %I; select batchq.drain_worker(null)', r), '42501', null,
    format('F074 %s may not', r))
    from unnest(array['batchq_producer', 'batchq_worker', 'batchq_monitor']) r;

select * from finish();
rollback;
