begin;
select plan(38);
\ir ../clock.psql

-- attempts left, last attempt, asked to stop
select batchq.enqueue('k', queue => 'r', backoff => 'fixed', backoff_base => '7 s',
    dedupe_key => 'A') as a,
       batchq.enqueue('k', queue => 'r', max_attempts => 1, dedupe_key => 'B') as b,
       batchq.enqueue('k', queue => 'r', dedupe_key => 'C') as c,
       batchq.enqueue('k', queue => 'r') as d \gset
select batchq.lease('r', 3, 'w1', '1 s') \g /dev/null
select batchq.lease('r', 1, 'w2', '300 s') \g /dev/null
select batchq.cancel(:c, 'why') \g /dev/null
select t.pass('999 ms') \g /dev/null
select is(batchq.reap(), 0, 'a lease that has not run out is left alone');
select t.pass('1 ms') \g /dev/null
select is(batchq.reap(), 3, 'those that ran out are taken back, and counted');
select is(t.job(:a) || ' ' || t.wait(:a), 'scheduled:1 00:00:07',
    'B-09 C-15 with attempts left the job waits out its backoff');
select is(t.job(:b), 'failed:1', 'F010 C-15 B-09 on the last attempt it is a dead letter');
select is(t.job(:c), 'cancelled:1', 'A-83 one that was asked to stop is cancelled');
select is(t.job(:d), 'leased:1', 'F008 a longer lease beside them stands');
select is((select string_agg(l.job_id::text, ' ') from batchq.leased l where l.queue = 'r'), :'d',
    'F010 no lease row is left of those');
select is(batchq.enqueue('k', queue => 'r', dedupe_key => 'A'), :a::bigint,
    'C-6 a job that waits keeps its key');
select isnt(batchq.enqueue('k', queue => 'r', dedupe_key => 'B'), :b::bigint,
    'F010 F025 a dead letter''s key is free');
select isnt(batchq.enqueue('k', queue => 'r', dedupe_key => 'C'), :c::bigint,
    'F025 a cancelled job''s too');
select is((t.of(:b)).last_error, 'lease expired: worker w1 did not renew it',
    'the error says what happened');
select is((select e.expired from batchq.error e where e.job_id = :b), true,
    'and is told from one that was reported');
select is(batchq.reap(), 0, 'asked twice is no error');
select is((t.of(:a)).attempts, 1, 'A-52 the attempt stays counted');

-- a lease that was extended, a job whose timeout is over
select batchq.enqueue('k', queue => 'e') as la_job,
    batchq.enqueue('k', queue => 't', timeout => '1500 ms', backoff => 'fixed') as b \gset
select l.lease_id as la from batchq.lease('e', lease_for => '1 s') l \gset
select batchq.lease('t', lease_for => '1 s') \g /dev/null
select batchq.extend(array[:la_job], array[:la]::bigint[], '10 s') \g /dev/null
select t.pass('2 s') \g /dev/null
set local intervalstyle = 'iso_8601';
select batchq.reap() \g /dev/null
reset intervalstyle;
select is(t.job(:la_job), 'leased:1', 'B-28 a lease that was extended stands');
select is((t.of(:b)).last_error, 'timed out after 1.5 s',
    'B-06 a job whose timeout is over says so, under any IntervalStyle');
select batchq.enqueue('k', queue => 'nobody') as a \gset
select batchq.lease('nobody', lease_for => '1 s') \g /dev/null
select t.pass('2 s') \g /dev/null
select batchq.reap() \g /dev/null
select is((t.of(:a)).last_error, 'lease expired: worker ? did not renew it',
    'a lease without a worker''s name is taken back as well');

-- bounded, the longest expired first
select batchq.complete(:la_job, :la) \g /dev/null
select batchq.enqueue('k', to_jsonb(i), 'n') from generate_series(1, 5) i \g /dev/null
create temporary table n as select l.* from generate_series(5, 1, -1) i,
    lateral (select * from batchq.lease('n', lease_for => make_interval(secs => i))) l;
select t.pass('10 s') \g /dev/null
select is(batchq.reap(2), 2, 'n bounds a call');
select is((select string_agg(j.payload::text, ' ' order by j.id) from jobs j
    where j.queue = 'n' and j.state = 'scheduled'), '4 5', 'the longest expired go first');
