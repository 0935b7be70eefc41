begin;
select plan(51);
\ir ../clock.psql

select is(string_agg(m.task || ' ' || m.done || ' ' || m.more, ', ' order by m.task),
    'age 0 false, audit 0 false, breakers 0 false, floors 0 false, groups 0 false, keys 0 false, '
    'lanes 0 false, limits 0 false, promote 0 false, reap 0 false, rollups 0 false, tally 0 false, workers 0 false',
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
    'age 0 false, promote 1 false, reap 1 false',
    'each second leases are taken back and due jobs made ready')
    from batchq.maintain() m;
select is(t.job(:reaped) || ' ' || t.job(:promoted), 'scheduled:1 ready:0',
    'D-10 without anybody leasing from those queues');
select is(t.take('p'), :'promoted', 'A-80 a job that was promoted is leased');
select batchq.complete(:promoted, t.lease_of(:promoted)) \g /dev/null
select t.pass('9 s') \g /dev/null
select is(string_agg(m.task || ' ' || m.done, ', ' order by m.task),
    'age 0, breakers 0, keys 1, limits 0, promote 1, reap 0, tally 0',
    'every ten seconds keys whose window ended are given back') from batchq.maintain() m;
select is((select count(*) from batchq.dedupe), 0::bigint, 'F025 F095 and gone');
select is((select done from batchq.upkeep where task = 'reap'), 1::bigint,
    'what was done is summed up');
select t.pass('10 min') \g /dev/null
select is(string_agg(m.task, ', ' order by m.task), 
    'age, audit, breakers, floors, groups, keys, lanes, limits, promote, reap, rollups, tally, workers',
    'all come round')
    from batchq.maintain() m;

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
select is(:done, (select count(*)::integer from batchq.upkeep),
    'F078 the role batchq_operator may call it, inside a transaction');
select t.pass('1 day') \g /dev/null
set local role batchq_worker;
select count(*) as done from batchq.maintain() \gset
reset role;
select is(:done, (select count(*)::integer from batchq.upkeep),
    'F078 so may batchq_worker');
select throws_ok(format('set local role %I; select batchq.maintain()', r), '42501', null,
    format('D-7 %s may not', r)) from unnest(array['batchq_producer', 'batchq_monitor']) r;

-- limits: permits that were lost or made
select batchq.set_queue('lim', max_running => 5, rate => 7, lease_for => '1 day') \g /dev/null
select batchq.enqueue('k', queue => 'lim') from generate_series(1, 30) \g /dev/null
select batchq.lease('lim', 2) \g /dev/null
create function t.upkeep(task text) returns text language plpgsql as $$
declare
    v_done bigint;
begin
    perform t.pass('2 min');
    perform set_config('client_min_messages', 'error', true);
    select m.done into v_done from batchq.maintain() m where m.task = $1;
    perform set_config('client_min_messages', 'notice', true);
    return v_done || ' ' || (select u.breaches from batchq.upkeep u where u.task = $1);
end
$$;
select is(t.upkeep('limits'), '0 0', 'limits: with all permits there, nothing is done');
delete from batchq.permit p where p.queue = 'lim' and p.line = 'cap';
select is(t.count('lim'), 0::bigint, 'a queue that lost its permits starts nothing');
select is(split_part(t.upkeep('limits'), ' ', 1), '3', 'F097 they are found');
select is(t.count('lim'), 3::bigint, 'F019 and made again');
insert into batchq.permit (place, n, queue, line)
select last_value, 4, 'lim', 'cap' from batchq.position;
select is(split_part(t.upkeep('limits'), ' ', 1), '4', 'permits that nobody gave are found');
select is(t.free('lim'), 0::bigint, 'and taken away');
select batchq.complete(l.job_id, l.lease_id) from batchq.leased l where l.queue = 'lim' \g /dev/null
select is(t.count('lim') || ' ' || t.upkeep('limits'), '5 0 '
          || (select u.breaches from batchq.upkeep u where u.task = 'limits'),
    'the cap is what it was');
