begin;
select plan(27);
\ir ../clock.psql

select is(string_agg(m.task || ' ' || m.done || ' ' || m.more, ', ' order by m.task),
    'floors 0 false, keys 0 false, lanes 0 false, promote 0 false, reap 0 false, '
    'tally 0 false, workers 0 false',
    'with nothing to do every task is done and says so') from batchq.maintain() m;
select is_empty('select * from batchq.maintain()', 'what is not due is skipped');
select is(u.last_at, t.now(), 'F097 when a task was last done is kept') from batchq.upkeep u
    where u.task = 'reap';

select batchq.enqueue('k', queue => 'r', backoff => 'fixed', backoff_base => '5 s') as reaped,
    batchq.enqueue('k', queue => 'p', delay => '500 ms', priority => 4) as promoted,
    t.job_in('completed', 'k', 'K', null, '1 s') as keyed \gset
select batchq.lease('r', lease_for => '0.5 s') \g /dev/null
select t.pass('700 ms') \g /dev/null
select is_empty('select * from batchq.maintain()', 'a second has not passed');
select t.pass('500 ms') \g /dev/null
select is(string_agg(m.task || ' ' || m.done || ' ' || m.more, ', ' order by m.task),
    'promote 1 false, reap 1 false', 'each second leases are taken back and due jobs made ready')
    from batchq.maintain() m;
select is(t.job(:reaped) || ' ' || t.job(:promoted), 'scheduled:1 ready:0',
    'D-10 without anybody leasing from those queues');
select is(t.take('p'), :'promoted', 'A-80 a job that was promoted is leased');
select batchq.complete(:promoted, t.lease_of(:promoted)) \g /dev/null
select t.pass('9 s') \g /dev/null
select is(string_agg(m.task || ' ' || m.done, ', ' order by m.task),
    'keys 1, promote 1, reap 0, tally 0',
    'every ten seconds keys whose window ended are given back') from batchq.maintain() m;
select is((select count(*) from batchq.dedupe), 0::bigint, 'F025 F095 and gone');
select is((select done from batchq.upkeep where task = 'reap'), 1::bigint,
    'what was done is summed up');
select t.pass('10 min') \g /dev/null
select is(string_agg(m.task, ', ' order by m.task), 'floors, keys, lanes, promote, reap, tally, workers', 'all come round') from batchq.maintain() m;

-- bounded steps
select batchq.enqueue_many((select jsonb_agg('{"kind": "k", "queue": "big", "delay": 1}'::jsonb)
    from generate_series(1, 2500))) \g /dev/null
select t.pass('2 s') \g /dev/null
select is((select m.done || ' ' || m.more from batchq.maintain() m where m.task = 'promote'),
    '1000 true', 'F096 a step is bounded and says that there is more');
select is((select m.done || ' ' || m.more from batchq.maintain() m where m.task = 'promote'),
    '1000 true', 'F096 which may be done at once');
select is((select m.done || ' ' || m.more from batchq.maintain() m where m.task = 'promote'),
    '500 false', 'F096 to the end');
select count(*) from batchq.lease('big', 1500, lease_for => '1 s') \g /dev/null
select t.pass('2 s') \g /dev/null
select is((select m.done || ' ' || m.more from batchq.maintain() m where m.task = 'reap'),
    '1000 true', 'F096 so are leases taken back');
select is((select m.done || ' ' || m.more from batchq.maintain() m where m.task = 'reap'),
    '500 false', 'F096 to the end');

-- a paused queue, many queues
select batchq.enqueue('k', queue => 'pz', delay => '1 s') as a,
    batchq.enqueue('k', queue => 'zz-' || i, delay => '1 s')
    from generate_series(1, 3) i limit 1 \gset
select batchq.enqueue('k', queue => 'zz-' || i, delay => '1 s')
    from generate_series(1, 30) i \g /dev/null
select t.pass('1 hour') \g /dev/null
select batchq.maintain() \g /dev/null
select is((select count(*) from batchq.scheduled where queue like 'zz-%' or queue = 'pz'),
    0::bigint, 'due jobs of every queue are made ready');

-- workers that were silent for a day
select batchq.beat_worker(gen_random_uuid(), 'w', 'h', 1, '1', '{q}', '{k}', 1, 0)
    from generate_series(1, 3) \g /dev/null
select t.pass('1 day') \g /dev/null
select is((select m.done || ' ' || m.more from batchq.maintain() m where m.task = 'workers'),
    '0 false', 'F097 a worker that beat a day ago is on the list');
select t.pass('59 s') \g /dev/null
select is_empty('select * from batchq.maintain() m where m.task = ''workers''',
    'the list is looked at once a minute');
select t.pass('1 s') \g /dev/null
select is((select m.done || ' ' || m.more from batchq.maintain() m where m.task = 'workers'),
    '3 false', 'F097 then they are forgotten');

-- a breach would be reported
insert into batchq.floor (queue, line, floor, hard_floor) select 'pz', 'ready', last_value + 10,
    last_value + 10 from batchq.position;
select batchq.enqueue('k', queue => 'pz') as a \gset
update batchq.ready set pos = 1 where job_id = :a;
select t.pass('2 min') \g /dev/null
set local client_min_messages = error;
select is((select m.done >= 1 from batchq.maintain() m where m.task = 'floors'), true,
    'F097 a row below a hard floor is found');
reset client_min_messages;
select ok((select u.breaches >= 1 from batchq.upkeep u where u.task = 'floors'),
    'F097 and counted');

-- a clock that steps back, roles
select t.pass('-1 day') \g /dev/null
select is(t.code('select * from batchq.maintain()'), 'ok',
    'F054 a clock that steps back is no error');
select t.pass('3 days') \g /dev/null
set local role batchq_operator;
select count(*) as done from batchq.maintain() \gset
reset role;
select is(:done, 7, 'F078 the role batchq_operator may call it, inside a transaction');
select t.pass('1 day') \g /dev/null
set local role batchq_worker;
select count(*) as done from batchq.maintain() \gset
reset role;
select is(:done, 7, 'F078 so may batchq_worker');
select throws_ok(format('set local role %I; select batchq.maintain()', r), '42501', null,
    format('D-7 %s may not', r)) from unnest(array['batchq_producer', 'batchq_monitor']) r;

select * from finish();
rollback;