select is(batchq.reap(10000), 3, 'the next takes the rest');
select throws_ok(format('select batchq.reap(%L)', v), 'JQ001', null,
    format('F065 n of %s is refused', coalesce(v, 'null')))
    from unnest(array['0', '-1', null, '10001', '2147483647']) v;

-- F069 B-33 each reaped job draws its own wait
select batchq.enqueue('k', queue => 'jit', backoff_base => '1000 s')
    from generate_series(1, 1000) \g /dev/null
select count(*) from batchq.lease('jit', 1000, lease_for => '1 s') \g /dev/null
select t.pass('2 s') \g /dev/null
select setseed(0.5), batchq.reap(1000) \g /dev/null
select ok(max(x.n) <= 50 and sum(x.n) = 1000 and count(*) > 500,
    'F069 of 1,000 reaped jobs no second holds more than 5 %')
from (select count(*) as n from batchq.scheduled s where s.queue = 'jit'
    group by date_trunc('second', s.run_at)) x;
select ok(min(t.wait(s.job_id)) >= '0' and max(t.wait(s.job_id)) <= '1000 s',
    'F069 and no wait is above the bound') from batchq.scheduled s where s.queue = 'jit';

-- the floor of the expired end hides nothing
insert into batchq.floor (queue, line, floor, hard_floor, sweep_after) values ('', 'leased',
    batchq._micros(t.now()), 0, 'infinity');
select batchq.enqueue('k', queue => 'fl') as a \gset
select batchq.lease('fl', lease_for => '1 s') \g /dev/null
select t.pass('2 s') \g /dev/null
select is(batchq.reap(), 1, 'a lease above the floor is found');

-- a queue nobody leases from, one that is paused
select batchq.enqueue('k', queue => 'pz') as a \gset
select batchq.lease('pz', lease_for => '1 s') \g /dev/null
select batchq.pause('pz') \g /dev/null
select t.pass('2 s') \g /dev/null
select is(batchq.reap(), 1, 'leases of a paused queue are taken back');

-- limits: a lease that ran out holds nothing once it was taken back
select batchq.set_queue('lim', max_running => 1) \g /dev/null
select batchq.enqueue('k', queue => 'lim', backoff => 'fixed', backoff_base => '1 h') as a,
    batchq.enqueue('k', queue => 'lim') as b \gset
select batchq.lease('lim', lease_for => '1 s') \g /dev/null
select t.pass('2 s') \g /dev/null
select is(t.take('lim'), null, 'F007 a lease that ran out counts until it is taken back');
select batchq.reap() \g /dev/null
select is(t.take('lim'), :'b', 'F007 then it does not');
select batchq.set_queue('g1', group_limit => 1) \g /dev/null
select batchq.enqueue('k', queue => 'g1', group_key => 'g', backoff => 'fixed',
        backoff_base => '5 s', max_attempts => 2, dedupe_key => 'K') as a,
    batchq.enqueue('k', queue => 'g1', group_key => 'g') as b \gset
select batchq.lease('g1', lease_for => '1 s') \g /dev/null
select t.pass('2 s'), batchq.reap() \g /dev/null
select is(t.take('g1'), null, 'a job that was reaped keeps its place in its group');
select t.pass('5 s') \g /dev/null
select is(t.take('g1'), :'a', 'F007 its own retry can start');
select t.pass('2 min'), batchq.reap() \g /dev/null
select is(t.job(:a), 'failed:2', 'F010 on its last attempt it fails');
select is(t.take('g1') || ' ' || t.seats('g1'), :b || ' g:1', 'F010 and the next of its group runs');
select is((select count(*) from batchq.dedupe d where d.queue = 'g1'), 0::bigint,
    'F010 its key is free');
select batchq.set_queue('many', max_running => 40, group_limit => 2) \g /dev/null
select batchq.enqueue('k', queue => 'many', group_key => 'g' || i % 20, max_attempts => 1)
    from generate_series(1, 60) i \g /dev/null
select count(*) from batchq.lease('many', 100, lease_for => '1 s') \g /dev/null
select t.pass('2 s'), batchq.reap() \g /dev/null
select is(t.free('many'), 40::bigint, 'F019 all permits come back at once');
select is(t.count('many'), 20::bigint, 'F019 and all seats');

select * from finish();
rollback;