delete from batchq.permit p where p.queue = 'lim' and p.line = 'rate';
select is(split_part(t.upkeep('limits'), ' ', 1), '7', 'so are permits to start');
insert into batchq.permit (place, n, queue, line)
values (batchq._micros(t.now()), 2, 'lim', 'rate');
select is(split_part(t.upkeep('limits'), ' ', 1), '2', 'of the rate');
select batchq.set_queue('lim', clear => '{max_running}') \g /dev/null
select is(t.count('lim'), 7::bigint, 'which is what it was');
select batchq.set_queue('zero', max_running => 0) \g /dev/null
select is(t.upkeep('limits'), '0 0', 'a queue that was stopped has none, and none is missed');

-- groups: seats that were lost or given twice
select batchq.set_queue('g', group_limit => 2, lease_for => '1 day') \g /dev/null
select batchq.enqueue('k', queue => 'g', group_key => g)
    from generate_series(1, 9), unnest(array['a', 'b']) g \g /dev/null
select t.count('g') \g /dev/null
select is(t.upkeep('groups'), '0 0', 'groups: with all seats right, nothing is done');
update batchq.group_state s set seated = 5 where s.queue = 'g' and s.group_key = 'a';
select is(t.upkeep('groups'), '3 3', 'F097 seats that no job has are found and counted');
select batchq.complete(l.job_id, l.lease_id) from batchq.leased l where l.queue = 'g' \g /dev/null
select is(t.count('g') || ' ' || t.seats('g'), '4 a:2 b:2', 'F019 and given again');
update batchq.group_state s set seated = 0 where s.queue = 'g' and s.group_key = 'b';
select is(t.upkeep('groups'), '2 5', 'so are jobs whose seat was lost');
select is(t.count('g') || ' ' || t.seats('g'), '0 a:2 b:2', 'the limit is what it was');
delete from batchq.group_state s where s.queue = 'g';
select is(t.upkeep('groups'), '4 9', 'also where the state is gone');
select is(t.count('g') || ' ' || t.seats('g'), '0 a:2 b:2', 'or two of them');
delete from batchq.call c where c.queue = 'g';
select batchq.complete(l.job_id, l.lease_id) from batchq.leased l where l.queue = 'g' \g /dev/null
delete from batchq.call c where c.queue = 'g';
select is(t.count('g'), 0::bigint, 'a group whose call was lost is stuck');
select is(t.upkeep('groups'), '4 13', 'F097 until it is seen');
select is(t.count('g') || ' ' || t.seats('g'), '4 a:2 b:2', 'F019 and called');
select batchq.complete(l.job_id, l.lease_id) from batchq.leased l where l.queue = 'g' \g /dev/null
update batchq.group_state s set low_rank = 32767, low_pos = 9 where s.queue = 'g';
select batchq._admit('g', 0, 9) \g /dev/null
select is(t.upkeep('groups') || ' ' || t.count('g'), '0 13 4',
    'so are jobs below the mark of their group');

-- groups: starts that were lost
select batchq.set_queue('gr', group_rate => 2, group_period => '1 s') \g /dev/null
select batchq.enqueue('k', queue => 'gr', group_key => 'a') from generate_series(1, 9) \g /dev/null
select t.count('gr') \g /dev/null
update batchq.group_state s set started = 5 where s.queue = 'gr';
select t.pass('1 s'), t.count('gr') \g /dev/null
select is(split_part(t.upkeep('groups'), ' ', 1) || ' ' || t.count('gr'), '3 2',
    'F019 permits of a group to start that nobody has are found and given again');

-- groups at rest
select batchq.complete(l.job_id, l.lease_id) from batchq.lease('g', 99) l \g /dev/null
select batchq.cancel_many(queue => 'g') \g /dev/null
select batchq.complete(l.job_id, l.lease_id) from batchq.leased l where l.queue = 'g' \g /dev/null
select t.count('g'), t.upkeep('groups') \g /dev/null
select is((select count(*) from batchq.group_state s where s.queue = 'g'), 0::bigint,
    'a group that is at rest for a minute is forgotten');

select * from finish();
rollback;
